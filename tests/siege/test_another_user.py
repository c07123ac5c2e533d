"""Another user of the machine can write, rename, connect to and plant nothing of a live search."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import psutil
import pytest

from tests.support.running import SearchProcess

pytestmark = [pytest.mark.drill, pytest.mark.siege, pytest.mark.timeout(900)]

STUDY = """
study: live
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS, seconds: 0.3}
budgets: [4k]
tokens: 48k
space: {depth: [1, 3], n_heads: 2}
train: {batch_size: 4, evaluations: 5}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""
NOBODY = 65534
ATTACK = """
import json, os, socket, sys

def attempts(path):
    folder = os.path.dirname(path)
    yield "write", lambda: open(path, "ab").close()
    yield "rename", lambda: os.rename(path, path + ".gone")
    yield "chmod", lambda: os.chmod(path, 0o777)
    yield "plant", lambda: open(os.path.join(path, "planted"), "x").close()
    if folder != "/tmp":  # where everybody may make files
        yield "plant beside", lambda: os.symlink("/etc/passwd", path + ".planted")
        yield "pipe", lambda: os.mkfifo(path + ".pipe")

def of_socket(path):
    place = socket.socket(socket.AF_UNIX)
    place.connect(path)

def of_process(number):
    yield "signal", lambda: os.kill(number, 0)
    yield "memory", lambda: open(f"/proc/{number}/mem", "r+b").close()
    yield "variables", lambda: open(f"/proc/{number}/environ", "rb").close()

asked, done = json.load(sys.stdin), []
tried = [(word, path, act) for path in asked["paths"] for word, act in attempts(path)]
tried += [("connect", path, lambda path=path: of_socket(path)) for path in asked["sockets"]]
tried += [(word, n, act) for n in asked["processes"] for word, act in of_process(n)]
for word, what, act in tried:
    try:
        act()
    except OSError:
        continue
    done.append(f"{word} {what}")
print(json.dumps({"tried": len(tried), "done": done}))
"""
"""What the other user tries; prints what he could do."""
METHODS = (
    *("NodeInfoGcsService/GetClusterId", "JobInfoGcsService/AddJob", "InternalKVGcsService/KVPut"),
    *("NodeManagerService/RequestWorkerLease", "ObjectManagerService/Pull"),
    *("CoreWorkerService/PushTask", "CoreWorkerService/KillActor"),
)
"""Methods of Ray's servers that would change something, or tell who they are."""
REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,  # of another server
    grpc.StatusCode.UNAVAILABLE,  # it does not speak this protocol
}


@pytest.fixture(scope="module")
def live() -> Iterator[SearchProcess]:
    """A search under way in a folder that everybody can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "study.yaml").write_text(STUDY.replace("STEPS", str(place / "steps")))
        run = SearchProcess(place, "live")
        run.wait_until(lambda: run.folder.journal.exists() and (place / "steps").exists())
        yield run
        run.process.kill()
        run.end()
        psutil.wait_procs(run.children, 60)


def processes(run: SearchProcess) -> list[psutil.Process]:
    return [psutil.Process(run.process.pid), *(c for c in run.children if c.is_running())]


def sockets(run: SearchProcess) -> set[str]:
    """Paths of the sockets at which its processes listen, which are in Ray's private folder."""
    found = set[str]()
    for process in processes(run):
        with suppress(psutil.NoSuchProcess):
            found |= {str(c.laddr) for c in process.net_connections("unix") if c.laddr}
    return {path for path in found if path.startswith("/")}


def files(folders: Sequence[Path]) -> list[str]:
    """The folders and all that is in them, without links."""
    inside = (path for folder in folders for path in (folder, *folder.rglob("*")))
    return [str(path) for path in inside if not path.is_symlink()]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_can_touch_no_file_socket_or_process_of_a_live_search(
    live: SearchProcess,
) -> None:
    listening = sockets(live)
    private = {Path(*Path(path).parts[:3]) for path in listening}
    assert len(private) == 1, "one folder of Ray"
    (ray,) = private
    assert stat.S_IMODE(ray.stat().st_mode) == 0o700
    asked = {
        "paths": files([live.folder.path.parent.parent, ray]),
        "sockets": sorted(listening),
        "processes": [process.pid for process in processes(live)],
    }
    answer = subprocess.run(
        [shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3", "-c", ATTACK],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )
    found = json.loads(answer.stdout)
    print(f"{found['tried']} attempts by another user, {len(found['done'])} succeeded")
    assert found["tried"] > 500
    assert found["done"] == []


def test_what_a_live_search_listens_at_is_on_this_machine_and_refuses_who_has_no_token(
    live: SearchProcess,
) -> None:
    answers = dict[tuple[str, int], set[grpc.StatusCode]]()
    for process in processes(live):
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    host, port = connection.laddr
                    assert host.endswith("127.0.0.1"), process
                    answers[process.name(), port] = answers_at(port)
    print({key: sorted(code.name for code in codes) for key, codes in answers.items()})
    assert {"gcs_server", "raylet"} <= {name for name, _ in answers}
    assert not {key: codes - REFUSALS for key, codes in answers.items() if codes - REFUSALS}
    refused = [grpc.StatusCode.UNAUTHENTICATED in codes for codes in answers.values()]
    assert sum(refused) >= 4, "GCS, raylet, object store and workers ask for the token"


def answers_at(port: int) -> set[grpc.StatusCode]:
    """How a server answers methods that nobody without a token may call."""
    codes = set[grpc.StatusCode]()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in METHODS:
            try:
                channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=60)
            except grpc.RpcError as error:
                codes.add(error.code())
            else:
                codes.add(grpc.StatusCode.OK)
    return codes
