"""Code that a run folder names is run only when the user says so: `search/study/preflight.py`."""

from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.preflight import (
    check_trusted,
    check_trusted_study,
)

PLAIN = parse("study: s\nbudgets: [8k]\nobjective: language")
COMMAND = """
study: s
budgets: [8k]
objective: {name: external, vocabulary: 256, context: 32}
train: {command: [python, train.py, "{depth}", "{d_model}", "{folder}"], batch_size: 4}
"""
FOREIGN = {
    "evil_obj:Evil": parse("{study: s, budgets: [8k], objective: 'evil_obj:Evil'}"),
    "evil:build": parse("{study: s, budgets: [8k], objective: hop, model: {build: 'evil:build'}}"),
    "python train.py": parse(COMMAND),
    "evil.Sampler": parse("{study: s, budgets: [8k], objective: hop, sampler: evil.Sampler}"),
}
"""Code that a study names -> the study."""


@pytest.mark.parametrize(("code", "foreign"), FOREIGN.items(), ids=FOREIGN)
def test_a_study_file_is_its_users_word_and_a_run_folder_is_not(
    tmp_path: Path, code: str, foreign: StudyConfig
) -> None:
    check_trusted_study(foreign, tmp_path / "study.yaml", trust=False)
    (tmp_path / "records.jsonl").touch()
    check_trusted_study(foreign, tmp_path / "config.yaml", trust=True)
    check_trusted_study(PLAIN, tmp_path / "config.yaml", trust=False)
    with pytest.raises(ConfigError, match=rf"names code, {code}.*--trust"):
        check_trusted_study(foreign, tmp_path / "config.yaml", trust=False)
    with pytest.raises(ConfigError, match="--trust"):
        check_trusted(foreign, tmp_path / "best.yaml", trust=False)


@pytest.mark.parametrize("tracking", ["uri: 'http://me:pw@host'", "uri: 'sqlite:////x/mlflow.db'"])
@pytest.mark.parametrize("beside", ["records.jsonl", "fingerprint.json", "best.yaml", "state"])
def test_a_store_that_a_run_folder_names_needs_trust_and_one_of_ones_own_study_does_not(
    tmp_path: Path, tracking: str, beside: str
) -> None:
    named = parse(f"{{study: s, budgets: [8k], objective: language, tracking: {{{tracking}}}}}")
    file = tmp_path / "config.yaml"
    check_trusted_study(named, file, trust=False)
    (tmp_path / beside).touch()
    check_trusted_study(named, file, trust=True)
    check_trusted_study(PLAIN, file, trust=False)
    with pytest.raises(ConfigError, match=r"names (http|sqlite).*--trust") as refused:
        check_trusted_study(named, file, trust=False)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("way", ["a link", "another name", "what a report wrote to MLflow"])
def test_no_other_name_makes_a_study_of_a_run_folder_ones_own(tmp_path: Path, way: str) -> None:
    run, own = tmp_path / "run", tmp_path / "own"
    for folder in (run / "artifacts", own):
        folder.mkdir(parents=True)
    (run / "records.jsonl").touch()
    file = {"a link": own / "study.yaml", "another name": run / "study.yaml"}.get(way)
    file = file or run / "artifacts" / "config.yaml"
    if way == "a link":
        file.symlink_to(run / "config.yaml")
    with pytest.raises(ConfigError, match="--trust"):
        check_trusted_study(FOREIGN["evil_obj:Evil"], file, trust=False)
