"""Files of text in blocks: `objectives/tokens/making/sources.py`."""

from pathlib import Path

import pytest

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
