"""Findings about storage, about tracking, and about who else can reach Ray and MLflow; computed
from facts alone."""

from collections.abc import Collection
from pathlib import Path

from rich.filesize import decimal

from fathom.search.cluster.doctor.facts import (
    ClusterFacts,
    ClusterProbe,
    Disk,
    Finding,
    Listener,
    Needs,
    Node,
    failure,
    names,
    ok,
    warning,
)
from fathom.search.study.hardware.disk import RESERVE
from fathom.search.study.hardware.gpus import CARRY

SHARE_IT = "mount one folder there at the same path (NFS), or name a shared one with `--runs`"

PAGES = {
    "Ray dashboard": "start Ray with `--dashboard-host=127.0.0.1`; reach it by `ray dashboard`",
    "MLflow": "start it with `--host 127.0.0.1`; reach it by `ssh -L 5000:127.0.0.1:5000`",
}
"""Name of a service that a search does not need open to others -> how to close it."""
GIVE_TOKEN = (
    "put one token in ~/.ray/auth_token and `export RAY_AUTH_MODE=token` on every node, restart Ray"
)

OpenPorts = list[tuple[Node, Listener]]
"""Sockets that others can reach, each with its node."""


def judge_storage(
    probe: ClusterProbe, cluster: ClusterFacts, disk: Disk, needs: Needs
) -> tuple[Finding, ...]:
    """Findings about the folder of checkpoints: whether every node sees it, and whether it has
    enough space."""
    return (*_shared(probe, cluster), _space(disk, needs))


def judge_data(cluster: ClusterFacts, files: Collection[str], runs: Path) -> tuple[Finding, ...]:
    """Findings on files that every worker reads in place: whether each node sees them, and whether
    later nodes, which share the folder `runs`, will see them; none without such files."""
    apart = [file for file in files if not Path(file).is_relative_to(runs)]
    remedy = f"put the data into a folder that all nodes share (`{CARRY}` carries it there)"
    found = [
        failure("data", f"{node.name} does not see {path} ({reason})", remedy)
        for node in cluster.nodes
        for path, reason in [*node.facts.unseen_data.items()][:1]
    ]
    if not found and cluster.grows and apart:
        text = f"{apart[0]} is outside {runs}, the only folder that later workers share"
        found.append(warning("data", text, remedy))
    where = "every node sees" if len(cluster.nodes) > 1 else "seen:"
    return tuple(found) or ((ok("data", f"{where} {names([*files])}"),) if files else ())


def judge_tracking(uri: str, *, refusal: str = "", silence: str = "", strange: str = "") -> Finding:
    """Finding on MLflow's store: a failure if it is refused, a warning if it does not answer or was
    not made on this machine. `uri` is its address without credentials."""
    if strange:
        return warning("tracking", strange, "or go on: the report is written without MLflow")
    if refusal:
        return failure("tracking", refusal, "set `tracking.uri` or MLFLOW_TRACKING_URI")
    if silence:
        remedy = "start it, or go on: missing entries are written once it answers"
        return warning("tracking", f"{uri} does not answer: {silence}", remedy)
    return ok("tracking", uri)


def judge_token(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """A finding if nodes of a cluster differ in their token or have none; no finding without a
    cluster, for Ray on one machine makes a token of its own."""
    if not cluster.address or not cluster.nodes:
        return ()
    tokens: dict[str, list[str]] = {}
    for node in cluster.nodes:
        tokens.setdefault(_token(node), []).append(node.name)
    if set(tokens) == {""}:
        text = "none: whoever reaches Ray's ports can run programs here"
        return (warning("token", text, GIVE_TOKEN),)
    if len(tokens) > 1:
        without = tokens.pop("", [])
        several = [f"another on {names(there)}" for there in list(tokens.values())[1:]]
        lacking = [f"none on {names(without)}"] if without else []
        text = f"differs: {', '.join([*lacking, *several])}"
        return (failure("token", text, GIVE_TOKEN),)
    return (ok("token", "the same on every node"),)


def judge_ports(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """Findings on ports of Ray and MLflow that others can reach."""
    hidden = [node.name for node in cluster.nodes if node.facts.listeners is None]
    open_ports = [
        (node, listener) for node in cluster.nodes for listener in node.facts.listeners or ()
    ]
    findings = [
        warning("ports", f"{service}: open at {_places(found)}", remedy)
        for service, remedy in PAGES.items()
        if (
            found := [
                (node, listener) for node, listener in open_ports if listener.service == service
            ]
        )
    ]
    rays = [(node, listener) for node, listener in open_ports if listener.service not in PAGES]
    bare = [(node, listener) for node, listener in rays if not (cluster.address and _token(node))]
    if bare:
        text = f"{_services(bare)}: open at {_places(bare)}"
        text += (
            ", without a token" if cluster.address else ", of another Ray cluster that is running"
        )
        remedy = GIVE_TOKEN if cluster.address else "end it with `ray stop`, or close its ports"
        findings.append(warning("ports", text, remedy))
    if hidden:
        text = f"not shown to this user on {names(hidden)}"
        findings.append(warning("ports", text, "look with `sudo lsof -iTCP`"))
    answer = f"{_services(rays)} answer to the token alone" if rays else "none beyond loopback"
    return tuple(findings) or (ok("ports", answer),)


def _shared(probe: ClusterProbe, cluster: ClusterFacts) -> tuple[Finding, ...]:
    if probe.trouble:
        remedy = "free it, or choose another folder with `--runs`"
        return (failure("storage", f"can't write to {probe.folder}: {probe.trouble}", remedy),)
    where = " on every node" if len(cluster.nodes) > 1 else ""
    return tuple(
        failure("storage", f"{node.name}: {trouble}, {probe.folder}", SHARE_IT)
        for node in cluster.nodes
        if (trouble := node.facts.storage_trouble)
    ) or (ok("storage", f"read and written{where}: {probe.folder}"),)


def _space(disk: Disk, needs: Needs) -> Finding:
    needed = needs.checkpoints + RESERVE
    text = f"{decimal(disk.free)} free, a search may take {decimal(needed)}"
    if disk.free >= needed:
        return ok("space", text)
    return failure("space", text, "free it, or choose a larger disk with `--runs`")


def _token(node: Node) -> str:
    """Hash of the authentication token that a node requires; empty if it requires none."""
    return node.facts.token_hash if node.facts.token_mode == "token" else ""


def _services(found: OpenPorts) -> str:
    return ", ".join(dict.fromkeys(listener.service for _, listener in found))


def _places(found: OpenPorts) -> str:
    return names([f"{_host(listener)}:{listener.port} on {node.name}" for node, listener in found])


def _host(listener: Listener) -> str:
    return "*" if listener.address in ("0.0.0.0", "::") else listener.address
