"""A stranger's run folder is data: what reads it changes nothing elsewhere and runs nothing."""

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.search.study.file.study_file import dump
from fathom.search.tracking.writing.publishing import report_study
from tests.support.command_line import Done, fathom
from tests.support.dry_run import Simulation, scheduler, study

pytestmark = [pytest.mark.siege, pytest.mark.timeout(3600)]

CONFIG = study(budgets=(20_000,))
ESCAPE = "\\e]0;owned\\a\\e[2J"
Snapshot = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Machine:
    """A machine of which every file is watched, and a stranger's runs folder on it."""

    place: Path
    before: Snapshot

    @property
    def run(self) -> Path:
        """The stranger's run folder."""
        return self.place / "theirs" / "runs" / CONFIG.study

    def changed(self) -> set[str]:
        """Files and folders that are new, gone or other than before, but for what may be."""
        after = snapshot(self.place)
        names = {name for name in self.before | after if self.before.get(name) != after.get(name)}
        return {name for name in names if not is_allowed(name)}


def snapshot(place: Path) -> Snapshot:
    """Path -> what the system says of it when it changes, of everything under a folder."""
    found: Snapshot = {}
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            path = Path(folder, name)
            seen = path.lstat()
            times = () if path.is_dir() else (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size)
            found[str(path.relative_to(place))] = (seen.st_ino, seen.st_mode, seen.st_uid, *times)
    return found


