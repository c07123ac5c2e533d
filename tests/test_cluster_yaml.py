"""The files for `ray up` against Ray's own checks and each cloud's model of a machine."""

import inspect
import json
import os
import re
import shutil
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator
from ray.autoscaler._private.command_runner import SSHCommandRunner
from ray.autoscaler._private.util import hash_runtime_conf, prepare_config, validate_config

from tests.support.command_line import run
from tests.support.places import PACKAGE_FOLDERS, ROOT
from tests.support.ray_program import RAY

SHELLCHECK = str(Path(sys.executable).with_name("shellcheck"))
FILES = ("cluster.yaml", "deploy/gcp.yaml", "deploy/local.yaml")
CLOUDS = FILES[:2]
COMMANDS = (
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands"),
)


@cache
def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def settings_of(file: str) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(text(file))
    return settings


def prepared(file: str) -> dict[str, Any]:
    """The settings as `ray up` completes them before it turns to the provider."""
    settings: dict[str, Any] = prepare_config(settings_of(file))
    validate_config(settings)
    return settings


CLUSTER = settings_of("cluster.yaml")


def commands(settings: dict[str, Any]) -> list[str]:
    return [line for key in COMMANDS for line in settings.get(key, ())]


def test_ray_accepts_machines_of_ones_own() -> None:
    settings = prepared("deploy/local.yaml")

    (machines,) = settings["available_node_types"].values()
    assert machines["min_workers"] == len(settings["provider"]["worker_ips"]) > 0


@pytest.mark.parametrize("file", CLOUDS)
def test_workers_start_from_none_and_the_head_runs_no_trial(file: str) -> None:
    settings = prepared(file)
    head, worker = (settings["available_node_types"][name] for name in ("head", "worker"))

    assert head["resources"] == {"CPU": 0}
    assert head["max_workers"] == 0
    assert worker["min_workers"] == 0
    assert worker["max_workers"] == settings["max_workers"] > 0
    assert 0 < settings["idle_timeout_minutes"] <= 15


