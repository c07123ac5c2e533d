"""Runs `fathom doctor`: gathers the facts of every node, then judges them."""

import json
import secrets
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from fathom.search.cluster.doctor.access import judge_data, judge_storage, judge_tracking
from fathom.search.cluster.doctor.checks import judge_cluster, judge_members
from fathom.search.cluster.doctor.cloud_file import ask_cloud
from fathom.search.cluster.doctor.facts import (
    ClusterFacts,
    Disk,
    Finding,
    Needs,
    NodeQuestion,
    failure,
    ok,
    warning,
)
from fathom.search.cluster.doctor.gather import disk, output_of
from fathom.search.cluster.doctor.nodes import alone, ask_nodes
from fathom.search.cluster.doctor.storage import planted
from fathom.search.cluster.session.ray_session import NotJoinedError
from fathom.search.run_folder import PARTS, RunFolder, default_tracking_uri, is_named_store
from fathom.search.study import store_uri
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.planning.devices import core_notes
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.study.planning.memory_remedy import memory_remedy
from fathom.search.study.planning.plan import (
    BudgetPlan,
    largest_state,
    plan_study,
    search_disk,
    study_notes,
    vocab_size_of,
)
from fathom.search.study.planning.sharing import sharing_notes
from fathom.search.study.preflight import check_same_study, check_trainer

WORKER = "fathom.search.cluster.worker"
"""The module that runs trials; it imports all that a worker needs."""
SPEED_SECONDS = 240.0
"""Most seconds that the measurement of speed may take; on a busy machine, the import of PyTorch
takes most of them."""
TRACKING_SECONDS = 240.0
"""Most seconds to wait for MLflow: for its import, and its own limit of 10 s for an answer."""


def examine(config: StudyConfig | None, runs: Path) -> tuple[Finding, ...]:
    """All findings about a search on this machine or its cluster; with a study, about its search.

    Raises:
        ValueError: when the study itself can't be run anywhere.
    """
    studied = horizon_studies(config)[-1] if config else None  # the longest horizon needs most
    plans = study_plans(studied)
    resources = config.resources if config else ResourcesConfig()
    notes = notes_of(studied, plans)
    folder = runs.absolute()
    if config is not None:
        check_same_study(config, RunFolder(folder / config.study))
        folder = RunFolder(folder / config.study).checkpoint("any").parent
    named = config.tracking.uri if config else None
    uri, trusted = named or default_tracking_uri(runs), is_named_store(named)
    with ThreadPoolExecutor(2) as aside, planted(folder) as probe:
        tracking, cloud = aside.submit(ask_tracking, uri, trusted=trusted), aside.submit(ask_cloud)
        asks_torch = resources.gpus_per_trial not in (0, "auto")
        data = studied.objective.files_on_nodes() if studied else {}
        imports = imports_of(config.own_code if config else ())
        question = NodeQuestion(probe, secrets.token_hex(16), asks_torch, imports, data)
        cluster, members = _ask(question)
        needs = study_needs(studied, plans, slots_of(resources, cluster))
        return (
            *members,
            *(warning("study", note, "see `fathom plan`") for note in notes),
            *judge_cluster(cluster, needs),
            *judge_steps(studied, plans),
            *measure_speed(config, cluster),
            *judge_storage(probe, cluster, disk_for_checkpoints(folder), needs),
            *judge_data(cluster, data, runs.absolute()),
            tracking.result(),
            *cloud.result(),
        )


def notes_of(config: StudyConfig | None, plans: Sequence[BudgetPlan]) -> list[str]:
    """Warnings of a study's plan on this machine."""
    if config is None:
        return []
    machine = this_machine(config.resources, config.train)
    advice = (*core_notes(config, plans, machine), *sharing_notes(config, plans, machine))
    return [*study_notes(config), *advice]


def imports_of(places: Sequence[str]) -> tuple[str, ...]:
    """Modules that a worker imports: Fathom's own, and those of the user, which `places` gives as
    import paths."""
    return (WORKER, *(place.partition(":")[0] for place in places))


