"""`ray up cluster.yaml` and its autoscaler on AWS, for which moto stands: what they ask it for.

Everything but AWS, and the programs that reach a machine, is Ray's own.
"""

import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
import yaml
from moto import mock_aws
from moto.core.config import DefaultConfig
from ray.autoscaler._private import commands, providers
from ray.autoscaler._private.aws import config as aws_config
from ray.autoscaler._private.aws import utils as aws_utils
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
from ray.autoscaler.v2.instance_manager.config import FileConfigReader
from ray.autoscaler.v2.instance_manager.node_provider import NodeProviderAdapter

from fathom.search.cluster.doctor.amazon import POLICY
from fathom.search.cluster.doctor.cloud_file import ROLE
from fathom.search.study.hardware.gpus import CARRY
from tests.support.places import ROOT
from tests.support.waiting import wait_until

CLUSTER: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
REGION: str = CLUSTER["provider"]["region"]
BOOTSTRAP = "ray_bootstrap_config.yaml"
"""Name of the file by which the head learns how to start workers."""
KIND = "ray-node-type"
"""Ray's tag for a head or a worker."""

POLICIES: DefaultConfig = {"iam": {"load_aws_managed_policies": True}}
"""moto's setting by which its account has the policies that are Amazon's."""

pytestmark = [
    pytest.mark.drill,
    # Ray leaves its files of settings open.
    pytest.mark.filterwarnings(
        "ignore:unclosed file .*(ray-bootstrap-|cluster.yaml):ResourceWarning"
    ),
]


@dataclass(frozen=True)
class Reached:
    """Stands for ssh and rsync: notes each command, which succeeds; the head's home is a folder."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def check_call(self, command: list[str], *_: Any, **__: Any) -> int:
        """Notes a command."""
        self.lines.append(" ".join(command))
        name = command[-1].rpartition("/")[2]
        if command[0] == "rsync" and name.startswith("ray_bootstrap_"):  # settings, and a key
            shutil.copy(command[-2], self.folder / name)
        return 0

    def check_output(self, command: list[str], *_: Any, **__: Any) -> bytes:
        """Notes a command, which prints nothing."""
        self.check_call(command)
        return b""


@dataclass(frozen=True)
class Account:
    """An account of AWS that has nothing but the network that comes with it."""

    reached: Reached
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Parameters of each call of RunInstances."""

    def up(self) -> str:
        """`ray up`; returns the head's id."""
        config = commands._bootstrap_config(CLUSTER, no_config_cache=True)
        commands.get_or_create_head_node(
            config,
            "cluster.yaml",
            no_restart=False,
            restart_only=False,
            yes=True,
            override_cluster_name=None,
            _runner=self.reached,  # type: ignore[arg-type]
        )
        (head,) = self.alive("head")
        return head

    def start_worker(self) -> None:
        """Has the autoscaler, with the settings of the head, start a worker."""
        settings = FileConfigReader(str(self.reached.folder / BOOTSTRAP))
        autoscaler = NodeProviderAdapter(self.provider(), settings)
        autoscaler.launch({"worker": 1}, "request")
        troubles: list[Any] = []

        def ended() -> bool:
            troubles.extend(autoscaler.poll_errors())
            return bool(troubles or self.alive("worker"))

        wait_until(ended, "neither a worker nor a complaint")
        assert not troubles, troubles[0].__cause__

    def provider(self) -> AWSNodeProvider:
        """Ray's view of the account."""
        return AWSNodeProvider(CLUSTER["provider"], CLUSTER["cluster_name"])

    def alive(self, kind: str) -> list[str]:
        """Ids of the running machines of a kind."""
        return list(self.provider().non_terminated_nodes({KIND: kind}))

    def asked(self, kind: str) -> dict[str, Any]:
        """Parameters of the one call that asked for machines of a kind."""
        tag = {"Key": KIND, "Value": kind}
        (found,) = (call for call in self.requests if tag in call["TagSpecifications"][0]["Tags"])
        return found


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account after `ray up` and the start of a worker."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=POLICIES):
        patch.setenv("HOME", str(home))
        patch.setattr(aws_config, "time", Mock())  # it waits for a real IAM
        patch.chdir(ROOT)  # the files of the mounts are named from there
        boto3.setup_default_session()
        launched = Account(Reached(home))
        boto3.DEFAULT_SESSION.events.register(
            "provide-client-params.ec2.RunInstances",
            lambda params, **_: launched.requests.append(params),
        )
        launched.up()
        launched.start_worker()
        yield launched
    boto3.DEFAULT_SESSION = None
    for cache in (aws_utils.resource_cache, aws_utils.client_cache, aws_config._get_subnets_or_die):
        cache.cache_clear()
    providers._clear_provider_cache()


def disk_of(request: dict[str, Any]) -> dict[str, Any]:
    (mapping,) = request["BlockDeviceMappings"]
    assert mapping["DeviceName"] == "/dev/sda1", "the root of both images"
    found: dict[str, Any] = mapping["Ebs"]
    return found


