"""Text, JSON lines and parquet to shards: whole, interrupted, and refused."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.making import cut, run, writer
from fathom.objectives.tokens.making.cut import Cutter
from fathom.objectives.tokens.making.run import HowFar, Making, make_tokens
from fathom.objectives.tokens.shards import SPLITS, Index, read_index
from tests.support.objectives import prepared

DOCUMENTS = [f"The {n}. document, of {n * n} \N{GREEK SMALL LETTER MU}m.\n" * 3 for n in range(400)]
END = 256


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker processes, which take seconds to start; one test has them."""

    def in_order(blocks: Any, settings: Any) -> Iterator[Any]:
        cutter = Cutter(settings)
        return ((block, cutter.cut(block)) for block in blocks)

    monkeypatch.setattr(run, "cut_in_order", in_order)


def make(source: Path, out: Path, **settings: Any) -> Index:
    chosen: dict[str, Any] = {"tokenizer": "bytes", "validation": 0.2} | settings
    return make_tokens(Making(source=str(source), out=out, **chosen), ignore, ignore)


def ignore(_: object) -> None:
    pass


def ids_of(out: Path, split: str) -> NDArray[Any]:
    index = read_index(out)
    files = [out / shard.file for shard in index.splits[split].shards]
    return np.concatenate([np.fromfile(file, index.stored) for file in files])


def documents_of(out: Path, split: str) -> list[str]:
    """The documents of shards of bytes."""
    ids = ids_of(out, split)
    parts = np.split(ids, np.flatnonzero(ids == END))
    return [part[part != END].astype(np.uint8).tobytes().decode() for part in parts]


def json_lines(folder: Path) -> Path:
    file = folder / "documents.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n\n" for text in DOCUMENTS))
    return file


