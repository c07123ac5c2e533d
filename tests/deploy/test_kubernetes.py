"""Kubernetes and Slurm: their files against KubeRay's, Kubernetes' and Slurm's own definitions."""

import json
import os
import re
import shutil
import sys
import tomllib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from fathom.search.study.file.study_file import load
from tests.support.command_line import run
from tests.support.places import PACKAGE_FOLDERS, ROOT

DEPLOY = ROOT / "deploy"
SLURM = DEPLOY / "slurm.sh"
SHELLCHECK = str(Path(sys.executable).with_name("shellcheck"))
KUBERNETES = "1.30"
"""The oldest Kubernetes whose definitions the files are held against."""


def documents(name: str) -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


JOB: dict[str, Any] = next(d for d in documents("search.yaml") if d["kind"] == "RayJob")
HEAD: dict[str, Any] = JOB["spec"]["rayClusterSpec"]["headGroupSpec"]
WORKERS: dict[str, Any]
(WORKERS,) = JOB["spec"]["rayClusterSpec"]["workerGroupSpecs"]


@cache
def kuberay() -> dict[str, Any]:
    """KubeRay's published definition of a RayJob; `$comment` says where it is from."""
    path = ROOT / "tests" / "data" / "kuberay-rayjob.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def closed(schema: Any) -> Any:
    """The same definition, in which a field that it does not name is a mistake.

    Kubernetes drops such a field without a word.
    """
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    fields = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False, **inner} if fields else inner


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return dict(pairs)


