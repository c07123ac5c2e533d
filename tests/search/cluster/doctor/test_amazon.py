"""Questions of `fathom doctor` to AWS and its findings, both checked by botocore's models."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from fathom.search.cluster.doctor.amazon import ask_amazon, quota_code
from fathom.search.cluster.doctor.cloud_file import CloudFile
from fathom.search.cluster.doctor.facts import Finding, Severity

IMAGE = "/aws/service/deeplearning/ami-id"
ASKED = CloudFile(
    file="cluster.yaml",
    on_head=False,
    region="us-east-1",
    profile="ray-autoscaler-v1",
    images=(IMAGE,),
    worker_image=IMAGE,
    machine="g6.xlarge",
    spot=True,
    workers=8,
)
ROLE = "arn:aws:iam::123456789012:role/ray-autoscaler-v1"
PROFILE: dict[str, Any] = {
    "Path": "/",
    "InstanceProfileName": "ray-autoscaler-v1",
    "InstanceProfileId": "AIPA0000000000000000",
    "Arn": "arn:aws:iam::123456789012:instance-profile/ray-autoscaler-v1",
    "CreateDate": "2026-01-01",
    "Roles": [
        {
            "Path": "/",
            "RoleName": "ray-autoscaler-v1",
            "RoleId": "AROA0000000000000000",
            "Arn": ROLE,
            "CreateDate": "2026-01-01",
        }
    ],
}
ATTACH = (
    "aws iam attach-role-policy --role-name ray-autoscaler-v1 "
    "--policy-arn arn:aws:iam::aws:policy/AmazonSSMReadOnlyAccess"
)


class Amazon:
    """Answers of AWS, in the order in which each service is asked."""

    def __init__(self) -> None:
        self.session = boto3.session.Session("none", "none")
        services = ("ssm", "iam", "ec2", "service-quotas")
        self.clients = {name: self.session.client(name, "us-east-1") for name in services}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    def client(self, service: str, **_: Any) -> Any:
        return self.clients[service]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def answers(self, service: str, method: str, answer: dict[str, Any], asked: Any = None) -> None:
        self.stubs[service].add_response(method, answer, asked)

    def refuses(self, service: str, method: str, code: str) -> None:
        self.stubs[service].add_client_error(method, code, f"says {code}")

    def role_is(self, decision: str) -> None:
        self.answers("iam", "get_instance_profile", {"InstanceProfile": PROFILE})
        result = {"EvalActionName": "ssm:GetParameters", "EvalDecision": decision}
        resource = f"arn:aws:ssm:us-east-1::parameter{IMAGE}"
        self.answers(
            *("iam", "simulate_principal_policy", {"EvaluationResults": [result]}),
            {
                "PolicySourceArn": ROLE,
                "ActionNames": ["ssm:GetParameters"],
                "ResourceArns": [resource],
            },
        )

    def quota_is(self, value: float) -> None:
        self.answers(
            *("ec2", "describe_instance_types"),
            {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": 4}}]},
        )
        self.answers(
            *("service-quotas", "get_service_quota", {"Quota": {"Value": value}}),
            {"ServiceCode": "ec2", "QuotaCode": "L-3819A6DF"},
        )

    def says(self, asked: CloudFile = ASKED) -> dict[str, Finding]:
        return {found.subject: found for found in ask_amazon(asked, self)}


@pytest.fixture
def aws() -> Iterator[Amazon]:
    made = Amazon()
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def there(aws: Amazon) -> Amazon:
    """AWS, where the images are there."""
    aws.answers("ssm", "get_parameters", {"Parameters": [{"Name": IMAGE}]})
    return aws


def test_an_account_that_is_ready_has_image_role_and_quota(there: Amazon) -> None:
    there.role_is("allowed")
    there.quota_is(32)

    found = there.says()

    assert list(found) == ["AWS image", "AWS role", "AWS quota"]
    assert {finding.level for finding in found.values()} == {Severity.OK}
    assert found["AWS quota"].message == (
        "32 vCPUs, spot, in us-east-1: room for 8 of 8 workers (g6.xlarge, 4 vCPUs each)"
    )


@pytest.mark.parametrize("decision", ["implicitDeny", "explicitDeny"])
def test_a_role_that_may_not_read_the_image_is_told_with_the_command(
    there: Amazon, decision: str
) -> None:
    there.role_is(decision)
    there.quota_is(32)

    role = there.says()["AWS role"]

    assert role.level is Severity.WARNING
    assert "no worker would start" in role.message
    assert role.remedy == f"`{ATTACH}`"


def test_an_image_of_ones_own_needs_no_right_of_the_head(aws: Amazon) -> None:
    aws.quota_is(32)

    found = aws.says(replace(ASKED, images=(), worker_image=""))

    assert list(found) == ["AWS image", "AWS quota"]
    assert {finding.level for finding in found.values()} == {Severity.OK}


def test_before_the_first_ray_up_the_command_is_for_after_it(there: Amazon) -> None:
    there.refuses("iam", "get_instance_profile", "NoSuchEntity")
    there.quota_is(32)

    role = there.says()["AWS role"]

    assert role.level is Severity.WARNING
    assert role.remedy == f"after the first `ray up`: `{ATTACH}`"


@pytest.mark.parametrize(
    ("value", "room", "remedy"),
    [(0.0, "room for 0 of 8", "32 --region us-east-1`"), (9.0, "room for 2 of 8", "max_workers")],
)
def test_a_quota_below_the_workers_says_how_many_start_and_how_to_ask_for_more(
    there: Amazon, value: float, room: str, remedy: str
) -> None:
    there.role_is("allowed")
    there.quota_is(value)

    quota = there.says()["AWS quota"]

    assert quota.level is Severity.WARNING
    assert room in quota.message
    assert quota.remedy.startswith("`aws service-quotas request-service-quota-increase ")
    assert quota.remedy.endswith(remedy)


def test_what_may_not_be_asked_is_said_so_and_the_rest_is_asked(there: Amazon) -> None:
    there.refuses("iam", "get_instance_profile", "AccessDenied")
    there.quota_is(32)

    found = there.says()

    assert found["AWS role"].level is Severity.WARNING
    assert found["AWS role"].message.startswith("not checked: ")
    assert "says AccessDenied" in found["AWS role"].message
    assert found["AWS quota"].level is Severity.OK


def test_an_image_that_is_not_in_the_region_is_a_failure(aws: Amazon) -> None:
    aws.answers("ssm", "get_parameters", {"InvalidParameters": [IMAGE]})
    aws.role_is("allowed")
    aws.quota_is(32)

    image = aws.says()["AWS image"]

    assert image.level is Severity.FAILURE
    assert image.message == f"not in us-east-1: {IMAGE}"


def test_on_the_head_its_own_role_is_tried_and_what_it_may_not_ask_is_no_warning(
    aws: Amazon,
) -> None:
    aws.refuses("ssm", "get_parameters", "AccessDeniedException")
    aws.answers(
        "ec2",
        "describe_instance_types",
        {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": 4}}]},
    )
    aws.refuses("service-quotas", "get_service_quota", "AccessDeniedException")

    found = aws.says(replace(ASKED, on_head=True, profile=PROFILE["Arn"]))

    assert found["AWS image"].level is Severity.FAILURE
    assert found["AWS image"].remedy == f"`{ATTACH}`"
    assert found["AWS quota"].level is Severity.OK
    assert list(found) == ["AWS image", "AWS quota"]


@pytest.mark.parametrize(
    ("machine", "spot", "code"),
    [
        ("g6e.12xlarge", True, "L-3819A6DF"),
        ("p4d.24xlarge", True, "L-7212CCBC"),
        ("p5en.48xlarge", True, "L-C4BD4855"),
        ("p5.48xlarge", False, "L-417A185B"),
        ("c7i.4xlarge", True, "L-34B43A08"),
        ("trn1.2xlarge", True, None),
        ("p6-b200.48xlarge", True, None),
        ("nonsense", False, None),
    ],
)
def test_the_quota_is_that_of_the_family_and_its_market(
    machine: str, spot: bool, code: str | None
) -> None:
    assert quota_code(machine, spot=spot) == code


def test_an_unknown_family_is_said_so(there: Amazon) -> None:
    there.role_is("allowed")

    quota = there.says(replace(ASKED, machine="p6-b200.48xlarge"))["AWS quota"]

    assert quota.level is Severity.WARNING
    assert "p6-b200.48xlarge" in quota.message
