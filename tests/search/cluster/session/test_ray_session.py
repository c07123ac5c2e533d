"""Ray started on this machine, where it can't be: `search/cluster/session/ray_session.py`."""

import errno
from collections import namedtuple
from pathlib import Path

import pytest

from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.cluster.session.ray_session import start_ray
from fathom.search.study.keys.groups import ResourcesConfig
from tests.support.command_line import fathom

RESOURCES = ResourcesConfig(gpus_per_trial=0)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    return monkeypatch


def test_a_folder_that_ray_cannot_write_to_is_named_with_the_remedy(
    alone: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    alone.setenv("RAY_TMPDIR", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"Ray can't start .*set RAY_TMPDIR") as refusal:
        start_ray(RESOURCES, "fathom run")
    assert refusal.value.filename == str(tmp_path / "file")
    assert refusal.value.errno == errno.ENOTDIR


def test_a_folder_whose_name_is_too_long_for_a_socket_is_named_with_the_remedy(
    alone: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    alone.setenv("RAY_TMPDIR", str(long))
    with pytest.raises(
        OSError, match=r"cannot exceed .*RAY_TMPDIR to a writable folder with a short"
    ):
        start_ray(RESOURCES, "fathom run")


def test_a_full_disk_is_found_before_ray_waits_for_its_processes(
    alone: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone.setenv("RAY_TMPDIR", str(tmp_path))
    usage = namedtuple("usage", ["total", "used", "free"])
    alone.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 4096))
    with pytest.raises(OSError, match=r"Ray can't start \(no space left\)") as refusal:
        start_ray(RESOURCES, "fathom run")
    assert refusal.value.errno == errno.ENOSPC


def test_the_user_gets_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(TWO_BUDGETS)
    (tmp_path / "file").touch()
    places = {"RAY_ADDRESS": "local", "RAY_TMPDIR": str(tmp_path / "file")}
    done = fathom("run", "study.yaml", cwd=tmp_path, **places)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("fathom: Ray can't start")
    assert not (tmp_path / "runs").exists()
