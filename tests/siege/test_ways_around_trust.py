"""Nothing that a stranger's run folder names or holds is run without `--trust`."""

import os
import pickle
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from unittest.mock import MagicMock

import pytest
import torch

from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import dump
from tests.support.command_line import here
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.planted import PlantedPickle

pytestmark = [pytest.mark.siege, pytest.mark.timeout(3600)]

CONFIG = study(budgets=(20_000,), trials=4)
EVIL = "import pathlib\npathlib.Path('OWNED').touch()\nclass Evil: pass\ndef evil(*_): pass\n"
COMMANDS = (
    *("report RUN", "status RUN", "compare RUN RUN", "export RUN"),
    *("train RUN --tokens 600", "run RUN/config.yaml", "plan RUN/config.yaml"),
)
NAMING_A_STORE = (
    *("run RUN/config.yaml", "run RUN/config.yaml --extend", "run RUN/mine.yaml", "run link.yaml"),
    *("plan RUN/config.yaml", "check RUN/config.yaml", "doctor RUN/config.yaml"),
    *("ui --study RUN/config.yaml", "report RUN"),
)
NAMED = {
    "an objective": ("name: language", "name: evil:Evil"),
    "a model": ("build: null", "build: evil:evil"),
    "a sampler": ("sampler: curve", "sampler: evil.Evil"),
    "a parser": ("parser: null", "parser: evil:evil"),
    "a command": ("command: null", "command: [touch, OWNED, '{depth} {d_model} {folder}']"),
}
"""What names code in `config.yaml` -> a text of it, and the other in its place."""
TAGGED = {
    "a call": "!!python/object/apply:pathlib.Path.touch [!!python/object/new:pathlib.Path [OWNED]]",
    "a module": "!!python/module:evil",
    "a name": "!!python/name:evil.Evil",
}
"""Values of YAML that other readers run."""


@dataclass(frozen=True)
class Place:
    """A folder of one's own, in which a stranger's code lies, beside the stranger's run."""

    folder: RunFolder
    proof: Path
    """The file that is there once code was run."""

    def types(self, command: str) -> str:
        """Types a command; returns what it says."""
        done = here(*command.replace("RUN", str(self.folder.path)).split(), cwd=self.proof.parent)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    search = scheduler(CONFIG, tmp_path_factory.mktemp("whole") / CONFIG.study)
    Simulation(search).run()
    search.folder.config.write_text(dump(CONFIG))
    return search.folder.path


@pytest.fixture
def place(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folder = RunFolder(shutil.copytree(whole, tmp_path / "runs" / CONFIG.study))
    # The page and MLflow take seconds, and read nothing but records and the store.
    monkeypatch.setattr("fathom.search.report.pages.writer.make_charts", lambda *_: ())
    monkeypatch.setattr("fathom.search.tracking.writing.publishing.Tracker", MagicMock())
    here("report", folder.path)
    proof = tmp_path / "mine" / "OWNED"
    proof.parent.mkdir()
    for beside in (proof.parent, folder.path):
        (beside / "evil.py").write_text(EVIL.replace("OWNED", str(proof)))
    # No search begins here, whatever a command decides.
    monkeypatch.setattr("fathom.search.cluster.session.ray_session.start_ray", refuse)
    yield Place(folder, proof)
    assert not proof.exists(), "a stranger's code was run"


def refuse(*_: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("what", NAMED)
def test_code_that_a_run_folder_names_is_not_run(place: Place, what: str) -> None:
    for file in (place.folder.config, place.folder.best):
        text = file.read_text()
        before, after = NAMED[what]
        assert before in text or file == place.folder.best
        file.write_text(text.replace(before, after.replace("OWNED", str(place.proof))))
    for command in COMMANDS:
        place.types(command)
        assert not place.proof.exists(), command


@pytest.mark.parametrize("what", TAGGED)
@pytest.mark.parametrize("name", ["config.yaml", "best.yaml"])
def test_yaml_makes_no_objects(place: Place, what: str, name: str) -> None:
    file = place.folder.path / name
    tagged = TAGGED[what].replace("OWNED", str(place.proof))
    file.write_text(f"{file.read_text()}\nmore: {tagged}\n")
    for command in COMMANDS:
        place.types(command)
        assert not place.proof.exists(), command


@pytest.mark.parametrize(
    "name",
    [
        *("state/checkpoints/20k-explore-000.pt", "state/ray/simulated/error.pkl"),
        *("state/optuna.log", "records.jsonl", "state/journal.jsonl", "fingerprint.json"),
        *("best.yaml", "config.yaml", "../.tokens/0/train.npy", "../mlflow.db", "state/seconds"),
    ],
)
def test_nothing_in_a_run_folder_is_unpickled(place: Place, name: str) -> None:
    file = place.folder.path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(PlantedPickle(place.proof)))
    for command in COMMANDS:
        place.types(command)
        assert not place.proof.exists(), command


@pytest.mark.parametrize("kind", ["a pickle", "a state of PyTorch"])
def test_weights_of_a_stranger_are_not_unpickled(place: Place, kind: str) -> None:
    weights = place.folder.path / "trained"
    weights.mkdir()
    for name in ("weights.pt", "model.pt", "checkpoint.pt"):
        if kind == "a pickle":
            (weights / name).write_bytes(pickle.dumps(PlantedPickle(place.proof)))
        else:
            torch.save({"weight": PlantedPickle(place.proof)}, weights / name)
    place.types(f"export RUN --format hf --out out --weights {weights}")


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:PORT", "http://me:pw@127.0.0.1:PORT/x", "sqlite:///MINE/named.db"],
)
def test_no_store_that_a_run_folder_names_hears_of_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    with create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        named = address.replace("PORT", str(listener.getsockname()[1]))
        named = named.replace("MINE", str(place.proof.parent))
        text = place.folder.config.read_text().replace("uri: null", f"uri: '{named}'")
        assert named in text
        for file in (place.folder.config, place.folder.path / "mine.yaml"):
            file.write_text(text)
        (place.proof.parent / "link.yaml").symlink_to(place.folder.config)
        for command in NAMING_A_STORE:
            said = place.types(command)
            assert "--trust" in said, f"{command}: {said}"
            assert "pw" not in said
            with pytest.raises(BlockingIOError):
                listener.accept()
            assert not (place.proof.parent / "named.db").exists()
        for command in COMMANDS:
            place.types(command)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("way", ["by a link", "by another path", "by --runs", "in capitals"])
def test_no_other_path_to_a_run_folder_makes_it_ones_own(place: Place, way: str) -> None:
    folder = place.folder
    text = folder.config.read_text().replace("name: language", "name: evil:Evil")
    folder.config.write_text(text)
    link = place.proof.parent / "config.yaml"
    with suppress(OSError):
        os.symlink(folder.config, link)
    commands = {
        "by a link": [f"run {folder.path.parent}/simulated/../simulated/config.yaml"],
        "by another path": [f"plan {os.path.relpath(folder.config, place.proof.parent)}"],
        "by --runs": [f"run RUN/config.yaml --runs {folder.path.parent}"],
        "in capitals": ["report RUN/", "train RUN/."],
    }
    for command in commands[way]:
        said = place.types(command)
        assert "names code, evil:Evil" in said or command.startswith("report"), said