def test_ray_up_asks_for_a_head_on_demand_that_keeps_its_disk_and_may_start_machines(
    account: Account,
) -> None:
    asked, iam = account.asked("head"), boto3.client("iam")
    assert asked["InstanceType"] == "m7i.xlarge"
    assert "/ubuntu/server/24.04/stable/current/amd64/" in asked["ImageId"]
    assert "InstanceMarketOptions" not in asked, "a head that AWS may take away"
    assert disk_of(asked) == {"VolumeSize": 100, "VolumeType": "gp3", "DeleteOnTermination": False}
    _, _, profile = asked["IamInstanceProfile"]["Arn"].rpartition("/")
    (role,) = iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
    policies = iam.list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]
    assert "AmazonEC2FullAccess" in {policy["PolicyName"] for policy in policies}
    assert role["RoleName"] == profile == ROLE, "which cluster.yaml and `fathom doctor` name"
    iam.attach_role_policy(RoleName=ROLE, PolicyArn=f"arn:aws:iam::aws:policy/{POLICY}")


def test_the_key_is_the_users_alone_and_others_reach_the_port_of_ssh_only(
    account: Account,
) -> None:
    asked = account.asked("head")
    key = account.reached.folder / ".ssh" / f"{asked['KeyName']}.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    (group,) = boto3.client("ec2", REGION).describe_security_groups(
        GroupIds=asked["SecurityGroupIds"]
    )["SecurityGroups"]
    rules = group["IpPermissions"]
    outside = [(rule["FromPort"], rule["ToPort"]) for rule in rules if rule["IpRanges"]]
    inside = {pair["GroupId"] for rule in rules for pair in rule["UserIdGroupPairs"]}
    assert outside == [(22, 22)]
    assert inside == set(asked["SecurityGroupIds"])


def test_the_autoscaler_asks_for_a_spot_worker_in_the_heads_network_without_its_role(
    account: Account,
) -> None:
    head, worker = account.asked("head"), account.asked("worker")
    assert worker["InstanceType"] == "g6.xlarge"
    assert "-nvidia-driver-gpu-ubuntu-24.04/" in worker["ImageId"]
    assert worker["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "IamInstanceProfile" not in worker, "a worker may start no machines"
    assert disk_of(worker) == {"VolumeSize": 150, "VolumeType": "gp3"}
    for key in ("SecurityGroupIds", "SubnetId", "KeyName"):
        assert worker[key] == head[key]
    (subnet,) = boto3.client("ec2", REGION).describe_subnets(SubnetIds=[worker["SubnetId"]])[
        "Subnets"
    ]
    assert subnet["MapPublicIpOnLaunch"], "the head reaches it, and it reaches the package index"


def test_the_guides_command_finds_the_worker_and_makes_an_image_of_it(account: Account) -> None:
    """With boto3, whose names are those of the `aws` command."""
    ec2 = boto3.client("ec2", REGION)
    filters = {
        "tag:ray-cluster-name": CLUSTER["cluster_name"],
        f"tag:{KIND}": "worker",
        "instance-state-name": "running",
    }
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    for name, value in filters.items():
        assert f"Name={name},Values={value}" in text

    asked = [{"Name": name, "Values": [value]} for name, value in filters.items()]
    (found,) = ec2.describe_instances(Filters=asked)["Reservations"]
    (worker,) = found["Instances"]

    assert [worker["InstanceId"]] == account.alive("worker")
    made = ec2.create_image(InstanceId=worker["InstanceId"], Name="fathom-worker", NoReboot=True)
    assert made["ImageId"].startswith("ami-")


def test_the_guides_command_carries_a_text_into_the_folder_that_workers_mount(
    account: Account,
) -> None:
    _, verb, file, source, target = CARRY.split()
    assert (verb, file) == ("rsync-up", "cluster.yaml")
    runner: Any = account.reached
    commands.rsync(file, source, target, None, down=False, no_config_cache=True, _runner=runner)
    (sent,) = (line for line in account.reached.lines if line.endswith(f":{target}"))
    (head,) = account.alive("head")
    address = account.provider().external_ip(head)
    assert sent.endswith(f" {source} ubuntu@{address}:{target}")
    assert f"~/{target}".startswith("~/fathom/runs/")
    assert any("~/fathom/runs" in line for line in CLUSTER["worker_start_ray_commands"])


def test_the_head_knows_the_workers_resources_and_gives_none_of_its_own(account: Account) -> None:
    sent = yaml.safe_load((account.reached.folder / BOOTSTRAP).read_text(encoding="utf-8"))
    types = sent["available_node_types"]
    worker = types["worker"]["resources"]
    assert (worker["CPU"], worker["GPU"], worker["accelerator_type:L4"]) == (4, 1, 1)
    assert types["head"]["resources"]["CPU"] == 0
    assert types["worker"]["max_workers"] == CLUSTER["max_workers"]
    everything = "\n".join(account.reached.lines)
    assert f"--autoscaling-config=~/{BOOTSTRAP}" in everything
    assert everything.index("exportfs") < everything.index("ray start --head")


def test_ray_down_stops_the_head_and_the_next_ray_up_starts_the_same_one(account: Account) -> None:
    (head,) = account.alive("head")

    account.provider().terminate_nodes([head])  # as `ray down` does
    assert boto3.resource("ec2", REGION).Instance(head).state["Name"] == "stopped"
    assert account.up() == head
    assert account.asked("head"), "asked for once"
