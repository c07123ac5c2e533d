"""Asks AWS whether an account has what a cluster file needs. Run as `python -P -m`, with the file's
needs as JSON in the argument.

It is a process of its own, since nothing else needs boto3, and the network may keep it waiting.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from fathom.search.cluster.doctor.cloud_file import ROLE, CloudFile
from fathom.search.cluster.doctor.facts import Finding, failure, ok, warning
from fathom.search.record_json import from_values, to_values

SPOT = {
    **dict.fromkeys(("g", "vt"), "L-3819A6DF"),
    **dict.fromkeys(("p2", "p3", "p4"), "L-7212CCBC"),
    "p5": "L-C4BD4855",
    **dict.fromkeys("acdhimrtz", "L-34B43A08"),
}
"""Family of machine types, with its generation where that matters -> code of the quota that limits
the vCPUs of its spot machines. From Amazon's page "Spot Instance quotas"."""
ON_DEMAND = {
    **dict.fromkeys(("g", "vt"), "L-DB2E81BA"),
    "p": "L-417A185B",
    **dict.fromkeys("acdhimrtz", "L-1216C47A"),
}
"""Family of machine types -> code of the quota that limits the vCPUs of its on-demand machines."""
PATIENCE = Config(connect_timeout=10, read_timeout=20, retries={"total_max_attempts": 2})
POLICY = "AmazonSSMReadOnlyAccess"
"""Amazon's policy that allows a role to read the parameters that name images."""
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
"""Error codes of AWS for an action that the caller is not allowed to take."""

Question = Callable[[str, CloudFile, Session], Finding]
"""Function that asks AWS one question and returns a finding with the given subject."""


def ask_amazon(asked: CloudFile, session: Session) -> tuple[Finding, ...]:
    """A finding on the images, one on the role and one on the quota; a single finding if the caller
    may not ask."""
    try:
        known = session.get_credentials() is not None
    except BotoCoreError:  # a profile that is named and not there
        known = False
    if not known:
        text = f"role and quota for {asked.file} not checked: no AWS credentials are found here"
        return (ok("AWS", text, "before `ray up`: `aws configure`"),)
    questions = [("image", _images), ("quota", _quota)]
    if not asked.on_head and asked.worker_image:
        questions.insert(1, ("role", _role))
    return tuple(_answer(f"AWS {name}", ask, asked, session) for name, ask in questions)


def _answer(subject: str, ask: Question, asked: CloudFile, session: Session) -> Finding:
    """The finding that `ask` returns, or a finding that AWS could not be asked."""
    try:
        return ask(subject, asked, session)
    except (BotoCoreError, ClientError) as error:
        if asked.on_head and _denied(error):
            return ok(subject, "not checked: the head's role can't read it", "ask before `ray up`")
        text = f"not checked: {' '.join(str(error).split())}"
        if isinstance(error, ClientError):
            return warning(subject, text, "check with credentials that can read it")
        return warning(subject, text, "see that this machine reaches AWS")


def _images(subject: str, asked: CloudFile, session: Session) -> Finding:
    """Returns a failure if a parameter that names an image is missing in the region, or if the
    head's role can't read it, which is checked on the head: then no worker starts."""
    if not asked.images:
        return ok(subject, "each image is named by its id")
    try:
        found = _client(session, "ssm", asked).get_parameters(Names=list(asked.images))
    except ClientError as error:
        if asked.on_head and _denied(error):
            text = "the head's role can't read the parameter that names the workers' image"
            return failure(subject, f"{text}: no worker starts", _attach(_name_of(asked.profile)))
        raise
    if missing := found.get("InvalidParameters"):
        text = f"not in {asked.region}: {', '.join(missing)}"
        return failure(subject, text, f"correct ImageId in {asked.file}")
    return ok(subject, f"named by a parameter in {asked.region}")


