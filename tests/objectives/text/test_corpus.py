import gzip
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.download import cache_folder, read_file
from fathom.objectives.text.corpus import check_corpus, read_corpus, split_documents
from fathom.objectives.text.language.keys import LanguageConfig
from tests.support.objectives import refused

FRACTION = 0.1


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def everything(corpus: str) -> bytes:
    split = read_corpus(corpus, validation_fraction=FRACTION)
    return split.train + split.validation


def test_the_standard_library_is_a_corpus_of_its_own_source_without_tests() -> None:
    split = read_corpus("stdlib", validation_fraction=FRACTION)
    both = split.train + split.validation
    assert len(both) > 5_000_000
    assert b"class JSONDecodeError(ValueError):" in both
    assert b"class RegressionTests(" not in both
    assert len(split.validation) == pytest.approx(FRACTION * len(both), rel=0.1)


def test_gzipped_text_is_read_as_text(tmp_path: Path) -> None:
    text = "a line of text\n" * 100
    write(tmp_path, {"plain.txt": text, "zipped.txt.gz": gzip.compress(text.encode())})

    plain, zipped = (everything(str(tmp_path / name)) for name in ("plain.txt", "zipped.txt.gz"))

    assert zipped == plain
    (tmp_path / "half.txt.gz").write_bytes(gzip.compress(text.encode())[:20])
    with pytest.raises(ObjectiveError, match=r"half\.txt\.gz must be a readable file.* whole \.gz"):
        everything(str(tmp_path / "half.txt.gz"))


@pytest.mark.parametrize(("size", "context"), [(0, 8), (30, 8), (1000, 999), (1000, 100)])
@pytest.mark.parametrize("tokenizer", ["bytes", "bpe:300"])
def test_a_plan_refuses_short_text(tmp_path: Path, size: int, context: int, tokenizer: str) -> None:
    (tmp_path / "text").write_text("x" * size)
    keys = LanguageConfig(
        name="language", corpus=str(tmp_path / "text"), context=context, tokenizer=tokenizer
    )

    with pytest.raises(ObjectiveError, match=r"both splits|text for training and validation"):
        keys.vocab_size()


def test_tiny_shakespeare_splits_where_its_users_split_it(mirror: Path) -> None:
    split = read_corpus("tiny_shakespeare", validation_fraction=FRACTION)
    assert (len(split.train), len(split.validation)) == (1_003_854, 111_540)
    assert split.train.startswith(b"First Citizen:")


def test_the_cheap_check_of_a_published_corpus_asks_the_mirror_and_fetches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda request, **_: asked.append(request))
    check_corpus("tiny_shakespeare")
    assert not asked
    assert not cache_folder().exists()
    monkeypatch.setenv("FATHOM_MIRROR", str(tmp_path))
    with refused("FATHOM_MIRROR"):
        check_corpus("tiny_shakespeare")


def test_a_file_is_split_at_its_last_tenth(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "0123456789" * 10})
    split = read_corpus(str(tmp_path / "a.txt"), validation_fraction=FRACTION)
    assert split.train == b"0123456789" * 9
    assert split.validation == b"0123456789"


def test_a_folder_is_read_whole_and_sorted_but_for_hidden_and_binary_files(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        {
            "b.txt": "bbbbbbbbbb",
            "a.md": "aaaaaaaaaa",
            "sub/c": "cccccccccc",
            ".hidden": "hhhhhhhhhh",
            ".git/d": "dddddddddd",
            "image.png": b"\x89PNG\x00",
            "latin.txt": "caf\xe9".encode("latin-1"),
        },
    )
    split = read_corpus(str(tmp_path), validation_fraction=FRACTION)
    assert split.train == b"a" * 9 + b"\n" + b"b" * 9 + b"\n" + b"c" * 9
    assert split.validation == b"a\nb\nc"


def test_a_corpus_is_a_name_before_a_path_and_may_be_a_glob_or_begin_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"x.txt": "x" * 10, "deep/er/y.txt": "y" * 10, "z.md": "z" * 10, "stdlib": "mine" * 10}
    monkeypatch.chdir(write(tmp_path, {**files}))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert everything("~/x.txt") == everything("~/*.txt") == b"x" * 10
    assert everything("./stdlib") == b"mine" * 10 != everything("stdlib")
    text = everything(str(tmp_path / "**" / "*.txt"))
    assert text.count(b"x") == text.count(b"y") == 10
    assert b"z" not in text


