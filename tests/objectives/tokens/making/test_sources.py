"""Files of text in blocks: `objectives/tokens/making/sources.py`."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.making import sources
from fathom.objectives.tokens.making.sources import SourceFile, find_sources, read_blocks


def test_a_long_line_is_not_copied_once_for_each_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_at(text: bytes, file: SourceFile) -> int:
        lengths.append(len(text))
        return end(text, file)

    line, lengths, end = b"x" * 1_000_000, list[int](), sources._end
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(sources, "_end", looked_at)
    (tmp_path / "a.jsonl").write_bytes(line)
    (block,) = read_blocks(find_sources(str(tmp_path / "a.jsonl")), "text")
    assert block.content == line
    assert sum(lengths) < 10 * len(line)


def test_a_document_that_no_tokenizer_could_hold_is_refused_in_a_table_and_read_from_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["short", "long\n" * 200]
    monkeypatch.setattr(sources, "LONGEST_DOCUMENT", 500)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(
        ObjectiveError, match=r"at most 500 bytes, got a longer one after row 0.*txt"
    ):
        list(read_blocks(find_sources(str(tmp_path / "a.parquet")), "text"))
    (tmp_path / "a.jsonl").write_text('{"text": "' + "a" * 600)
    with pytest.raises(ObjectiveError, match=r"a line of over 500 bytes; .*txt"):
        list(read_blocks(find_sources(str(tmp_path / "a.jsonl")), "text"))
    (tmp_path / "a.txt").write_text(texts[1])
    (block,) = read_blocks(find_sources(str(tmp_path / "a.txt")), "text")
    assert block.content == texts[1].encode()


def test_rows_that_are_stored_once_are_not_all_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROWS_BYTES", 5000)
    pq.write_table(pa.table({"text": ["x" * 1000] * 300}), tmp_path / "a.parquet")
    blocks = list(read_blocks(find_sources(str(tmp_path / "a.parquet")), "text"))
    assert sum(len(block.content) for block in blocks) == 300
    assert max(len(block.content) for block in blocks) == 5
