"""`sbatch deploy/slurm.sh` on a real Slurm of three hosts, where root may make them."""

import pytest

from fathom.search.run_folder import RunFolder, read_records
from tests.drill import hosts, slurm
from tests.drill.search import TRIALS

reason = hosts.missing() or slurm.missing()
MINUTES = 60.0


@pytest.mark.drill
@pytest.mark.skipif(reason is not None, reason=str(reason))
def test_a_job_that_is_requeued_at_its_end_of_time_goes_on_with_the_search_on_all_nodes() -> None:
    with hosts.three_hosts() as three, slurm.slurm_on(three) as cluster:
        folder = RunFolder(cluster.outside / "runs" / "drill")
        cluster.run("sbatch slurm.sh study.yaml")
        cluster.wait(lambda: folder.records.exists(), "a trial ends", 5 * MINUTES)
        cluster.run("scancel --batch --signal=USR1 1")  # as Slurm does near the end of the time
        cluster.wait(
            lambda: cluster.log().count("Study drill") == 2, "it begins again", 5 * MINUTES
        )
        cluster.wait(lambda: not cluster.run("squeue -h").strip(), "the job ends", 5 * MINUTES)

        assert "JobState=COMPLETED" in cluster.run("scontrol show job 1"), cluster.log()[-3000:]
        records = read_records(folder.records)
        assert len({record.spec.trial for record in records}) == len(records) == TRIALS
        assert folder.report.exists()
