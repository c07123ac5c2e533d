"""Whether the best depth is the same in two studies, as a table of the results page.

python -m benchmarks.answers.trained.beside runs/quickstart runs/quickstart-adamw
"""

import argparse
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.conclusion.comparison import compare_runs
from fathom.search.report.pages.comparison import answer_rows, depth_rows


def main() -> None:
    """Prints a row for each budget, and one for all of them together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    add_json_option(parser)
    args = parser.parse_args()
    found = compare_runs([args.first, args.second])
    names = [study.name for study in found.studies]
    best = {
        (row["budget"], row["study"]): f"{row['best depth']} [{row['95 % interval']}]"
        for row in answer_rows(found)
    }
    columns = (
        "budget",
        *names,
        "ratio",
        "first's depth in the second",
        "second's depth in the first",
    )
    table = PrintedTable(dict.fromkeys(columns, ""), args.json)
    for row in depth_rows(found):
        budget = row["budget"]
        table.add(
            budget,
            *(best.get((budget, name), "-") for name in names),
            row["second / first"] or "-",
            *(row[column] or "-" for column in columns[-2:]),
        )


if __name__ == "__main__":
    main()
