"""Reads the needs of a cluster file on AWS, and checks them with the account in a process of its
own."""

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.search.cluster.doctor.facts import Finding, ok, warning
from fathom.search.cluster.doctor.gather import output_of
from fathom.search.record_json import from_values, to_values
from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.study.file.text_file import FileError, read_text
from fathom.search.study.hardware.gpus import CLUSTER_FILES

HEAD_FILE = CLUSTER_FILES[0]
"""Path of a head's own cluster file; on the head, the credentials are those of its role."""
ROLE = "ray-autoscaler-v1"
"""Name of the role, and of the instance profile, that `ray up` makes if the file names none for the
head."""
PARAMETER = "resolve:ssm:"
"""Prefix of an image that is named through a parameter."""
AWS_SECONDS = 120.0
"""Longest wait for all answers of AWS; each question has its own limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFile:
    """The machines, images and rights that a cluster file needs on AWS."""

    file: str
    on_head: bool
    """True if this machine is the head, whose role has the credentials."""
    region: str
    profile: str
    """Name or ARN of the head's instance profile."""
    images: tuple[str, ...]
    """Names of the parameters that name images."""
    worker_image: str
    """Parameter that names the workers' image, which the head's role must be able to read; empty if
    none does."""
    machine: str
    """Type of the workers' machines."""
    spot: bool
    """True if the workers are spot machines."""
    workers: int
    """Most workers that the cluster may have."""


def ask_cloud() -> tuple[Finding, ...]:
    """Findings about the role, the images and the quota that the cluster file here needs on AWS;
    none without such a file."""
    asked = cloud_file()
    if asked is None:
        return ()
    if importlib.util.find_spec("boto3") is None:
        text = f"role and quota for {asked.file} not checked: boto3 is not installed here"
        return (ok("AWS", text, "before `ray up`: `pip install boto3`"),)
    command = [sys.executable, "-P", "-m", "fathom.search.cluster.doctor.amazon"]
    output, trouble = output_of([*command, json.dumps(to_values(asked))], AWS_SECONDS)
    if trouble:
        text = f"role and quota for {asked.file} not checked: {trouble}"
        return (warning("AWS", text, "see that this machine reaches AWS"),)
    return tuple(from_values(Finding, entry) for entry in json.loads(output.splitlines()[-1]))


def cloud_file() -> CloudFile | None:
    """Returns the needs of a cluster file on AWS: on a head, of its own file; elsewhere, of the
    file in this folder. None if there is no such file, or if it is for another cloud."""
    for file in CLUSTER_FILES:
        try:
            return _read(parse_yaml(read_text(file.expanduser())), file)
        except (FileError, RuntimeError):  # the latter without a home
            continue
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
            return None  # `ray up` says what is wrong with it
    return None


def _read(config: Any, file: Path) -> CloudFile | None:
    if config["provider"]["type"] != "aws":
        return None
    types, head = config["available_node_types"], config["head_node_type"]
    worker = next(node for name, node in types.items() if name != head)
    nodes = [node["node_config"] for node in (types[head], worker)]
    profile = nodes[0].get("IamInstanceProfile") or config.get("head_node", {}).get(
        "IamInstanceProfile", {"Name": ROLE}
    )
    market = nodes[1].get("InstanceMarketOptions", {})
    images = [_parameter(str(node.get("ImageId", ""))) for node in nodes]
    return CloudFile(
        file=str(file),
        on_head=file == HEAD_FILE,
        region=str(config["provider"]["region"]),
        profile=str(profile.get("Arn") or profile["Name"]),
        images=tuple(image for image in dict.fromkeys(images) if image),
        worker_image=images[1],
        machine=str(nodes[1]["InstanceType"]),
        spot=market.get("MarketType") == "spot",
        workers=int(worker.get("max_workers", config.get("max_workers", 2))),
    )


def _parameter(image: str) -> str:
    """Name of the parameter that names an image; empty if the image is named by its id."""
    return image.removeprefix(PARAMETER) if image.startswith(PARAMETER) else ""
