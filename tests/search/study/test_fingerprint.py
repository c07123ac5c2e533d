"""A text that changes between two starts is refused: `search/study/fingerprint.py`."""

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.objectives.contract import data_digest_of
from fathom.objectives.prepare import prepare
from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.study_file import parse
from fathom.search.study.fingerprint import (
    fingerprint_of,
    keep_content,
    read_fingerprint,
    settled_fingerprint,
    write_fingerprint,
)
from fathom.search.study.keys.config import StudyConfig

LANGUAGE = "language, corpus: {path}, context: 8, eval_tokens: 64"
ROWS = "transduction, data: {path}, context: 8"
PLACE = "text.txt"
TEXTS = "classification, data: {path}, context: 8, label: last"


def study_on(path: Path, objective: str) -> StudyConfig:
    keys = objective.format(path=path)
    return parse(f"study: demo\nbudgets: [8k]\nobjective: {{name: {keys}}}\n")


def digest(config: StudyConfig) -> str:
    return data_digest_of(prepare(config.objective))


@pytest.mark.parametrize("objective", [LANGUAGE, ROWS, TEXTS])
def test_one_letter_anywhere_in_the_data_is_another_digest(tmp_path: Path, objective: str) -> None:
    path = tmp_path / "data.tsv"
    content = "".join(f"word {at % 10}\t{'ab'[at % 2]}\n" for at in range(2000))
    config = study_on(path, objective)
    path.write_text(content)
    first = digest(config)
    assert first == digest(config)
    for at in (0, len(content) // 2):
        place = content.index("word", at)
        path.write_text(content[:place] + "w" + content[place + 1 :].replace("word", "ward", 1))
        assert digest(config) != first


def test_a_folder_refuses_other_data_than_it_was_begun_on(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path), study_on(tmp_path / "text.txt", LANGUAGE)
    begun = settled_fingerprint(folder, fingerprint_of(config, "a text"), PLACE, str)
    assert begun == fingerprint_of(config, "a text")
    write_fingerprint(folder, begun)
    assert settled_fingerprint(folder, fingerprint_of(config, "a text"), PLACE, str) == begun
    with pytest.raises(RunFolderError, match=r"text\.txt has changed since .*put the old data"):
        settled_fingerprint(folder, fingerprint_of(config, "another text"), PLACE, str)
    assert read_fingerprint(folder) == begun


def test_a_copy_of_the_data_is_known_by_every_byte_once_they_were_read(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path), study_on(tmp_path / "text.txt", LANGUAGE)
    moved = fingerprint_of(config, "other times")
    keep_content(folder, PLACE, fingerprint_of(config, "sizes and times"), "all bytes")
    begun = read_fingerprint(folder)
    assert begun == replace(fingerprint_of(config, "sizes and times"), content="all bytes")
    assert settled_fingerprint(folder, moved, PLACE, lambda: "all bytes") == begun
    with pytest.raises(RunFolderError, match="put the old data back"):
        settled_fingerprint(folder, moved, PLACE, lambda: "other bytes")


def test_bytes_that_changed_behind_the_sample_are_refused(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path), study_on(tmp_path / "text.txt", LANGUAGE)
    begun = replace(fingerprint_of(config, "a sample"), content="all bytes")
    keep_content(folder, PLACE, begun, "all bytes")
    with pytest.raises(RunFolderError, match=r"has changed since \(digest other"):
        keep_content(folder, PLACE, begun, "other")


def test_a_damaged_fingerprint_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.fingerprint.write_bytes(b'{"study": 3}')
    with pytest.raises(DamagedFileError, match=r"fingerprint\.json: .*restore the file"):
        read_fingerprint(folder)
