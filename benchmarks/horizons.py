"""The answers of a search at several horizons.

fathom run configs/horizons.yaml
python -m benchmarks.horizons runs/horizons --json benchmarks/figures/horizons.json
"""

import argparse
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.formatting import format_count
from fathom.search.report.words.text import interval
from fathom.search.study.planning.horizons import horizon_words
from fathom.search.tracking.writing.publishing import StudyResult, study_result


def main() -> None:
    """Prints a row for each budget and horizon of a run folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="run folder")
    add_json_option(parser)
    asked = parser.parse_args()
    show(study_result(asked.run), asked.json)


def show(found: StudyResult, file: Path | None = None) -> None:
    """Prints the table and keeps it with the figures of its sentences."""
    columns = {"budget": "", "horizon": "", "depth": "", "95 % interval": "", "verdict": ""}
    table = PrintedTable(columns | {"loss (nats)": ".4f", "tokens": ".2f"}, file)
    for budget in found.config.budgets:
        for answer in found.conclusions:
            records = answer.records_of(budget)
            tokens = sum(record.tokens for record in records) / 1e6
            for optimum in answer.optima:
                if optimum.budget == budget:
                    table.add(
                        format_count(budget),
                        horizon_words(answer.config),
                        str(optimum.optimal_depth or "-"),
                        interval(optimum) or "-",
                        optimum.kind.value,
                        "-" if optimum.loss is None else optimum.loss,
                        tokens,
                    )
    table.figure("law", found.law_sentence, "the law over parameters and tokens")


if __name__ == "__main__":
    main()