def test_workers_are_spot_and_the_head_and_its_disk_survive_ray_down() -> None:
    files = [settings_of(file) for file in CLOUDS]
    nodes = [settings["available_node_types"] for settings in files]
    (amazon, google), (spot, preemptible) = (
        [types[name]["node_config"] for types in nodes] for name in ("head", "worker")
    )
    (disk,), (boot,) = amazon["BlockDeviceMappings"], google["disks"]

    assert spot["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert preemptible["scheduling"]["provisioningModel"] == "SPOT"
    assert all(settings["provider"]["cache_stopped_nodes"] for settings in files)
    assert disk["Ebs"]["DeleteOnTermination"] is boot["autoDelete"] is False


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_amazon_has_every_field_of_a_node(node_type: str) -> None:
    service = botocore.session.get_session().get_service_model("ec2")
    model = service.operation_model("RunInstances")
    request = CLUSTER["available_node_types"][node_type]["node_config"]

    report = ParamValidator().validate(request | {"MinCount": 1, "MaxCount": 1}, model.input_shape)

    assert not report.has_errors(), report.generate_report()


@cache
def google_schemas() -> dict[str, Any]:
    """Schemas of the Compute Engine API, version 1, from Google's own client."""
    folder = files("googleapiclient") / "discovery_cache" / "documents"
    document = json.loads((folder / "compute.v1.json").read_text(encoding="utf-8"))
    schemas: dict[str, Any] = document["schemas"]
    return schemas


def refused_by_google(value: object, schema: dict[str, Any], place: str) -> list[str]:
    """The places where a value isn't what Google's description of its API allows."""
    schema = google_schemas()[schema["$ref"]] if "$ref" in schema else schema
    kinds = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
    # A 64-bit number is a string in Google's JSON, which takes a plain one too.
    kind = int if schema.get("format") == "int64" else kinds[schema["type"]]
    if not isinstance(value, kind) or value not in schema.get("enum", [value]):
        return [f"{place}: {value!r}"]
    if isinstance(value, list):
        each = schema["items"]
        return [line for item in value for line in refused_by_google(item, each, f"{place}[]")]
    if not isinstance(value, dict):
        return []
    known = schema.get("properties", {})
    lines = [f"{place}.{key}: unknown" for key in value.keys() - known.keys()]
    for key in value.keys() & known.keys():
        lines += refused_by_google(value[key], known[key], f"{place}.{key}")
    return lines


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_google_has_every_field_of_a_node(node_type: str) -> None:
    request = settings_of("deploy/gcp.yaml")["available_node_types"][node_type]["node_config"]

    assert not refused_by_google(request, {"$ref": "Instance"}, node_type)
    assert refused_by_google(request | {"machinetype": "x"}, {"$ref": "Instance"}, node_type)


@pytest.mark.parametrize(
    ("file", "question"),
    [(CLOUDS[0], "NoCredentialsError"), (CLOUDS[1], "DefaultCredentialsError")],
)
def test_ray_up_proceeds_to_authentication(file: str, question: str, tmp_path: Path) -> None:
    quiet = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    offline = {"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true"}

    answer = run(RAY, "up", "--yes", "--no-config-cache", file, cwd=ROOT, env=quiet | offline)

    assert question in answer.stderr
    assert "ValidationError" not in answer.stderr


@pytest.mark.parametrize(
    ("file", "edited"),
    [
        ("cluster.yaml", ["region", "max_workers", "InstanceType"]),
        ("deploy/gcp.yaml", ["project_id", "max_workers", "machineType"]),
        ("deploy/local.yaml", ["head_ip", "ssh_user", "ssh_private_key"]),
    ],
)
def test_a_user_edits_three_places(file: str, edited: list[str]) -> None:
    assert re.findall(r"# EDIT: .*\n *(\w+):", text(file)) == edited
    assert text(file).count("# EDIT") == 3


@pytest.mark.parametrize("file", FILES[1:])
def test_every_provider_runs_the_same_commands_on_the_same_files(file: str) -> None:
    other = settings_of(file)
    shared = (*COMMANDS, "file_mounts", "cluster_synced_files", "rsync_exclude")
    written = ((json.dumps(settings.get(key)) for settings in (CLUSTER, other)) for key in shared)

    for ours, theirs in written:
        # What the provider needs besides is the one difference.
        assert re.sub(r"'\.\[aws\]'", ".", ours) == re.sub(r"'\.\[gcp\]'", ".", theirs)


@pytest.mark.parametrize("file", FILES)
def test_a_node_installs_the_tested_versions(file: str) -> None:
    installs = re.findall(r"pip install.*", "\n".join(commands(settings_of(file))))

    assert installs
    assert all("-c constraints.txt" in line for line in installs)


def test_the_synced_files_exist_and_suffice_for_the_installation() -> None:
    mounts = CLUSTER["file_mounts"]

    assert not [local for local in mounts.values() if not (ROOT / local).exists()]
    assert all(remote == f"~/fathom/{local}" for remote, local in mounts.items())
    assert set(mounts.values()) == {*PACKAGE_FOLDERS, "pyproject.toml", "constraints.txt"}


def test_the_links_of_the_package_work_on_a_node(tmp_path: Path) -> None:
    """`fathom/` holds links to the folders beside it, which Ray's rsync keeps as they are."""
    node = tmp_path / "fathom"
    for local in CLUSTER["file_mounts"].values():
        if (ROOT / local).is_dir():
            shutil.copytree(ROOT / local, node / local, symlinks=True)
    links = [path for path in (node / "fathom").iterdir() if path.is_symlink()]

    assert '["-avz"]' in inspect.getsource(SSHCommandRunner.run_rsync_up), "`-a` keeps links"
    assert {os.readlink(link) for link in links} == {
        f"../{folder}" for folder in PACKAGE_FOLDERS - {"fathom"}
    }
    code = "import fathom.search.records as r; print(r.__file__)"
    done = run(sys.executable, "-c", code, cwd=node, env={"PATH": os.environ["PATH"]})
    assert done.stdout.strip() == str(node / "fathom" / "search" / "records.py")


def test_ray_can_compare_the_files_of_the_nodes() -> None:
    """Ray reads every file of the mounts once, and follows no link to a folder."""
    mounts = {remote: str(ROOT / local) for remote, local in CLUSTER["file_mounts"].items()}

    assert all(hash_runtime_conf(mounts, [], {}, generate_file_mounts_contents_hash=True))


def test_nothing_listens_beyond_loopback() -> None:
    everything = "\n".join(commands(CLUSTER))

    assert set(re.findall(r"--(?:dashboard-)?host[= ](\S+)", everything)) == {"127.0.0.1"}
    assert not re.search(r"(?<![\d.])0\.0\.0\.0", everything)


def test_every_command_is_plain_shell_without_a_known_mistake() -> None:
    for command in commands(CLUSTER):
        for checked in (["bash", "-n"], [SHELLCHECK, "--shell=dash", "-"]):
            answer = run(*checked, input=f"{command}\n")
            assert answer.returncode == 0, answer.stdout + answer.stderr
