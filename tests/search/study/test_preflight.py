"""Code that a run folder names is run only when the user says so: `search/study/preflight.py`."""

from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import parse
from fathom.search.study.preflight import check_trusted, check_trusted_study

FOREIGN = parse("study: s\nbudgets: [8k]\nobjective: {name: 'evil_obj:Evil'}\n")


def test_a_study_file_is_its_users_word_and_a_run_folder_is_not(tmp_path: Path) -> None:
    check_trusted_study(FOREIGN, tmp_path / "study.yaml", trust=False)
    (tmp_path / "records.jsonl").touch()
    check_trusted_study(FOREIGN, tmp_path / "config.yaml", trust=True)
    check_trusted_study(
        parse("study: s\nbudgets: [8k]\nobjective: language"), tmp_path, trust=False
    )
    with pytest.raises(ConfigError, match=r"names code, evil_obj:Evil.*--trust"):
        check_trusted_study(FOREIGN, tmp_path / "config.yaml", trust=False)
    with pytest.raises(ConfigError, match="--trust"):
        check_trusted(FOREIGN, tmp_path / "best.yaml", trust=False)
