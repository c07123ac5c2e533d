"""MLflow in a PostgreSQL database: a real server, made for the tests and gone with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from fathom.search.run_folder import read_records
from fathom.search.study.file.study_file import dump
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.tracking.writing.publishing import report_study
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.postgres_server import PASSWORD, Server, driver, running

pytestmark = pytest.mark.drill
driver()


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def test_a_study_is_mirrored_whole_and_ended(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = server.address()
    config = study(budgets=(20_000,), trials=3)
    search = scheduler(config, tmp_path / config.study)
    Simulation(search).run()
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setattr("fathom.search.report.pages.writer.make_charts", lambda *_: ())
    # The second finds all and repeats nothing.
    for address in (uri, uri.replace("postgresql", "postgresql+psycopg", 1)):
        tracked = config.model_copy(update={"tracking": TrackingConfig(uri=address)})
        search.folder.config.write_text(dump(tracked))
        report_study(search.folder.path, trust=True)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(config.study)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert {run.info.status for run in runs} == {"FINISHED"} | (
        {"KILLED"} if any(r.outcome == "stopped" for r in search.records) else set()
    )
    trials = {run.data.tags["fathom.node"] for run in runs} - {"study", "budget/20000"}
    records = read_records(search.folder.records)
    assert trials == {f"trial/{record.spec.trial}" for record in records}
    assert len(runs) == len(records) + 2
