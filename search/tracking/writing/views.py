"""Views for MLflow's page: the answers of a study as a list, its trials as points.

MLflow keeps a shared view as a tag of the experiment and opens it by its name.
"""

import json
from collections.abc import Sequence
from typing import Any

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.formatting import format_count

TAG = "mlflow.sharedViewState."
"""Prefix of the tag that holds a shared view."""
SECTION = "loss-against-depth"
LOSS_AGAINST_DEPTH = {
    "type": "SCATTER",
    "uuid": "depth",
    "metricSectionId": SECTION,
    "deleted": False,
    "isGenerated": False,
    "xaxis": {"key": "depth", "type": "PARAM"},
    "yaxis": {"key": "final_loss", "type": "METRIC"},
    "runsCountToCompare": 1000,
}
"""The chart of all trials, in MLflow's own form."""
ALL_TRIALS = "fathom-trials"
"""Name of the view of all trials."""
EVERYTHING = {
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "runsHiddenMode": "SHOW_ALL",
}
"""Settings that all views share, which hide no run; the filter of a view decides which runs it
shows."""
ANSWERS = "fathom-answers"
"""Name of the view that lists the budgets: a row for each, with its answer in columns."""
NODE_TAG = "fathom.node"
"""Tag of every run: `study`, `machine`, `budget/NUMBER` or `trial/NAME`."""
COLUMNS = (
    *("tags.`best_depth`", "tags.`interval`", "tags.`verdict`", "metrics.`loss`"),
    *("tags.`plateau`", "tags.`stopping`"),
)
"""Columns of the list of budgets, by MLflow's names."""


def answers_view() -> dict[str, str]:
    """Returns the view that lists the budgets, as JSON by the name of the view."""
    shown = {
        "searchFilter": f"tags.`{NODE_TAG}` LIKE 'budget/%'",
        # By time, MLflow would fold the budgets into the run of their study.
        "orderByKey": "metrics.`budget`",
        "orderByAsc": True,
        "selectedColumns": COLUMNS,
        "columnOrder": COLUMNS,
    }
    return {ANSWERS: json.dumps(EVERYTHING | shown)}


def views(optima: Sequence[Optimum]) -> dict[str, str]:
    """Returns views as JSON, by their names: one of all finished trials, and one for each
    budget."""
    finished = "metrics.final_loss > 0"
    searches = {ALL_TRIALS: finished} | {
        view_name(o.budget): f"{finished} and params.budget = '{o.budget}'" for o in optima
    }
    return {name: json.dumps(_view(search)) for name, search in searches.items()}


def view_name(budget: int) -> str:
    """Returns the name of the view of a budget's trials."""
    return f"{ALL_TRIALS}-{format_count(budget)}"


def view_address(experiment: str, name: str) -> str:
    """Returns the address, relative to MLflow's page, that opens a view of trials."""
    return f"{list_address(experiment, name)}&compareRunsMode=CHART"


def list_address(experiment: str, name: str = ANSWERS) -> str:
    """Returns the address, relative to MLflow's page, that opens a view as a list."""
    shown = f"workflowType=machine_learning&viewStateShareKey={name}"
    return f"#/experiments/{experiment}/runs?{shown}"


def _view(search: str) -> dict[str, Any]:
    return EVERYTHING | {
        "searchFilter": search,
        # By time, MLflow would add the run of a budget to its trials.
        "orderByKey": "metrics.`final_loss`",
        "orderByAsc": True,
        "hideEmptyCharts": False,
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "param", "groupByData": "budget"}],
        },
        "useGroupedValuesInCharts": False,
        "compareRunCharts": [LOSS_AGAINST_DEPTH],
        "compareRunSections": [
            {
                "uuid": SECTION,
                "name": "Loss against depth",
                "columns": 1,
                "display": True,
                "isReordered": False,
                "deleted": False,
                "isGenerated": False,
            }
        ],
    }