def _role(subject: str, asked: CloudFile, session: Session) -> Finding:
    """Returns a warning if there is no role for the head yet, or if it may not read the parameter
    that names the workers' image."""
    iam = _client(session, "iam", asked)
    name = _name_of(asked.profile)
    try:
        profile = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchEntity":
            raise
        if name != ROLE:
            text = f"there is no instance profile {name}, which {asked.file} names for the head"
            return warning(subject, text, "make it, or leave IamInstanceProfile out")
        text = f"`ray up` makes {ROLE}, which can't look up the workers' image"
        return warning(subject, text, f"after the first `ray up`: {_attach(ROLE)}")
    if not profile["Roles"]:
        text = f"the instance profile {name} has no role"
        return warning(subject, text, f"after the first `ray up`: {_attach(ROLE)}")
    role = profile["Roles"][0]
    partition = session.get_partition_for_region(asked.region)
    answers = iam.simulate_principal_policy(
        PolicySourceArn=role["Arn"],
        ActionNames=["ssm:GetParameters"],
        ResourceArns=[f"arn:{partition}:ssm:{asked.region}::parameter{asked.worker_image}"],
    )["EvaluationResults"]
    if all(answer["EvalDecision"] == "allowed" for answer in answers):
        return ok(subject, f"{role['RoleName']} can look up the workers' image")
    text = f"{role['RoleName']} can't look up the workers' image: no worker would start"
    return warning(subject, text, _attach(role["RoleName"]))


def _quota(subject: str, asked: CloudFile, session: Session) -> Finding:
    """Returns a warning if the account's quota of vCPUs is too small for all workers. Other
    machines of the account are not counted."""
    code = quota_code(asked.machine, spot=asked.spot)
    kind = "spot" if asked.spot else "on demand"
    if code is None:
        text = f"not checked: the quota of {asked.machine}, {kind}, is not known here"
        return warning(subject, text, "look it up in the EC2 console, Service Quotas")
    types = _client(session, "ec2", asked).describe_instance_types(InstanceTypes=[asked.machine])
    each = int(types["InstanceTypes"][0]["VCpuInfo"]["DefaultVCpus"])
    quotas = _client(session, "service-quotas", asked)
    allowed = int(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
    room, needed = allowed // each, each * asked.workers
    text = (
        f"{allowed} vCPUs, {kind}, in {asked.region}: room for {min(room, asked.workers)} of "
        f"{asked.workers} workers ({asked.machine}, {each} vCPUs each)"
    )
    if room >= asked.workers:
        return ok(subject, text)
    remedy = (
        "`aws service-quotas request-service-quota-increase --service-code ec2 "
        f"--quota-code {code} --desired-value {needed} --region {asked.region}`"
    )
    return warning(subject, text, f"{remedy}, or lower max_workers" if room else remedy)


def quota_code(machine: str, *, spot: bool) -> str | None:
    """Code of the quota that counts the vCPUs of a machine type; None if it is not known."""
    found = re.match(r"([a-z]+?)(\d+)[^.]*\.", machine)
    if found is None:
        return None
    codes = SPOT if spot else ON_DEMAND
    return codes.get(found[1] + found[2]) or codes.get(found[1])


def _denied(error: Exception) -> bool:
    """True if AWS says that its caller may not ask this."""
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in DENIED


def _client(session: Session, service: str, asked: CloudFile) -> Any:
    return session.client(service, region_name=asked.region, config=PATIENCE)


def _name_of(profile: str) -> str:
    """Name of an instance profile, from its name or ARN."""
    return profile.rpartition("/")[2]


def _attach(role: str) -> str:
    policy = f"arn:aws:iam::aws:policy/{POLICY}"
    return f"`aws iam attach-role-policy --role-name {role} --policy-arn {policy}`"


def main() -> None:
    """Asks AWS about the needs in the argument, and prints the findings as JSON."""
    found = ask_amazon(from_values(CloudFile, json.loads(sys.argv[1])), Session())
    print(json.dumps([to_values(finding) for finding in found]))


if __name__ == "__main__":
    main()