def mistakes_in(job: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(closed(kuberay()))
    return [f"{mistake.json_path}: {mistake.message}" for mistake in validator.iter_errors(job)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("backoffLimits",), 3),
        (("submissionMode",), 1),
        (("rayClusterSpec", "authOptions", "mode"), "tokens"),
        (("rayClusterSpec", "headGroupSpec", "template", "spec", "container"), []),
    ],
    ids=lambda value: str(value),
)
def test_a_field_that_kuberay_does_not_know_is_found(path: tuple[str, ...], value: object) -> None:
    job = deepcopy(JOB)
    assert not mistakes_in(job)
    place = job["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    assert mistakes_in(job)


@pytest.mark.parametrize("file", ["search.yaml", "storage.yaml"])
def test_kubernetes_knows_every_field_of_everything_else(file: str) -> None:
    for document in documents(file):
        if document["kind"] != "RayJob":
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_search_has_one_study_and_it_says_how_far_to_scale(tmp_path: Path) -> None:
    (study,) = (
        document for document in documents("search.yaml") if document["kind"] == "ConfigMap"
    )
    path = tmp_path / "study.yaml"
    path.write_text(study["data"]["study.yaml"], encoding="utf-8")

    resources = load(path).resources

    assert resources.gpus_per_trial == 1
    assert isinstance(resources.max_concurrent_trials, int)


def test_the_search_is_one_command_without_a_shells_operators() -> None:
    """KubeRay puts it into a shell script of its own as it is, where `&&` would end it."""
    entrypoint = JOB["spec"]["entrypoint"]

    assert re.fullmatch(r"[\w./ -]+", entrypoint)
    assert entrypoint.split()[:2] == ["fathom", "run"]


def test_gpu_workers_start_from_none_and_the_head_runs_no_trial() -> None:
    assert JOB["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"]
    assert HEAD["rayStartParams"]["num-cpus"] == "0"
    assert WORKERS["replicas"] == WORKERS["minReplicas"] == 0 < WORKERS["maxReplicas"]
    (container,) = WORKERS["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_all_pods_share_the_runs_and_mlflow_has_a_disk_of_its_own() -> None:
    claims = {
        document["metadata"]["name"]: document["spec"]["accessModes"]
        for document in documents("storage.yaml")
    }
    pods = [group["template"]["spec"] for group in (HEAD, WORKERS)]
    named, places = [], []
    for pod in pods:
        claimed = [v for v in pod["volumes"] if "persistentVolumeClaim" in v]
        named.append({v["name"]: v["persistentVolumeClaim"]["claimName"] for v in claimed})
        mounts = pod["containers"][0]["volumeMounts"]
        places.append({mount["mountPath"] for mount in mounts if mount["name"] == "runs"})

    assert claims == {"fathom-runs": ["ReadWriteMany"], "fathom-mlflow": ["ReadWriteOnce"]}
    assert named[0] == {"runs": "fathom-runs", "mlflow": "fathom-mlflow"}
    assert named[1] == {"runs": "fathom-runs"}
    assert places[0] == places[1] == {"/home/fathom/fathom/runs"}


def test_every_pod_has_the_token_and_no_file_holds_one() -> None:
    auth = JOB["spec"]["rayClusterSpec"]["authOptions"]

    assert auth == {"mode": "token", "secretName": "fathom-token"}
    assert not [document for document in documents("search.yaml") if document["kind"] == "Secret"]


def test_mlflow_listens_on_loopback_and_only_the_dashboard_is_open_to_kuberay() -> None:
    ray, mlflow = HEAD["template"]["spec"]["containers"]

    assert mlflow["command"][-4:] == ["--host", "127.0.0.1", "--port", "5000"]
    assert ray["env"] == [{"name": "MLFLOW_TRACKING_URI", "value": "http://127.0.0.1:5000"}]
    assert HEAD["rayStartParams"]["dashboard-host"] == "0.0.0.0"


def test_the_versions_it_names_are_those_of_the_tests() -> None:
    dockerfile = (DEPLOY / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    manifest = (DEPLOY / "kubernetes" / "search.yaml").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (minor,) = re.findall(r"FROM python:3\.(\d+)-", dockerfile)
    low, above = re.findall(r"3\.(\d+)", project["requires-python"])
    (operator,) = re.findall(r"kuberay-operator --version (\S+)", manifest)

    assert JOB["spec"]["rayClusterSpec"]["rayVersion"] == pins()["ray"]
    assert int(low) <= int(minor) < int(above)
    assert kuberay()["$comment"].startswith(f"KubeRay {operator}:")


def test_the_image_holds_what_the_tests_passed_with_and_only_parts_that_exist() -> None:
    dockerfile = (DEPLOY / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"COPY (\S+) ", dockerfile)
    installs = re.findall(r"pip install.*", dockerfile)

    assert set(copied) == {*PACKAGE_FOLDERS, "pyproject.toml", "constraints.txt"}
    assert installs
    assert all("-c constraints.txt" in line for line in installs)


def test_the_job_script_is_shell_without_a_known_mistake() -> None:
    for checked in (["bash", "-n", str(SLURM)], [SHELLCHECK, str(SLURM)]):
        answer = run(*checked)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_slurm_accepts_the_job() -> None:
    if shutil.which("sinfo") is None:
        pytest.skip("Slurm is not installed here")
    if run("sinfo").returncode:
        pytest.skip("no Slurm controller answers here")
    asked = ["sbatch", "--test-only", "--nodes=1", "--gpus-per-node=0", str(SLURM), "x.yaml"]

    answer = run(*asked)

    assert answer.returncode == 0, answer.stderr


def test_the_job_queues_again_before_its_time_ends_and_shares_nodes_with_none() -> None:
    lines = SLURM.read_text(encoding="utf-8").splitlines()
    options = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")}

    assert {"--requeue", "--no-kill", "--exclusive", "--signal=B:USR1@300"} < options
    assert any(re.match(r"trap '.*scontrol requeue .*' USR1$", line) for line in lines)


def test_the_job_has_the_token_and_a_dashboard_on_loopback() -> None:
    script = SLURM.read_text(encoding="utf-8")

    assert script.index("RAY_AUTH_MODE=token") < script.index("ray start")
    assert script.index("get-auth-token --generate") < script.index("ray start")
    assert re.findall(r"--dashboard-host=(\S+)", script) == ["127.0.0.1"]
    assert all("-c constraints.txt" in line for line in re.findall(r"pip install.*", script))


def test_a_job_without_its_environment_says_what_is_missing(tmp_path: Path) -> None:
    known = {"PATH": os.defpath, "SLURM_SUBMIT_DIR": str(tmp_path)}
    answer = run("bash", SLURM, "x.yaml", env=known)

    assert answer.returncode == 1
    assert answer.stderr.startswith(f"{tmp_path}/.venv must hold Fathom")
    assert len(answer.stderr.splitlines()) == 1