def zipped(folder: Path) -> Path:
    plain = json_lines(folder)
    (folder / "documents.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()
    return folder


def zstandard(folder: Path) -> Path:
    plain = json_lines(folder)
    with pa.OSFile(f"{plain}.zst", "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    return folder / "*.zst"


def parquet(folder: Path) -> Path:
    texts = [*DOCUMENTS, None]
    pq.write_table(pa.table({"text": texts}), folder / "a.parquet", row_group_size=90)
    return folder / "a.parquet"


def files(folder: Path) -> Path:
    (folder / ".hidden").write_bytes(b"\xff")
    for number, text in enumerate(DOCUMENTS):
        (folder / f"{number:04d}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("form", [json_lines, zipped, zstandard, parquet, files])
def test_every_document_is_in_one_split_once(form: Callable[[Path], Path], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    index = make(form(tmp_path / "in"), out)
    parts = {split: documents_of(out, split) for split in SPLITS}
    assert [text for text in DOCUMENTS if text in set(parts["train"])] == parts["train"]
    assert sorted(parts["train"] + parts["validation"]) == sorted(DOCUMENTS)
    assert 40 < len(parts["validation"]) < 120
    for split, texts in parts.items():
        assert index.splits[split].documents == len(texts)
        assert index.splits[split].bytes == sum(len(text.encode()) for text in texts)


def test_a_long_text_is_parted_only_where_pieces_are_held_out(tmp_path: Path) -> None:
    text = "".join(f"line {n} \N{GREEK SMALL LETTER MU}\n" for n in range(300_000))
    endless = "\N{GREEK SMALL LETTER MU}m\N{GRINNING FACE}" * 400_000
    for name, content in (("long", text), ("endless", endless)):
        (tmp_path / f"{name}.txt").write_text(content)
        make(tmp_path / f"{name}.txt", tmp_path / name, validation=0)
        assert documents_of(tmp_path / name, "train") == [content], "cut between characters"
        assert set(read_index(tmp_path / name).splits) == {"train"}
    make(tmp_path / "long.txt", tmp_path / "out")
    parts = sum((documents_of(tmp_path / "out", split) for split in SPLITS), list[str]())
    assert sum(map(len, parts)) == len(text)
    assert 10 < len(parts) < 60
    assert all(text.count(part) == 1 for part in parts)


def test_byte_pairs_are_learned_and_the_study_reads_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(json_lines(tmp_path), out, tokenizer="bpe:300")
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    end = read_index(out).end
    parts = np.split(ids_of(out, "train"), np.flatnonzero(ids_of(out, "train") == end))
    decoded = [tokenizer.decode(part[part != end].tolist()) for part in parts]
    assert set(decoded) <= set(DOCUMENTS)
    again = make(json_lines(tmp_path), tmp_path / "again", tokenizer=str(out / "tokenizer.json"))
    assert again.splits == read_index(out).splits
    task = prepared("tokens", train=str(out), context=16, eval_tokens=64)
    assert task.vocab_size == 300
    assert task.tokens_per_byte == pytest.approx(
        read_index(out).splits["validation"].tokens / read_index(out).splits["validation"].bytes
    )


def test_an_interrupted_making_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SHARD_TOKENS", 7000)
    monkeypatch.setattr("fathom.objectives.tokens.making.sources.BLOCK_BYTES", 1000)
    source = json_lines(tmp_path)
    whole = make(source, tmp_path / "whole")
    out, seen = tmp_path / "out", list[int]()

    def interrupt(how_far: HowFar) -> None:
        seen.append(how_far.tokens)
        if len(seen) in (5, 17, 30):
            raise KeyboardInterrupt

    making = Making(source=str(source), tokenizer="bytes", validation=0.2, out=out)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            make_tokens(making, interrupt, ignore)
        for split in SPLITS:  # a kill leaves more than the last note counts
            with max(out.glob(f"{split}-*.bin")).open("ab") as opened:
                opened.write(b"more")
    assert make_tokens(making, interrupt, ignore) == whole
    assert seen == sorted(seen)
    for split in SPLITS:
        assert (ids_of(out, split) == ids_of(tmp_path / "whole", split)).all()
        assert len(whole.splits[split].shards) > 1


def test_what_is_there_is_not_made_again_and_other_files_are_left_alone(tmp_path: Path) -> None:
    source, out = json_lines(tmp_path), tmp_path / "out"
    first = make(source, out)
    times = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    assert make(source, out) == first
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.bin")}.items() <= times.items()
    for place, other, message in (
        (out, {"validation": 0.1}, "must be a new folder or one of the same source"),
        (out, {"tokenizer": "bpe:300"}, "must be a new folder or one of the same source"),
        (tmp_path, {}, r"must be a new folder, got .*documents\.jsonl"),
    ):
        with pytest.raises(ObjectiveError, match=message):
            make(source, place, **other)
    assert {file.name for file in tmp_path.iterdir()} == {"documents.jsonl", "out"}


def test_a_column_of_ids_becomes_shards(tmp_path: Path) -> None:
    rows = [[n, n + 1, 2] for n in range(300)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "ids.parquet")
    out, settings = tmp_path / "out", {"tokenizer": "ids", "field": "input_ids"}
    make(tmp_path / "ids.parquet", out, validation=0, vocabulary=301, **settings)
    assert (ids_of(out, "train").reshape(-1, 3) == rows).all()
    with pytest.raises(ObjectiveError, match="below --vocabulary, 300, and not negative, got 300"):
        make(tmp_path / "ids.parquet", tmp_path / "other", vocabulary=300, **settings)


def test_a_column_of_ids_is_no_text_to_learn_a_tokenizer_from(tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"ids": [[1, 2, 3]] * 9}), path)
    with pytest.raises(ObjectiveError, match=r"text in its column ids, got list;.*--tokenizer ids"):
        make(path, tmp_path / "out", tokenizer="bpe:8192", field="ids")


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


WRONG: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "nothing there": (lambda f: f / "none.txt", {}, "file, a folder or a glob .* got '.*none.txt'"),
    "an empty file": (lambda f: written(f / "a.txt", b""), {}, "must hold text, got none"),
    "no UTF-8": (lambda f: written(f / "a.txt", b"ab\xffc"), {}, r"UTF-8 text, got .*0xff"),
    "a zero byte": (lambda f: written(f / "a.txt", b"ab\0c"), {}, "a zero byte at offset 2"),
    "half a gz": (
        lambda f: written(f / "a.txt.gz", gzip.compress(b"text" * 900, mtime=0)[:-9]),
        {},
        "read to its end: Compressed file ended",
    ),
    "no gz": (lambda f: written(f / "a.txt.gz", b"text"), {}, "Not a gzipped file"),
    "no zst": (lambda f: written(f / "a.txt.zst", b"text" * 9), {}, "read to its end:"),
    "no JSON": (
        lambda f: written(f / "a.jsonl", b"text\n"),
        {},
        "object with `text` per line, got",
    ),
    "another key": (
        lambda f: written(f / "a.jsonl", b'{"body": "a", "id": 3}\n'),
        {},
        "got body, id .*--field",
    ),
    "a list of JSON": (lambda f: written(f / "a.json", b'["a", "b"]'), {}, "got no object"),
    "no parquet": (lambda f: written(f / "a.parquet", b"PAR1"), {}, "read to its end:"),
    "another column": (parquet, {"field": "body"}, "must have a column body, got text"),
    "no ids": (parquet, {"tokenizer": "ids", "vocabulary": 9}, "lists of token ids in its column"),
    "ids without a vocabulary": (parquet, {"tokenizer": "ids"}, "needs `--vocabulary`"),
    "a vocabulary without ids": (parquet, {"vocabulary": 9}, "goes with `--tokenizer ids` alone"),
    "more ids than the text has": (json_lines, {"tokenizer": "bpe:9000"}, "use bpe:[0-9]+ or more"),
    "fewer ids than bytes": (json_lines, {"tokenizer": "bpe:9"}, "must have N > 256"),
    "no tokenizer": (json_lines, {"tokenizer": "none.json"}, "must be a tokenizer.json, got No"),
    "another end": (json_lines, {"tokenizer": "OWN", "end": "<end>"}, "<end>, got none; name it"),
}


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_what_does_not_suit_is_refused_and_leaves_no_index(wrong: str, tmp_path: Path) -> None:
    form, settings, message = WRONG[wrong]
    (tmp_path / "in").mkdir()
    source = form(tmp_path / "in")
    if settings.get("tokenizer") == "OWN":
        make(source, tmp_path / "own")
        settings = settings | {"tokenizer": str(tmp_path / "own" / "tokenizer.json")}
    with pytest.raises(ObjectiveError, match=message) as error:
        make(source, tmp_path / "out", **settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out" / "index.json").exists()


def test_a_long_document_has_the_same_ids_in_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(DOCUMENTS[first : first + 50]) for first in range(0, 400, 50)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    make(tmp_path / "in.jsonl", tmp_path / "whole", tokenizer="bpe:300")
    monkeypatch.setattr(cut, "PORTION", 300)
    make(tmp_path / "in.jsonl", tmp_path / "parts", tokenizer="bpe:300")
    for split in SPLITS:
        assert (ids_of(tmp_path / "parts", split) == ids_of(tmp_path / "whole", split)).all()
    assert "".join(cut.portions("x" * 1000 + " y" * 500)) == "x" * 1000 + " y" * 500


def test_a_tokenizer_that_fails_is_one_line(tmp_path: Path) -> None:
    words = Tokenizer(WordLevel({"a": 0, "</s>": 1}, unk_token="none"))
    words.save(str(tmp_path / "words.json"))
    (tmp_path / "in.txt").write_text("b")
    with pytest.raises(ObjectiveError, match=r"must cut .*in\.txt, got .*UNK.*; name another"):
        make(tmp_path / "in.txt", tmp_path / "out", tokenizer=str(tmp_path / "words.json"))


def test_workers_cut_as_one_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = json_lines(tmp_path)
    alone = make(source, tmp_path / "alone")
    monkeypatch.undo()
    monkeypatch.setattr("fathom.objectives.tokens.making.sources.BLOCK_BYTES", 4000)
    assert make(source, tmp_path / "out").splits == alone.splits


def saved_dataset(folder: Path, texts: list[str]) -> Path:
    """A data set as `save_to_disk` of `datasets` writes it."""
    folder.mkdir(parents=True)
    table = pa.table({"text": texts, "url": texts})
    file = str(folder / "data-00000-of-00001.arrow")
    with pa.OSFile(file, "wb") as opened, pa.ipc.new_stream(opened, table.schema) as stream:
        stream.write_table(table, max_chunksize=300)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_files": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_a_dataset_of_text_is_cut_as_its_documents_and_of_several_splits_the_one_to_train_on(
    tmp_path: Path,
) -> None:
    saved_dataset(tmp_path / "all" / "train", DOCUMENTS)
    saved_dataset(tmp_path / "all" / "validation", ["held out\n"])
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    make(tmp_path / "all", tmp_path / "out")
    make(tmp_path / "all" / "train", tmp_path / "again")
    for out in ("out", "again"):
        found = [text for split in SPLITS for text in documents_of(tmp_path / out, split)]
        assert sorted(filter(None, found)) == sorted(DOCUMENTS)


def test_a_dataset_without_a_split_to_train_on_is_refused(tmp_path: Path) -> None:
    saved_dataset(tmp_path / "all" / "test", DOCUMENTS[:3])
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    with pytest.raises(ObjectiveError, match="without the split train; name the folder of one"):
        make(tmp_path / "all", tmp_path / "out")


def test_text_where_ids_should_be_is_answered_with_the_command_that_cuts_it(
    tmp_path: Path,
) -> None:
    folder = saved_dataset(tmp_path / "texts", DOCUMENTS[:3])
    table = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": DOCUMENTS[:3]}), table)
    for place, source in ((folder, folder), (table, table)):
        with pytest.raises(
            ObjectiveError, match=f"got text in .*fathom tokenize {source} --field text"
        ):
            prepared("tokens", train=str(place), vocabulary=300)


def test_a_folder_is_cut_without_what_its_names_hold_out(tmp_path: Path) -> None:
    source, said = tmp_path / "texts", list[str]()
    source.mkdir()
    for name, text in (
        ("train.txt", "to train on\n"),
        ("valid.txt", "held out\n"),
        ("test.txt", "t"),
    ):
        (source / name).write_text(text * 50)
    making = Making(source=str(source), out=tmp_path / "out", tokenizer="bytes", validation=0)
    make_tokens(making, ignore, said.append)
    assert set("".join(documents_of(tmp_path / "out", "train")).splitlines()) == {"to train on"}
    assert said == ["left out, as held out by name: valid.txt; tokenize it alone for `validation`"]
