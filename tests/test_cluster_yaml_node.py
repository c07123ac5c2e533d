"""The commands of `ray up` on a node, in a real shell: token, environment, shared storage."""

import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import Done, run
from tests.support.places import ROOT
from tests.support.ray_program import RAY

CLUSTER: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
SET_UP = CLUSTER["setup_commands"][0]
START_LISTS = ("head_start_ray_commands", "worker_start_ray_commands")
TOKEN = "~/.ray/auth_token"
"""Where Ray looks for its token when no variable names another place."""

STUB = """#!/bin/sh
echo "$(basename "$0") $*" >> ~/calls
case "$(basename "$0") $1" in
    "mountpoint "*) exit "$(cat ~/mountpoint_status)" ;;
    "sudo tee") cat > ~/exports ;;
    "sudo mount") exit "$(cat ~/mount_status)" ;;
esac
"""
"""Stands for what only a real node may do: notes what it was asked, answers as it was told."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder on a node that has the files and the packages."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ray"):
        (programs / name).symlink_to(RAY.with_name(name))
    (tmp_path / "fathom").mkdir()
    (tmp_path / ".bashrc").touch()
    return tmp_path


@pytest.fixture
def node(home: Path) -> Path:
    """`home` after its first set-up command, with stubs for what changes the machine."""
    for name in ("sudo", "mountpoint", "apt-get"):
        stub = home / "venv" / "bin" / name
        stub.write_text(STUB, encoding="utf-8")
        stub.chmod(0o755)
    (home / "mountpoint_status").write_text("1")
    (home / "mount_status").write_text("0")
    run_on_node(SET_UP, home)
    return home


def try_on_node(command: str, home: Path) -> Done:
    """Run a command as `ray up` does over SSH, in an interactive login shell.

    An interactive shell without a terminal complains on standard error, which is left alone.
    """
    wrapped = f"source ~/.bashrc; export OMP_NUM_THREADS=1 && ({command})"
    known = {"HOME": str(home), "PATH": os.defpath, "RAY_HEAD_IP": "192.0.2.1"}
    return run("bash", "--login", "-c", "-i", wrapped, env=known, start_new_session=True)


def run_on_node(command: str, home: Path) -> str:
    answer = try_on_node(command, home)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def storage_command(starts: str) -> str:
    (found,) = (line for line in CLUSTER[starts] if "mountpoint" in line)
    assert CLUSTER[starts].index(found) < CLUSTER[starts].index("ray stop")
    return str(found)


@pytest.mark.parametrize("starts", START_LISTS)
def test_a_node_without_the_token_fails_before_ray_starts(starts: str) -> None:
    assert CLUSTER[starts][0] == f"test -s {TOKEN}"
    assert TOKEN in CLUSTER["cluster_synced_files"]


@pytest.mark.parametrize("rest", ["# a comment of the distribution\n", ""])
def test_every_shell_has_token_mode_however_often_it_was_set_up(home: Path, rest: str) -> None:
    (home / ".bashrc").write_text(rest, encoding="utf-8")
    for _ in range(2):
        run_on_node(SET_UP, home)

    assert run_on_node("echo $RAY_AUTH_MODE", home).strip() == "token"
    assert run_on_node("echo $PATH", home).startswith(f"{home}/venv/bin:")
    lines = (home / ".bashrc").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line] == [". ~/fathom/env", *rest.splitlines()]


def test_the_head_makes_one_token_that_only_its_user_can_read(home: Path) -> None:
    token = home / TOKEN.removeprefix("~/")
    make = CLUSTER["head_setup_commands"][0]
    run_on_node(SET_UP, home)

    run_on_node(make, home)
    first = token.read_text(encoding="utf-8")
    run_on_node(make, home)

    assert len(first) >= 32
    assert token.read_text(encoding="utf-8") == first
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_the_head_exports_the_runs_to_private_addresses_as_its_own_user(node: Path) -> None:
    for _ in range(2):
        run_on_node(storage_command("head_start_ray_commands"), node)

    folder, *clients = (node / "exports").read_text(encoding="utf-8").split()
    addresses, options = zip(*(client.rstrip(")").split("(") for client in clients), strict=True)
    assert folder == f"{node}/fathom/runs"
    assert set(addresses) == {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
    assert {f"anonuid={os.getuid()}", "all_squash", "sync"} < set(options[0].split(","))
    assert len(set(options)) == 1


def test_a_worker_mounts_the_heads_runs_at_the_same_path(node: Path) -> None:
    run_on_node(storage_command("worker_start_ray_commands"), node)

    (mounted,) = re.findall(r"sudo mount .*", (node / "calls").read_text(encoding="utf-8"))
    assert mounted.split()[-2:] == ["192.0.2.1:/", f"{node}/fathom/runs"]
    assert not list((node / "fathom" / "runs").iterdir())


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [("mount", 32, ""), ("mktemp", 1, "/fathom/runs must be writable")],
)
def test_a_worker_without_storage_fails(node: Path, program: str, status: int, words: str) -> None:
    (node / "mount_status").write_text("32" if program == "mount" else "0")
    broken = node / "venv" / "bin" / "mktemp"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)

    answer = try_on_node(storage_command("worker_start_ray_commands"), node)

    assert answer.returncode == status
    assert words in answer.stderr


@pytest.mark.skipif(shutil.which("sudo") is not None, reason="this machine has sudo")
def test_root_needs_no_sudo(node: Path) -> None:
    (node / "venv" / "bin" / "sudo").rename(node / "venv" / "bin" / "mount")

    run_on_node(storage_command("worker_start_ray_commands"), node)

    assert "\nmount -t nfs4 " in (node / "calls").read_text(encoding="utf-8")


@pytest.mark.parametrize("starts", START_LISTS)
def test_a_machine_with_mounted_runs_is_unchanged(node: Path, starts: str) -> None:
    (node / "mountpoint_status").write_text("0")

    run_on_node(storage_command(starts), node)

    assert "sudo" not in (node / "calls").read_text(encoding="utf-8")
