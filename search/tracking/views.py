"""Views for MLflow's page with the trials of a study as points: loss against depth.

MLflow keeps a shared view as a tag of the experiment and opens it by its name.
"""

import json
from collections.abc import Sequence
from typing import Any

from fathom.search.analysis.optimum import Optimum
from fathom.search.formatting import format_count

TAG = "mlflow.sharedViewState."
"""Beginning of the tag of a shared view."""
SECTION = "loss-against-depth"
ALL_TRIALS = "fathom-trials"
"""Name of the view of all trials."""


def views(optima: Sequence[Optimum]) -> dict[str, str]:
    """Returns views as JSON by name: one of all finished trials, and one for each budget."""
    finished = "metrics.final_loss > 0"
    searches = {ALL_TRIALS: finished} | {
        view_name(o.budget): f"{finished} and params.budget = '{o.budget}'" for o in optima
    }
    return {name: json.dumps(_view(search)) for name, search in searches.items()}


def view_name(budget: int) -> str:
    """Returns the name of the view of a budget's trials."""
    return f"{ALL_TRIALS}-{format_count(budget)}"


def view_address(experiment: str, name: str) -> str:
    """Returns the address, relative to MLflow's page, that opens a view."""
    shown = "workflowType=machine_learning&compareRunsMode=CHART"
    return f"#/experiments/{experiment}/runs?{shown}&viewStateShareKey={name}"


def _view(search: str) -> dict[str, Any]:
    return {
        "searchFilter": search,
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": False,
        # In groups, for else trials stay folded into the runs of their budgets, and out of charts.
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "param", "groupByData": "budget"}],
        },
        "useGroupedValuesInCharts": False,
        "compareRunCharts": [_scatter("depth"), _scatter("params_non_embedding")],
        "compareRunSections": [
            {
                "uuid": SECTION,
                "name": "Loss against depth",
                "columns": 2,
                "display": True,
                "isReordered": False,
                "deleted": False,
                "isGenerated": False,
            }
        ],
    }


def _scatter(param: str) -> dict[str, Any]:
    return {
        "type": "SCATTER",
        "uuid": param,
        "metricSectionId": SECTION,
        "deleted": False,
        "isGenerated": False,
        "xaxis": {"key": param, "type": "PARAM"},
        "yaxis": {"key": "final_loss", "type": "METRIC"},
        "runsCountToCompare": 1000,
    }
