"""Every form in which token ids lie on a disk, whole and damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.formats import find_tokens, has_split, is_token_place
from fathom.objectives.tokens.shards import Index, Shard, Split, write_index
from fathom.objectives.tokens.stream import TokenFiles, TokenReader

PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
IDS = np.arange(1000, dtype=np.int64) * 31 % 509


def read_all(place: Path, split: str = "train", **keys: Any) -> NDArray[np.int64]:
    data = find_tokens(str(place), split, **{"column": None, "dtype": None} | keys)
    reader = TokenReader(TokenFiles(data.segments, 1 << 40))
    (found,) = reader.read(np.zeros(1, np.int64), data.tokens)
    ids: NDArray[np.int64] = found
    return ids


def header(magic: int, version: int, tokens: int) -> bytes:
    numbers = np.zeros(256, "<i4")
    numbers[:3] = magic, version, tokens
    return numbers.tobytes()


def raw(folder: Path) -> Path:
    return written(folder / "ids.bin", IDS.astype("<u2").tobytes())


def llmc(folder: Path) -> Path:
    return written(folder / "ids.bin", header(20240520, 1, 1000) + IDS.astype("<u2").tobytes())


def llmc_of_llama(folder: Path) -> Path:
    return written(folder / "ids.bin", header(20240801, 7, 1000) + IDS.astype("<u4").tobytes())


def numpy_file(folder: Path) -> Path:
    return saved(folder, IDS.reshape(10, 100).astype(np.uint16))


def several(folder: Path) -> Path:
    for number, part in enumerate(np.split(IDS, [300, 301, 900])):
        part.astype("<u2").tofile(folder / f"ids_{number}.bin")
    return folder / "ids_*.bin"


def rows() -> pa.Table:
    lists = [part.tolist() for part in np.split(IDS, [3, 3, 700])]
    return pa.table({"text": list("abcd"), "input_ids": pa.array(lists, pa.list_(pa.int32()))})


def write_arrow(
    folder: Path, table: pa.Table, *, rows_at_once: int, form: Any, **options: Any
) -> Path:
    path = folder / "ids.arrow"
    with pa.OSFile(str(path), "wb") as file, form(file, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=rows_at_once)
    return path


def arrow_stream(folder: Path) -> Path:
    return write_arrow(folder, rows(), rows_at_once=2, form=pa.ipc.new_stream)


def arrow_file(folder: Path) -> Path:
    table = pa.table({"tokens": pa.array(IDS, pa.uint16())})
    return write_arrow(folder, table, rows_at_once=300, form=pa.ipc.new_file)


def fixed_lists(folder: Path) -> Path:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(IDS, pa.int64()), 10)
    table = pa.table({"ids": lists})
    return write_arrow(folder, table, rows_at_once=30, form=pa.ipc.new_stream)


def datasets_folder(folder: Path) -> Path:
    """As `save_to_disk` of `datasets` writes a dataset of two splits."""
    place = folder / "saved" / "train"
    place.mkdir(parents=True)
    (folder / "saved" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    arrow_stream(place).rename(place / "data-00000-of-00001.arrow")
    files = [{"filename": "data-00000-of-00001.arrow"}]
    (place / "state.json").write_text(json.dumps({"_data_files": files, "_indices_files": None}))
    return folder / "saved"


def shards(folder: Path) -> Path:
    parts = []
    for number, part in enumerate(np.split(IDS, [400])):
        part.astype("<u2").tofile(folder / f"train-{number}.bin")
        parts.append(Shard(file=f"train-{number}.bin", tokens=len(part), sha256="0" * 64))
    split = Split(tokens=1000, documents=3, bytes=4000, shards=tuple(parts))
    settings: dict[str, Any] = {"format": "fathom-tokens-1", "dtype": "uint16", "end": 0}
    write_index(folder, Index(vocabulary=509, splits={"train": split}, **settings))
    return folder


FORMS: dict[str, Callable[[Path], Path]] = {
    form.__name__: form
    for form in (
        *(raw, llmc, llmc_of_llama, numpy_file, several, shards),
        *(arrow_stream, arrow_file, fixed_lists, datasets_folder),
    )
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_gives_its_ids_in_order(form: str, tmp_path: Path) -> None:
    place = FORMS[form](tmp_path)
    assert (read_all(place) == IDS).all()
    assert is_token_place(str(place))


def test_shards_say_their_vocabulary_bytes_and_splits(tmp_path: Path) -> None:
    place = str(shards(tmp_path))
    found = find_tokens(place, "train", column=None, dtype=None)
    assert (found.vocabulary, found.bytes, found.hashes) == (509, 4000, ("0" * 64,) * 2)
    assert has_split(place, "train")
    assert not has_split(place, "validation")


def cut(path: Path, by: int) -> Path:
    path.write_bytes(path.read_bytes()[:-by])
    return path


def replaced(path: Path, text: str, other: str) -> Path:
    path.write_text(path.read_text().replace(text, other))
    return path.parent


def shuffled(folder: Path) -> Path:
    place = datasets_folder(folder)
    return replaced(place / "train" / "state.json", "null", '[{"filename": "indices.arrow"}]')


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def column(folder: Path, ids: Any, **options: Any) -> Path:
    return write_arrow(
        folder, pa.table({"ids": ids}), rows_at_once=100, form=pa.ipc.new_file, **options
    )


def missing_shard(folder: Path) -> Path:
    (shards(folder) / "train-1.bin").unlink()
    return folder


def saved(folder: Path, array: NDArray[Any]) -> Path:
    np.save(folder / "ids.npy", array)
    return folder / "ids.npy"


def parquet(folder: Path) -> Path:
    pq.write_table(rows(), folder / "a.parquet")
    return folder / "a.parquet"


def numpy_head(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


NUMPY_SHAPE = "{{'descr': '<u2', 'fortran_order': False, 'shape': ({},)}}\n"
DAMAGE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing there": (lambda f: f / "none", "must lie in a file, a folder or a glob"),
    "a pattern of nothing": (lambda f: f / "*.bin", r"must hold files of token ids .*got none"),
    "an empty folder": (lambda f: f, "must hold files of token ids"),
    "an empty file": (lambda f: written(f / "a.bin", b""), "must hold token ids, got none"),
    "half an id": (lambda f: cut(raw(f), 1), "whole ids of 2 bytes .*got 1999 bytes"),
    "a text": (lambda f: written(f / "a.txt", b"some text"), "fathom tokenize"),
    "a cut file with a header": (lambda f: cut(llmc(f), 2), "its header counts, got 3022"),
    "more than the header says": (
        lambda f: written(f / "a.bin", header(20240520, 1, 9) + b"\0" * 20),
        "1042 bytes for the 9 tokens",
    ),
    "half a header": (lambda f: cut(llmc(f), 2500), "must have a header of 1024 bytes"),
    "another version": (
        lambda f: written(f / "a.bin", header(20240520, 2, 0)),
        "version 1 in its header",
    ),
    "a header of no sense": (
        lambda f: written(f / "a.bin", header(20240801, 7, -1)),
        "4,294,967,295 tokens",
    ),
    "no array": (lambda f: written(f / "a.npy", b"nonsense"), "must be a .npy file"),
    "a header that is no Python": (
        lambda f: written(f / "a.npy", numpy_head("(" * 50)),
        "must be a .npy file",
    ),
    "a header of too many ids": (
        lambda f: written(f / "a.npy", numpy_head(NUMPY_SHAPE.format(10**30))),
        "1,000,000,000,000,000,000,000,000,000,000 ids of its header",
    ),
    "a cut array": (lambda f: cut(numpy_file(f), 7), "ids of its header, got"),
    "an array of fractions": (lambda f: saved(f, np.ones(9)), "whole numbers, stored row by row"),
    "an array by columns": (
        lambda f: saved(f, np.asfortranarray(IDS.reshape(10, 100))),
        "stored column by column",
    ),
    "an array of objects": (lambda f: saved(f, np.array([1, "a"], object)), "whole numbers"),
    "no arrow": (lambda f: written(f / "a.arrow", b"nonsense!" * 9), "must be a whole Arrow file"),
    "an empty arrow": (lambda f: written(f / "a.arrow", b""), "must be a whole Arrow file"),
    "a cut arrow": (lambda f: cut(arrow_file(f), 700), "must be a whole Arrow file"),
    "packed arrow": (
        lambda f: column(f, IDS, options=PACKED),
        "must not be compressed.*--field ids --tokenizer ids --vocabulary",
    ),
    "gaps in a column": (lambda f: column(f, pa.array([1, None, 3])), "with nulls"),
    "parquet": (parquet, "--field input_ids --tokenizer ids --vocabulary 509 --out FOLDER"),
    "no parquet": (lambda f: written(f / "a.parquet", b"PAR1"), "must be a whole parquet file"),
    "a shuffled dataset": (shuffled, "flatten_indices"),
    "a dataset without its state": (
        lambda f: written(f / "state.json", b"{}").parent,
        "by `save_to_disk` of `datasets`",
    ),
    "an index of nothing": (
        lambda f: written(f / "index.json", b"[]").parent,
        "an index that `fathom tokenize` wrote",
    ),
    "a wrong index": (
        lambda f: replaced(shards(f) / "index.json", '"fathom-tokens-1"', '"tokens-9"'),
        "got input should be 'fathom-tokens-1' at format",
    ),
    "a path in the index": (
        lambda f: replaced(shards(f) / "index.json", "train-1.bin", "../train-1.bin"),
        "file",
    ),
    "an index that does not add up": (
        lambda f: replaced(shards(f) / "index.json", '"tokens": 600', '"tokens": 601'),
        "sum of its shards' tokens, got 1000",
    ),
    "a shard that is gone": (missing_shard, "file of 1200 bytes, as its index says, got none"),
    "a cut shard": (lambda f: cut(shards(f) / "train-1.bin", 2).parent, "1200 bytes.*got 1198"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_damage_is_refused_in_a_line_with_the_remedy(damage: str, tmp_path: Path) -> None:
    place, message = DAMAGE[damage]
    with pytest.raises(ObjectiveError, match=message) as error:
        read_all(place(tmp_path))
    assert "\n" not in str(error.value)


def test_the_column_and_the_type_are_those_that_are_named(tmp_path: Path) -> None:
    IDS.astype("<u4").tofile(tmp_path / "ids.u32")
    assert (read_all(tmp_path / "ids.u32", dtype="uint32") == IDS).all()
    place = arrow_stream(tmp_path)
    with pytest.raises(ObjectiveError, match="column of token ids, labels, got text, input_ids"):
        read_all(place, column="labels")
    with pytest.raises(ObjectiveError, match="whole numbers in its column of ids, got string"):
        read_all(place, column="text")
