"""The drill: a search over three hosts of this machine, undisturbed and with one failure at a time.

    python -m tests.drill                      # all: about an hour on two cores; as root
    python -m tests.drill --only driver        # the undisturbed run, then this one
    python -m tests.drill --keep drill-files   # records, journals and logs stay there

The hosts are network namespaces with process tables, home folders, /tmp and /dev/shm of their own
and an sshd each, brought up by `ray up` and torn down by `ray down`. Needs Linux, root, and of
Debian's packages iproute2, openssh-server and rsync. Exit status 1 when a failure did harm.
"""

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.drill.cluster import Cluster, cluster_on
from tests.drill.failures import FAILURES, Failure
from tests.drill.hosts import FOLDER, three_hosts
from tests.drill.search import Search
from tests.drill.table import Results, Row, markdown, measure, results
from tests.drill.watch import watched


def main() -> int:
    """Run what is asked for and print the table."""
    options = _parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    names = ["undisturbed", *(options.only or FAILURES)]
    rows: list[Row] = []
    try:
        with three_hosts() as hosts:
            try:
                with cluster_on(hosts) as cluster:
                    _run_all(cluster, list(dict.fromkeys(names)), rows)
            finally:
                if options.keep:
                    _keep(options.keep)
    except RuntimeError as error:
        print(f"drill: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("drill: interrupted; the hosts are removed", file=sys.stderr)
        return 130
    finally:
        print(markdown(rows))
    return 0 if all(row.unharmed for row in rows) else 1


def _run_all(cluster: Cluster, names: Sequence[str], rows: list[Row]) -> None:
    expected: Results | None = None
    for name in names:
        print(f"{time.strftime('%H:%M:%S')} {name}: {FAILURES[name].words}", flush=True)
        search = Search(cluster, name)
        row = run_with(FAILURES[name], search, expected)
        expected = expected or results(search.ended)
        rows.append(row)
        print(row, flush=True)


def run_with(failure: Failure, search: Search, expected: Results | None = None) -> Row:
    """Runs one search with one failure; without `expected` it is the undisturbed run."""
    search.cluster.wait_for_all()
    began = time.monotonic()
    status: int | None = None
    with watched(search.folder) as watch:
        search.start()
        try:
            failure.strike(search.cluster, search, watch)
            status = search.finish()
        except RuntimeError as error:
            print(f"drill: {error}", file=sys.stderr)
            search.kill()
    expected = expected or results(search.ended)
    seconds = time.monotonic() - began
    return measure(failure.words, search, watch, status, expected, seconds)


def _keep(folder: Path) -> None:
    """Copy the evidence of a run: run folders, the searches' output, the clusters' logs."""
    shutil.copytree(FOLDER / "runs", folder / "runs", dirs_exist_ok=True)
    for log in FOLDER.glob("*.log"):
        shutil.copy(log, folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", action="append", choices=[*FAILURES], help="this failure")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the drill's files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
