"""What the facts mean for storage and tracking, and for who else can reach Ray and MLflow. Pure."""

from rich.filesize import decimal

from fathom.search.cluster.doctor.facts import (
    ClusterFacts,
    ClusterProbe,
    Disk,
    Finding,
    Listener,
    Needs,
    Node,
    Severity,
    Tracking,
    names,
)

LEAST_FREE = 100_000_000
"""For records, report and MLflow's database, bytes."""
SHARE_IT = "mount one folder there at the same path (NFS), or name a shared one with `--runs`"

PAGES = {
    "Ray dashboard": "start Ray with `--dashboard-host=127.0.0.1`; reach it by `ray dashboard`",
    "MLflow": "start it with `--host 127.0.0.1`; reach it by `ssh -L 5000:127.0.0.1:5000`",
}
"""Services that need not be open for a search, with what closes them."""
GIVE_TOKEN = (
    "put one token in ~/.ray/auth_token and `export RAY_AUTH_MODE=token` on every node, restart Ray"
)


def judge_storage(
    folder: str, probe: ClusterProbe | str, cluster: ClusterFacts, disk: Disk, needs: Needs
) -> tuple[Finding, ...]:
    """Whether checkpoints can be kept where every node finds them."""
    return (*_shared(folder, probe, cluster), _space(disk, needs))


def judge_tracking(tracking: Tracking) -> Finding:
    """A store that is silent costs the search nothing; one that can't be used ends it."""
    if tracking.refusal:
        remedy = "set `tracking.uri` or MLFLOW_TRACKING_URI"
        return Finding(Severity.FAILURE, "tracking", tracking.refusal, remedy)
    if tracking.silence:
        words = f"{tracking.uri} does not answer: {tracking.silence}"
        remedy = "start it, or go on: what MLflow misses is written when it is back"
        return Finding(Severity.WARNING, "tracking", words, remedy)
    return Finding(Severity.OK, "tracking", tracking.uri)


def judge_token(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """Whether every node of a cluster has the same token; Ray alone here makes its own."""
    if not cluster.address or not cluster.nodes:
        return ()
    tokens: dict[str, list[str]] = {}
    for node in cluster.nodes:
        tokens.setdefault(_token(node), []).append(node.name)
    if set(tokens) == {""}:
        words = "none: whoever reaches Ray's ports runs programs here"
        return (Finding(Severity.WARNING, "token", words, GIVE_TOKEN),)
    if len(tokens) > 1:
        without = tokens.pop("", [])
        several = [f"another on {names(there)}" for there in list(tokens.values())[1:]]
        lacking = [f"none on {names(without)}"] if without else []
        words = f"differs: {', '.join([*lacking, *several])}"
        return (Finding(Severity.FAILURE, "token", words, GIVE_TOKEN),)
    return (Finding(Severity.OK, "token", "the same on every node"),)


def judge_ports(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """What of Ray and MLflow others can reach."""
    hidden = [node.name for node in cluster.nodes if node.facts.listeners is None]
    open_ports = [
        (node, listener) for node in cluster.nodes for listener in node.facts.listeners or ()
    ]
    findings = [
        Finding(Severity.WARNING, "ports", f"{service}: open at {_places(found)}", remedy)
        for service, remedy in PAGES.items()
        if (found := [(node, one) for node, one in open_ports if one.service == service])
    ]
    rays = [(node, one) for node, one in open_ports if one.service not in PAGES]
    bare = [(node, one) for node, one in rays if not (cluster.address and _token(node))]
    if bare:
        words = f"{_services(bare)}: open at {_places(bare)}"
        words += ", without a token" if cluster.address else ", of a Ray that is not asked here"
        remedy = GIVE_TOKEN if cluster.address else "end it with `ray stop`, or close its ports"
        findings.append(Finding(Severity.WARNING, "ports", words, remedy))
    if hidden:
        words = f"not told to this user on {names(hidden)}"
        findings.append(Finding(Severity.WARNING, "ports", words, "look with `sudo lsof -iTCP`"))
    if findings:
        return tuple(findings)
    answer = f"{_services(rays)} answer to the token alone" if rays else "none beyond loopback"
    return (Finding(Severity.OK, "ports", answer),)


def _shared(folder: str, probe: ClusterProbe | str, cluster: ClusterFacts) -> tuple[Finding, ...]:
    if isinstance(probe, str):
        words = f"can't write to {folder}: {probe}"
        remedy = "free it, or choose another folder with `--runs`"
        return (Finding(Severity.FAILURE, "storage", words, remedy),)
    troubles = [
        (node.name, node.facts.storage_trouble)
        for node in cluster.nodes
        if node.facts.storage_trouble
    ]
    troubles += [(name, "what it writes is not seen here") for name in cluster.unseen]
    if troubles:
        return tuple(
            Finding(Severity.FAILURE, "storage", f"{name}: {trouble}, {folder}", SHARE_IT)
            for name, trouble in troubles
        )
    where = " on every node" if len(cluster.nodes) > 1 else ""
    return (Finding(Severity.OK, "storage", f"read and written{where}: {folder}"),)


def _space(disk: Disk, needs: Needs) -> Finding:
    needed = needs.checkpoints + LEAST_FREE
    words = f"{decimal(disk.free)} free, a search may take {decimal(needed)}"
    if disk.free >= needed:
        return Finding(Severity.OK, "space", words)
    remedy = "free it, or choose a larger disk with `--runs`"
    return Finding(Severity.FAILURE, "space", words, remedy)


def _token(node: Node) -> str:
    """Empty where none is asked for."""
    return node.facts.token_hash if node.facts.token_mode == "token" else ""


def _services(found: list[tuple[Node, Listener]]) -> str:
    return ", ".join(dict.fromkeys(listener.service for _, listener in found))


def _places(found: list[tuple[Node, Listener]]) -> str:
    places = [f"{_host(one)}:{one.port} on {node.name}" for node, one in found]
    return names(places)


def _host(listener: Listener) -> str:
    return "*" if listener.address in ("0.0.0.0", "::") else listener.address
