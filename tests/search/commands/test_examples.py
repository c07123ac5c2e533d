"""The help of the commands: `search/commands/examples.py` and the groups of `search/cli.py`."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from pyarrow import table
from pyarrow.parquet import write_table
from typer.main import get_command
from typer.testing import CliRunner

from fathom.search.cli import VERBS, app
from fathom.search.commands.examples import EXAMPLES

PROGRAM: Any = get_command(app)
SHOWN = [name for name, command in PROGRAM.commands.items() if not command.hidden]
LEAST_WIDTH = 50


def examples(verb: str) -> list[str]:
    return [line.strip() for line in EXAMPLES[verb].splitlines() if line.startswith("    fathom")]


@pytest.mark.parametrize("verb", SHOWN)
def test_a_verb_has_two_examples_that_its_own_options_understand(verb: str) -> None:
    assert len(examples(verb)) == 2
    for line in examples(verb):
        name, *arguments = shlex.split(line)[1:]
        assert name == verb
        PROGRAM.commands[verb].make_context(verb, arguments)  # raises what a user would be told


def test_the_american_spelling_is_the_same_command_and_the_help_has_one_of_them() -> None:
    assert len(SHOWN) <= 17
    assert set(PROGRAM.commands).difference(SHOWN) == {"analyze"}
    british, american = (PROGRAM.commands[name] for name in ("analyse", "analyze"))
    assert [each.opts for each in american.params] == [each.opts for each in british.params]


def test_the_help_has_every_verb_in_its_group() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    places = [shown.index(f" {group} ") for group in VERBS]
    assert places == sorted(places)
    for number, verbs in enumerate(VERBS.values()):
        part = shown[places[number] : (*places, len(shown))[number + 1]]
        assert all(f" {verb.__name__} " in part for verb in verbs)


@pytest.mark.parametrize("verb", SHOWN)
def test_no_option_is_cut_short_on_a_narrow_terminal(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": str(LEAST_WIDTH)}).stdout
    assert "\u2026" not in shown
    for parameter in PROGRAM.commands[verb].params:
        assert all(option in shown for option in parameter.opts if option.startswith("--"))


def test_a_study_that_fathom_brings_is_found_by_its_name(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planned = CliRunner().invoke(app, ["plan", "quickstart"])
    assert planned.exit_code == 0
    assert planned.stdout.startswith("quickstart: ")
    (tmp_path / "quickstart").write_text("study: [")
    assert "YAML" in str(CliRunner().invoke(app, ["plan", "quickstart"]).exception), "one's own"


def test_the_example_that_reads_ids_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(table({"ids": [[1, 2, 50_256]] * 200}), "a.parquet")
    _, *arguments = shlex.split(examples("tokenize")[1])
    assert CliRunner().invoke(app, arguments).exit_code == 0
