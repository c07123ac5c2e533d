"""Raw files of ids whose type a header or a file beside them says."""

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.formats import find_tokens, is_token_place
from fathom.objectives.tokens.stream import TokenFiles, TokenReader

IDS = np.random.default_rng(0).integers(0, 50_257, 4000)


def megatron(folder: Path, dtype: str, code: int, *, documents: int = 4, version: int = 1) -> Path:
    """As Megatron-LM writes its indexed data sets: a .bin, and an .idx beside it."""
    file, ids = folder / f"corpus{code}.bin", IDS.astype(dtype)
    ids.tofile(file)
    sizes = np.full(documents, len(ids) // documents, "<i4")
    places = np.arange(documents, dtype="<i8") * (len(ids) // documents) * ids.itemsize
    head = b"MMIDIDX\0\0" + pack("<QBQQ", version, code, documents, documents + 1)
    order = np.arange(documents + 1, dtype="<i8")
    file.with_suffix(".idx").write_bytes(
        head + sizes.tobytes() + places.tobytes() + order.tobytes()
    )
    return file


def ids_of(place: Path, dtype: str | None = None) -> list[int]:
    data = find_tokens(str(place), "train", column=None, dtype=dtype)
    reader = TokenReader(TokenFiles(data.segments, 0))
    return [int(each) for each in reader.block(0, data.tokens)]


@pytest.mark.parametrize(("dtype", "code"), [("<i4", 4), ("<u2", 8), ("<i8", 5), ("<u4", 9)])
def test_the_idx_of_megatron_says_the_type(dtype: str, code: int, tmp_path: Path) -> None:
    assert ids_of(megatron(tmp_path, dtype, code)) == IDS.tolist()
    assert is_token_place(str(tmp_path))


def test_a_folder_of_several_types_is_read_by_the_idx_of_each(tmp_path: Path) -> None:
    megatron(tmp_path, "<i4", 4)
    megatron(tmp_path, "<u2", 8)
    assert ids_of(tmp_path) == IDS.tolist() * 2


def test_an_idx_of_another_kind_says_nothing(tmp_path: Path) -> None:
    IDS.astype("<u2").tofile(tmp_path / "a.bin")
    (tmp_path / "a.idx").write_bytes(b"offsets")
    assert ids_of(tmp_path / "a.bin") == IDS.tolist()


def altered(file: Path, change: Callable[[bytes], bytes]) -> Path:
    file.write_bytes(change(file.read_bytes()))
    return file


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a .bin cut short": (
        lambda f: altered(megatron(f, "<i4", 4), lambda b: b[:-8]),
        r"must have 16000 bytes of int32, as corpus4.idx beside it says, got 15992",
    ),
    "an .idx cut short": (
        lambda f: altered(megatron(f, "<i4", 4).with_suffix(".idx"), lambda b: b[:50]),
        r"must have the 4 sequences it counts, but is cut short",
    ),
    "an .idx of fractions": (lambda f: megatron(f, "<f4", 7), r"version 1 and type 7; write"),
    "an .idx of the future": (lambda f: megatron(f, "<i4", 4, version=2), r"got version 2"),
}


@pytest.mark.parametrize("what", sorted(WRONG))
def test_files_that_do_not_belong_together_are_refused(what: str, tmp_path: Path) -> None:
    make, message = WRONG[what]
    with pytest.raises(ObjectiveError, match=message):
        ids_of(make(tmp_path).with_suffix(".bin"))


def test_a_dtype_against_what_the_file_says_is_refused(tmp_path: Path) -> None:
    file = megatron(tmp_path, "<i4", 4)
    with pytest.raises(
        ObjectiveError, match=r"must be int32, as corpus4.idx says .*got uint16; drop"
    ):
        ids_of(file, "uint16")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(IDS)
    file = tmp_path / "llmc.bin"
    file.write_bytes(header.tobytes() + IDS.astype("<u2").tobytes())
    assert ids_of(file, "uint16") == IDS.tolist()
    with pytest.raises(ObjectiveError, match=r"as its header says .*got uint32"):
        ids_of(file, "uint32")


def test_a_shard_of_ours_that_is_named_alone_has_its_type(tmp_path: Path) -> None:
    (tmp_path / "train-00000.bin").write_bytes(IDS.astype("<u4").tobytes())
    (tmp_path / "index.json").write_text(
        '{"format": "fathom-tokens-1", "dtype": "uint32", "vocabulary": 50257, "end": null, '
        '"splits": {"train": {"tokens": 4000, "documents": 1, "bytes": 9, "shards": [{"file": '
        f'"train-00000.bin", "tokens": 4000, "sha256": "{"0" * 64}"}}]}}}}}}'
    )
    assert ids_of(tmp_path / "train-00000.bin") == IDS.tolist()


FORMS: dict[str, tuple[bytes, str]] = {
    "gzip": (gzip.compress(IDS.astype("<u2").tobytes()), r"packed by gzip.*zcat "),
    "zstd": (b"(\xb5/\xfd" + b"\x11" * 1000, r"packed by zstd"),
    "a pickle": (pickle.dumps(IDS.tolist()), r"a pickle, which is never opened"),
    "a zip": (b"PK\x03\x04" + bytes(range(256)), r"a zip archive, such as torch.save"),
    "weights": (pack("<256i", 20240326, 3, *[0] * 254) + b"\x01" * 99, r"another file of llm.c"),
    "text": (b"To be, or not to be, that is the question.\n" * 40, r"fathom tokenize .*a.bin"),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_holds_no_raw_ids_is_named_with_a_remedy(form: str, tmp_path: Path) -> None:
    content, message = FORMS[form]
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(ObjectiveError, match=message) as error:
        ids_of(tmp_path / "a.bin")
    assert "\n" not in str(error.value)


def test_arrays_are_known_by_their_header_and_not_by_their_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", IDS.astype("<u4"))
    (tmp_path / "a.npy").rename(tmp_path / "a.bin")
    assert ids_of(tmp_path / "a.bin") == IDS.tolist()
    for kind in ("uint16", "uint32"):
        IDS.astype(kind).tofile(tmp_path / "raw.npy")
        with pytest.raises(ObjectiveError, match=rf"no .npy header.*`dtype: {kind}`"):
            ids_of(tmp_path / "raw.npy")
        assert ids_of(tmp_path / "raw.npy", kind) == IDS.tolist()


@pytest.mark.parametrize(
    ("index", "program"),
    [
        ('{"chunks": [], "config": {"item_loader": "TokensLoader"}}', "litdata"),
        ('{"version": 2, "shards": [{"format": "mds"}]}', "MosaicML Streaming"),
    ],
)
def test_chunks_of_other_programs_are_refused_by_name(
    index: str, program: str, tmp_path: Path
) -> None:
    IDS.astype("<u2").tofile(tmp_path / "chunk-0-0.bin")
    (tmp_path / "index.json").write_text(index)
    for place in (tmp_path, tmp_path / "chunk-0-0.bin"):
        with pytest.raises(ObjectiveError, match=f"chunks of {program}"):
            ids_of(place)