def is_allowed(name: str) -> bool:
    """True for the run folder, not for the store beside it, and for what an option names."""
    return name.startswith((f"theirs/runs/{CONFIG.study}/", "mine/out"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with a run that has ended, and its store."""
    search = scheduler(CONFIG, tmp_path_factory.mktemp("runs") / "runs" / CONFIG.study)
    Simulation(search).run()
    search.folder.config.write_text(dump(CONFIG))
    store = search.folder.path.parent / "mlflow.db"
    for _ in range(5):  # on a busy machine MLflow may start too late for the first report
        report_study(search.folder.path)
        if store.exists():
            return store.parent
    raise TimeoutError(f"no {store} was made")


KINDS = (
    *("naming code", "a copy", "an undecodable address", "a journal", "pipes", "links"),
    *("a hard link", "new artifacts"),
)
TRIGGER = """
CREATE TRIGGER t{n} AFTER {act} BEGIN
    UPDATE runs SET artifact_uri = 'file://{victim}';
    UPDATE experiments SET artifact_location = 'file://{victim}';
END;
"""
UNDECODABLE = """
UPDATE runs SET artifact_uri = CAST(x'2fff' AS TEXT), lifecycle_stage = 'deleted'
WHERE run_uuid = (SELECT min(run_uuid) FROM runs)
"""
ACTS = ("INSERT ON tags", "INSERT ON runs", "INSERT ON metrics", "UPDATE ON runs")


@pytest.fixture(params=[pytest.param("a trigger", marks=pytest.mark.drill), *KINDS])
def machine(request: pytest.FixtureRequest, runs: Path, tmp_path: Path) -> Machine:
    place = tmp_path / "machine"
    for name in ("home", "tmp", "mine", "victim/artifacts", "theirs"):
        (place / name).mkdir(parents=True)
    victims = [place / "victim" / name for name in ("lock", "report.lock", "best", "best.yaml")]
    for victim in victims:
        victim.write_text("mine")
    theirs = shutil.copytree(runs, place / "theirs" / "runs")
    arm(theirs / CONFIG.study, runs, place / "victim", request.param)
    return Machine(place, snapshot(place))


def arm(run: Path, copied: Path, victim: Path, kind: str) -> None:
    """Sets traps in a run folder; a copy, of one's own folder, leads to where that was."""
    new = run.parent / "mlartifacts"
    if kind in ("a copy", "naming code"):
        new = victim / "artifacts"
    if kind == "a copy":
        shutil.copytree(copied, victim / "runs")
        new = victim / "runs" / "mlartifacts"
    with closing(sqlite3.connect(run.parent / "mlflow.db")) as store, store:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            before = f"file://{copied}/mlartifacts"
            asked = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
            assert store.execute(asked, (before, f"file://{new}")).rowcount
    if kind == "a copy":
        return
    _arm_store(run.parent / "mlflow.db", victim, kind)
    for name in ("lock", "report.lock"):
        (run / "state" / name).unlink(missing_ok=True)
        os.link(victim / name, run / "state" / name)
    (run / "best.yaml.tmp").symlink_to(victim / "best")
    best = (run / "best.yaml").read_text()
    (run / "best.yaml").write_text(best + f'reason: "{ESCAPE}"\n')
    if kind == "naming code":
        (run.parent / "evil.py").write_text(f"open({str(victim / 'owned')!r}, 'w')\n")
        named = dump(CONFIG) + f"tracking: {{uri: 'sqlite:///{victim}/named.db'}}\n"
        named = named.replace("name: language", "name: evil:Evil")
        (run / "config.yaml").write_text(named)


def _arm_store(store: Path, victim: Path, kind: str) -> None:
    """Sets the traps of a store, and of what SQLite keeps beside it."""
    if kind in ("a trigger", "an undecodable address"):
        harm = "".join(TRIGGER.format(n=n, act=act, victim=victim) for n, act in enumerate(ACTS))
        with closing(sqlite3.connect(store)) as database:
            database.executescript(harm if kind == "a trigger" else UNDECODABLE)
    journal = store.with_name("mlflow.db-journal")
    match kind:
        case "a journal":  # which SQLite deletes together with the file that it names at its end
            name, magic = str(victim / "best.yaml").encode(), bytes.fromhex("d9d505f920a163d7")
            end = len(name).to_bytes(4) + sum(name).to_bytes(4) + magic
            journal.write_bytes(magic + bytes(508) + name + end)
        case "pipes":
            os.mkfifo(journal)
            os.mkfifo(store.with_name("mlflow.db-wal"))
        case "links":
            journal.symlink_to(victim / "best.yaml")
            store.rename(victim / "mlflow.db")
            store.symlink_to(victim / "mlflow.db")
        case "a hard link":
            os.link(store, victim / "mlflow.db")
        case "new artifacts":
            store.unlink()
            shutil.rmtree(store.with_name("mlartifacts"))
            store.with_name("mlartifacts").symlink_to(victim / "artifacts")


COMMANDS = (
    "report RUN",
    "status RUN",
    "compare RUN RUN",
    "export RUN --out OUT.yaml",
    "export RUN",
    "export RUN --format hf --out OUT-hf",
    "train RUN --tokens 2k --out OUT-trained",
    "analyse RUN/tables/trials.csv --report OUT-page",
    "analyse RUN/tables/trials.csv",
)


def test_commands_write_only_where_they_say_and_run_nothing(machine: Machine) -> None:
    ended = []
    for command in COMMANDS:
        done = typed(machine, command)
        ended.append(f"{command}: {done.returncode}")
        assert machine.changed() == set(), command
        assert "Traceback" not in done.stderr, done.stderr
        said = done.stdout + done.stderr
        assert not [mark for mark in said if mark < " " and mark != "\n"], command
    assert not (machine.place / "victim" / "owned").exists()
    print(*ended, sep="\n")


def typed(machine: Machine, command: str) -> Done:
    """The end of a command that is typed in a folder of one's own."""
    place = machine.place
    words = command.replace("RUN", str(machine.run)).replace("OUT", str(place / "mine" / "out"))
    settings = {"HOME": place / "home", "TMPDIR": place / "tmp", "XDG_CACHE_HOME": place / "home"}
    environment = {name: str(value) for name, value in settings.items()}
    # Caches of speeds and of fonts, which are of this machine.
    caches = dict.fromkeys(("FATHOM_CACHE", "MPLCONFIGDIR"), str(place / "mine" / "out-cache"))
    return fathom(*words.split(), cwd=place / "mine", **environment, **caches)
