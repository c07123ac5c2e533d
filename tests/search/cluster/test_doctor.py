"""`fathom doctor` on this machine and on a cluster of Ray: what it gathers and answers."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fathom.search.cluster.doctor import examine
from fathom.search.cluster.doctor.examine import (
    ask_tracking,
    disk_for_checkpoints,
    imports_of,
    judge_steps,
    study_needs,
    study_plans,
)
from fathom.search.cluster.doctor.facts import ClusterProbe, Disk, Gpu, NodeQuestion, Severity
from fathom.search.cluster.doctor.gather import (
    _monitor_grows,
    driver_gpus,
    gather,
    is_loopback,
    service_of,
)
from fathom.search.cluster.doctor.storage import is_answered, planted
from fathom.search.cluster.session.ray_session import NotJoinedError, cluster_address, join_cluster
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load, parse
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.plan import plan_study, search_disk
from tests.support.command_line import Done, run
from tests.support.contract import valid
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.ray_program import RAY, ray_folder

TINY = ROOT / "configs" / "tiny.yaml"
TOKEN = "a-token-that-nobody-may-see-0123456789"
NO_PROBE = ClusterProbe("", "", "", trouble="none is asked")
QUESTION = NodeQuestion(probe=NO_PROBE, salt="", asks_torch=False)


def doctor(*arguments: str | Path, cwd: Path, **environment: str) -> Done:
    there = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return run(sys.executable, "-m", "search", "doctor", *arguments, cwd=cwd, env=there)


def levels(done: Done) -> dict[str, set[str]]:
    """Subject -> levels of its findings."""
    found: dict[str, set[str]] = {}
    for entry in valid(json.loads(done.stdout))["findings"]:
        found.setdefault(entry["subject"], set()).add(entry["level"])
    return found


def look(**changes: Any) -> Any:
    return gather(replace(QUESTION, **changes), "here", ray_at=("/tmp/ray", ""), memory=(1, 2))


@pytest.fixture(autouse=True)
def _no_other_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster that the developer has started here would be joined."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def test_a_look_at_this_machine_finds_every_package_and_its_sizes() -> None:
    facts = look()

    assert all(facts.versions.values())
    assert facts.versions["python"] == sys.version.split()[0]
    assert 0 < facts.ray_disk.free < facts.ray_disk.size
    assert facts.ray_disk.folder == "/tmp/ray"
    assert (facts.memory_used, facts.memory) == (1, 2)
    assert facts.torch_gpus is None or facts.gpus, "torch is asked where it could matter only"


def test_data_that_a_node_lacks_or_has_in_part_are_named(tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"1234")
    files = {str(tmp_path / name): 4 for name in ("whole", "gone")}
    assert look(data=files).unseen_data == {f"{tmp_path}/gone": "No such file or directory"}
    assert look(data={f"{tmp_path}/whole": 5}).unseen_data == {
        f"{tmp_path}/whole": "4 bytes of at least 5"
    }


def test_pytorch_is_asked_in_a_process_of_its_own() -> None:
    facts = look(asks_torch=True)

    assert isinstance(facts.torch_gpus, int)
    assert not facts.gpu_trouble


def test_what_a_worker_imports_is_imported_and_a_failure_has_file_and_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").touch()
    (tmp_path / "models" / "net.py").write_text("import this_is_nowhere\n")
    (tmp_path / "my_task.py").write_text("\nfrom models.net import Net\n")
    monkeypatch.chdir(tmp_path)
    config = parse("study: s\nobjective: {name: 'my_task:Mine'}\nbudgets: [8k]\ncount: total\n")
    nowhere = "ModuleNotFoundError: No module named"

    assert look(imports=imports_of(())).import_trouble == ""
    _, *of_the_user = imports_of(config.own_code)
    assert look(imports=of_the_user).import_trouble == f"{nowhere} 'my_task'"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    place = tmp_path / "models" / "net.py"
    trouble = look(imports=of_the_user).import_trouble
    assert trouble == f"{place}, line 1: {nowhere} 'this_is_nowhere'"


def test_the_parser_of_a_trainer_is_found_in_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a_parser_of_mine.py").write_text("def parse(line):\n    return None\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = parse(
        "study: s\nobjective: {name: external, vocabulary: 256, context: 32}\nbudgets: [20k]\n"
        f"train:\n  command: [{sys.executable}, train.py, "
        "'{depth}', '{d_model}', '{folder}']\n"
        "  batch_size: 4\n  parser: a_parser_of_mine:parse\ntokens: 12800\n"
    )
    study_plans(config)
    _, *of_the_user = imports_of(config.own_code)
    assert look(imports=of_the_user).import_trouble == ""


def test_the_token_is_compared_by_a_hash_with_a_salt_used_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    by_file, by_another_salt = look(salt="a").token_hash, look(salt="b").token_hash
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)

    assert by_file == look(salt="a").token_hash
    assert by_file != by_another_salt
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    assert look().token_hash == ""


@pytest.mark.parametrize(
    ("command", "port", "service"),
    [
        ("/x/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp", 6399, "Ray GCS"),
        ("/x/ray/core/src/ray/raylet/raylet --x", 41000, "raylet"),
        ("python /x/ray/dashboard/dashboard.py --host=0.0.0.0 --port=8299", 8299, "Ray dashboard"),
        ("python /x/ray/dashboard/dashboard.py --host=0.0.0.0 --port=8299", 44, "Ray metrics"),
        ("python -m mlflow server --host 0.0.0.0", 8080, "MLflow"),
        ("nginx: master process", 5000, ""),
        ("", 5000, "MLflow"),
        ("", 22, ""),
    ],
)
def test_a_socket_is_known_by_its_process_and_where_that_is_hidden_by_its_port(
    command: str, port: int, service: str
) -> None:
    assert service_of(command, port) == service


def test_loopback_addresses_are_unreachable_from_other_machines() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1")))
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.1"))
    )


def test_a_cluster_grows_when_its_own_monitor_has_been_given_nodes_to_start() -> None:
    monitor = "python -u /x/ray/autoscaler/_private/monitor.py --gcs-address=10.0.0.1:6379 "
    growing = f"{monitor}--autoscaling-config=~/ray_bootstrap_config.yaml"

    assert _monitor_grows(["python", growing], "10.0.0.1:6379")
    assert _monitor_grows([f"{monitor}--monitor-ip=10.0.0.1"], "10.0.0.1:6379") is False
    assert _monitor_grows([growing], "10.0.0.1:63790") is None


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def test_gpus_are_what_the_driver_lists_and_the_user_has_not_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path, "nvidia-smi", "for i in 1 2; do echo 'NVIDIA L4, 23034, 580.1'; done")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    l4 = Gpu("NVIDIA L4", 23034 * 2**20, "580.1")

    assert driver_gpus() == ((l4, l4), "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert driver_gpus() == ((l4,), "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert driver_gpus() == ((), "")
    program(tmp_path, "nvidia-smi", "echo 'GPU 0: NVIDIA L4'")
    gpus, trouble = driver_gpus()
    assert not gpus
    assert trouble.startswith("nvidia-smi printed 'GPU 0: NVIDIA L4' in place of name,memory")
    program(tmp_path, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    assert driver_gpus() == ((), "nvidia-smi: NVIDIA-SMI has failed")


def test_a_node_reads_the_probe_and_answers_beside_it_and_nothing_stays(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "study" / "state" / "checkpoints"
    with planted(folder) as probe:
        assert not probe.trouble
        assert look(probe=probe).storage_trouble == ""
        (answer,) = set(folder.iterdir()) - {folder / probe.name}
        assert answer.read_text() == probe.content
        assert is_answered(probe, "here")
        assert not is_answered(probe, "there"), "a node whose answer is not seen from here"
        other = replace(probe, content="other")
        assert look(probe=other).storage_trouble == "reads other content than was written"
        elsewhere = replace(probe, folder=str(tmp_path / "elsewhere"))
        assert look(probe=elsewhere).storage_trouble == "does not see it"
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{}\n")
    with planted(tmp_path) as probe:
        assert not probe.trouble
    assert os.listdir(tmp_path) == ["records.jsonl"]


def test_a_folder_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with planted(tmp_path / "file" / "runs") as probe:
        assert probe.trouble == "Not a directory"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a file system can't be mounted here; it takes root")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.drill
def test_a_full_disk_fails_with_status_1(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(64 * 1024))

    done = doctor(TINY, "--runs", small_disk, "--json", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert levels(done)["storage"] == {"failure"}
    assert levels(done)["space"] == {"failure"}
    assert os.listdir(small_disk) == ["ballast"]


def test_the_needs_of_a_study_are_those_of_its_plan() -> None:
    config = load(TINY)
    plans = plan_study(config, 256, this_machine(config.resources, config.train))
    largest = max(shape.params_total for plan in plans for shape in plan.shapes)

    needs = study_needs(config, study_plans(config), slots=3)

    assert needs.trial_memory > 12 * largest, "weights, AdamW's moments, and activations"
    assert needs.checkpoints == search_disk(config.train, plans, 3)
    assert study_needs(None, (), slots=3).checkpoints == 0


def test_checkpoints_of_an_earlier_run_are_room_for_their_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "disk", lambda folder: Disk(str(folder), 10**9, 5 * 10**6))
    (tmp_path / "8k-explore-000.pt").write_bytes(bytes(10**6))
    assert disk_for_checkpoints(tmp_path).free == 6 * 10**6


class Store(BaseHTTPRequestHandler):
    """A tracking server that knows no experiment; one that is `broken` answers with an error."""

    broken = False

    def do_POST(self) -> None:
        self.send_response(500 if self.broken else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Store) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield http
        http.shutdown()


def test_a_tracking_server_answers_or_is_silent_and_its_password_is_not_shown(
    server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"http://user:secret@127.0.0.1:{server.server_port}"

    well = ask_tracking(uri, trusted=True)
    monkeypatch.setattr(Store, "broken", True)
    broken = ask_tracking(uri, trusted=True)

    assert well.level is Severity.OK
    assert broken.level is Severity.WARNING
    assert "does not answer" in broken.message
    assert "secret" not in f"{well} {broken}"


def test_an_address_of_no_known_kind_is_refused() -> None:
    found = ask_tracking("gopher://host", trusted=True)
    assert found.level is Severity.FAILURE
    assert "gopher" in found.message


def test_a_healthy_machine_answers_0_in_80_columns_and_leaves_nothing(tmp_path: Path) -> None:
    done = doctor(TINY, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("A search would work here: no failure")
    assert max(map(len, lines)) <= 80
    for subject in ("versions", "GPUs", "memory", "storage", "space", "tracking", "ports"):
        assert any(line.split()[1:2] == [subject] for line in lines if line[:1].isalpha()), subject
    assert not list(tmp_path.iterdir())


def test_a_problem_is_a_failure_with_its_remedy_and_status_1(tmp_path: Path) -> None:
    study = TINY.read_text() + "resources: {cpus_per_trial: 9999}\n"
    (tmp_path / "study.yaml").write_text(study + "tracking: {uri: 'gopher://x'}\n")

    done = doctor("study.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "A search would fail here: 2 failures" in done.stdout
    assert "lower `resources.cpus_per_trial`" in " ".join(done.stdout.split())


def test_an_address_without_a_listener_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    refusal = f"at {address}, from RAY_ADDRESS, can't be joined: nobody answers"
    with pytest.raises(NotJoinedError, match=refusal):
        join_cluster()
    monkeypatch.delenv("RAY_ADDRESS")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(address)
    assert cluster_address() == address
    assert join_cluster() is None, "a `ray start` that is gone"


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[dict[str, str]]:
    """A real cluster of two nodes on this machine with a token; the environment that joins it."""
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    port = free_port()
    address = f"127.0.0.1:{port}"
    head = ["--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    # Ray's usual port may be taken by another cluster here.
    head += [f"--ray-client-server-port={free_port()}"]
    with ray_folder() as folder:
        environment = os.environ | access | {"RAY_TMPDIR": folder, "PYTHONPATH": str(ROOT)}
        for arguments in (head, [f"--address={address}"]):
            start = (RAY, "start", "--num-cpus=1", "--disable-usage-stats", *arguments)
            done = run(*start, env=environment, cwd=folder)
            assert done.returncode == 0, done.stdout + done.stderr
        yield access | {"RAY_ADDRESS": address, "RAY_TMPDIR": folder}


@pytest.mark.drill
def test_every_node_of_a_cluster_is_asked(ray_cluster: dict[str, str], tmp_path: Path) -> None:
    done = doctor(TINY, "--json", cwd=tmp_path, **ray_cluster)

    assert done.returncode == 0, done.stdout + done.stderr
    found = {entry["subject"]: entry for entry in json.loads(done.stdout)["findings"]}
    assert found["cluster"]["message"] == f"{ray_cluster['RAY_ADDRESS']}, 2 nodes"
    assert found["CPUs"]["message"] == "2, a trial takes 1"
    assert found["token"]["message"] == "the same on every node"
    assert found["clocks"]["level"] == "ok"
    assert "read and written on every node" in found["storage"]["message"]
    assert TOKEN not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.drill
def test_a_cluster_that_refuses_the_token_is_a_failure(
    ray_cluster: dict[str, str], tmp_path: Path
) -> None:
    wrong = ray_cluster | {"RAY_AUTH_TOKEN": "another"}

    done = doctor("--json", cwd=tmp_path, **wrong)

    assert done.returncode == 1
    assert levels(done)["cluster"] == {"failure"}
    assert "InvalidAuthToken" in done.stdout
    assert issubclass(NotJoinedError, ConfigError), "`fathom run` says it in one line, status 2"
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_a_command_takes_of_memory_is_not_judged() -> None:
    text = """
study: s
objective: {name: external, vocabulary: 50257, context: 8192}
budgets: [9B]
tokens: 1B
train: {command: [python, train.py, "{depth}", "{d_model}", "{folder}"], batch_size: 64}
"""
    config = parse(text.replace("python", sys.executable))
    plans = study_plans(config)
    assert not plans[0].step.enough, "Fathom's own loop would not fit"
    assert judge_steps(config, plans) == ()