def study_plans(config: StudyConfig | None) -> tuple[BudgetPlan, ...]:
    """The plans of a study's budgets on this machine; none without a study.

    Raises:
        ValueError: when the study can't be planned.
    """
    if config is None:
        return ()
    # The modules that it imports from the working folder go to the workers.
    check_trainer(config.train)
    return tuple(
        plan_study(
            config, vocab_size_of(config.objective), this_machine(config.resources, config.train)
        )
    )


def slots_of(resources: ResourcesConfig, cluster: ClusterFacts) -> int:
    """Number of trials that fit the nodes at the same time."""
    cpus, gpus = (sum(getattr(node, kind) for node in cluster.nodes) for kind in ("cpus", "gpus"))
    return resources.trials_at_once(cpus, gpus)


def disk_for_checkpoints(folder: Path) -> Disk:
    """The disk of a folder; checkpoints of an earlier run count as free, since new ones replace
    them."""
    found = disk(folder)
    files = (*folder.glob("*.pt"), *folder.glob(f"*{PARTS}/*"))
    kept = sum(path.stat().st_size for path in files)
    return replace(found, free=found.free + kept)


def study_needs(config: StudyConfig | None, plans: Sequence[BudgetPlan], slots: int) -> Needs:
    """Resources that a study with these plans needs if so many trials train at a time; the defaults
    without a study."""
    resources = config.resources if config else ResourcesConfig()
    return Needs(
        gpus_per_trial=resources.gpus_per_trial,
        cpus_per_trial=resources.cpus_per_trial,
        checkpoints=search_disk(config.train, plans, slots) if config else 0,
        trial_memory=max((plan.step.memory for plan in plans), default=0),
        least_memory=min((plan.step.memory for plan in plans), default=0),
        saved_state=largest_state(config.train, plans) if config else 0,
    )


def judge_steps(config: StudyConfig | None, plans: Sequence[BudgetPlan]) -> tuple[Finding, ...]:
    """A finding for each budget on the memory that its largest trial takes and gets."""
    if config is None or config.train.command:  # which takes what Fathom does not know
        return ()
    machine, found = this_machine(config.resources, config.train), []
    for plan in plans:
        text = f"{plan.budget.label}: {plan.step.text(machine.memory)}"
        if plan.step.enough:
            found.append(ok("trial", text))
        else:
            found.append(failure("trial", text, memory_remedy(config, plan, plans, machine)))
    return tuple(found)


def ask_tracking(uri: str, *, trusted: bool) -> Finding:
    """Asks MLflow's store for an answer, if the user named the store or it was made here; returns
    the finding about the store."""
    shown = store_uri.without_credentials(uri)
    try:
        if trusted:
            store_uri.check_form(uri)
    except store_uri.TrackingError as error:
        return judge_tracking(shown, refusal=str(error))
    if store_uri.is_new_file(uri):
        return judge_tracking(shown)
    try:
        # Not on the command line, where every user of the machine could read a password in it.
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fathom.search.tracking.stores.ping"],
            input=f"{uri}\nnamed" if trusted else uri,
            capture_output=True,
            text=True,
            check=True,
            timeout=TRACKING_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return judge_tracking(shown, silence=f"no answer in {TRACKING_SECONDS:g} s")
    return judge_tracking(shown, **json.loads(done.stdout.splitlines()[-1]))


def measure_speed(config: StudyConfig | None, cluster: ClusterFacts) -> tuple[Finding, ...]:
    """A finding on the speed of training on this machine; the speed is kept for `fathom plan`;
    empty in a cluster, where other machines train, and if a trial wants more cores than this one
    has."""
    resources = config.resources if config else ResourcesConfig()
    if cluster.address or resources.threads < int(resources.cpus_per_trial):
        return ()
    # In a process of its own, which a CUDA that can't start may kill.
    command = [sys.executable, "-P", "-m", "fathom.search.training.calibrate"]
    measured, trouble = output_of([*command, resources.model_dump_json()], SPEED_SECONDS)
    if trouble:
        return (warning("speed", f"not measured: {trouble}", "the time of a plan is an estimate"),)
    return (ok("speed", measured),)


def _ask(question: NodeQuestion) -> tuple[ClusterFacts, tuple[Finding, ...]]:
    try:
        cluster = ask_nodes(question)
    except NotJoinedError as error:
        return alone(question), (failure("cluster", error.problem, error.remedy),)
    return cluster, judge_members(cluster)