@pytest.mark.parametrize(
    ("corpus", "words"),
    [
        ("tiny_shakespere", "one of stdlib, tiny_shakespeare, "),
        ("tiny_shakespere", "did you mean 'tiny_shakespeare'"),
        ("data/missing.txt", "got 'data/missing.txt'; check the path"),
        ("", "got ''"),
        ("x" * 5000, "existing file"),
        ("missing/*.txt", "one file that is not hidden, got none in 'missing/*.txt'"),
        ("/dev/null", "regular file"),
        ("empty", "at least one file that is not hidden"),
    ],
)
def test_an_invalid_corpus_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: str, words: str
) -> None:
    monkeypatch.chdir(write(tmp_path, {"empty/.only/hidden": "text"}))
    for read in (check_corpus, everything):
        with refused(words):
            read(corpus)


@pytest.mark.parametrize(
    ("content", "defect"),
    [
        (b"text\x00more", r"a zero byte at offset 4; tr -d '\\000'"),
        (
            "caf\xe9 au lait".encode("latin-1"),
            r"the invalid byte 0xe9 at offset 3 \(likely CP1252\); iconv -f CP1252",
        ),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, defect: str) -> None:
    write(tmp_path, {"bad.bin": content})
    for corpus in (tmp_path / "bad.bin", tmp_path, tmp_path / "*.bin"):
        with pytest.raises(ObjectiveError, match=rf"bad\.bin has {defect}"):
            everything(str(corpus))


def test_an_unreadable_file_is_named_rather_than_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "readable"})
    locked = tmp_path / "b.txt"
    if os.geteuid():
        locked.touch(mode=0o000)
    elif Path("/proc/self/mem").exists():
        locked.symlink_to("/proc/self/mem")  # Not even root can read its first byte.
    else:
        pytest.skip("root can read every file here")
    for read, place in ((everything, tmp_path), (check_corpus, locked)):
        with pytest.raises(
            ObjectiveError, match=r"must (be readable|not be a system file).*b\.txt"
        ):
            read(str(place))


def test_a_text_too_short_to_split_is_refused(tmp_path: Path) -> None:
    for content in ("", "x"):
        write(tmp_path, {"a.txt": content})
        with pytest.raises(ObjectiveError, match=f"holds {len(content)} bytes"):
            everything(str(tmp_path / "a.txt"))


def parts_of(documents: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The documents of the training split, and those that are held out."""
    split = split_documents(documents, validation_fraction=FRACTION)
    return split.train.split(b"\n"), split.validation.split(b"\n")


def test_many_documents_are_held_out_whole_with_the_same_mix_of_sizes() -> None:
    documents = [b"%06d|" % size + b"x" * size for size in range(100, 1100)]
    train, held_out = parts_of(documents)
    assert {*held_out, *train} == {*documents}
    assert len(held_out) == 100
    sizes = sorted(map(len, held_out))
    assert {larger - smaller for smaller, larger in itertools.pairwise(sizes)} == {10}


def test_copies_stay_on_one_side_and_the_order_of_documents_does_not_count() -> None:
    documents = [b"document %04d" % (number // 2) for number in range(400)]
    train, held_out = parts_of(documents)
    assert not {*train} & {*held_out}
    assert len(held_out) == 40
    assert sorted(parts_of(documents[::-1])[1]) == sorted(held_out)


def test_one_document_that_outweighs_the_rest_gives_its_tail() -> None:
    parts = parts_of([b"L" * 100_000, *(b"small %03d" % n for n in range(100))])
    assert [b"".join(part).count(b"L") for part in parts] == [90_000, 10_000]


@given(st.text(min_size=30), st.floats(0.05, 0.5))
def test_a_cut_loses_nothing_and_never_falls_inside_a_character(text: str, fraction: float) -> None:
    split = split_documents([text.encode()], validation_fraction=fraction)
    assert split.train.decode() + split.validation.decode() == text


@given(
    st.lists(st.text("xy", min_size=1, max_size=60), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.1, 0.2, 0.5]),
)
def test_every_document_is_somewhere_and_the_held_out_share_is_near_the_fraction(
    texts: list[str], fraction: float
) -> None:
    split = split_documents([text.encode() for text in texts], validation_fraction=fraction)
    kept, held_out = (len(part.replace(b"\n", b"")) for part in (split.train, split.validation))
    total = sum(map(len, texts))
    assert kept + held_out == total
    rounding = len(texts)
    assert fraction / 2 * total <= held_out <= 2 * fraction * total + rounding
    assert kept >= (1 - fraction) / 2 * total - rounding


def test_files_of_the_system_and_pipes_are_no_text(tmp_path: Path) -> None:
    for corpus in ("/proc", "/proc/kmsg", "/sys/kernel"):
        with refused("system file", "copy its text to a file"):
            check_corpus(corpus)
    os.mkfifo(tmp_path / "rows.tsv")
    with refused("it is not a regular file"):
        read_file(tmp_path / "rows.tsv")
