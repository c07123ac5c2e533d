"""Arguments and options that are shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

BROUGHT = Path(__file__).parents[2] / "configs"
"""Folder of the studies that come with Fathom."""


def found_study(study: Path | None) -> Path | None:
    """Returns the study file; if there is none by this path, the study of this name that comes with
    Fathom."""
    if study is None:
        return None
    brought = BROUGHT / f"{study}.yaml"
    is_name = study.name == str(study) and not study.is_file()
    return brought if is_name and brought.is_file() else study


StudyFile = Annotated[
    Path,
    typer.Argument(
        help="Study file (YAML), or `quickstart`.", metavar="STUDY.yaml", callback=found_study
    ),
]
RunPath = Annotated[Path, typer.Argument(help="Run folder, runs/NAME.", metavar="RUN")]
Runs = Annotated[Path, typer.Option(help="Folder that holds the run folders.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ExitVerdict = Annotated[
    bool,
    typer.Option("--exit-verdict", help="Exit with a status for the verdict, from 10 on."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key, such as train.batch_size=8."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run code and use stores that a run or best.yaml names."),
]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="THEIRS=OURS", help="A column's meaning: val/loss=loss."),
]
HorizonOption = Annotated[
    str | None, typer.Option(help="Which horizon, if there are several: 20, or 10M.")
]
DepthOption = Annotated[
    int | None, typer.Option("--depth", help="A trained depth other than the answer, at its cost.")
]
BudgetOption = Annotated[
    str | None, typer.Option("--params", help="Which size, as the study counts it: 10M.")
]
