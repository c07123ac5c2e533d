"""The training command of a study: its placeholders, its parser, the keys that go with it."""

import sys
from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError, PlanError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.command import check_program, filled, own_parser
from fathom.search.study.preflight import check_own_loop, check_ready
from fathom.search.study.store_uri import TrackingError, check_model_name

COMMAND = ("python", "train.py", "--n={depth}", "--w={d_model}", "{folder}")
STUDY = """
study: mine
objective: {name: external, vocabulary: 256, context: 32}
budgets: [20k]
tokens: 128k
train: {command: [python, train.py, "{depth}", "{d_model}", "{folder}"], batch_size: 4}
"""


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    values = {"depth": 4, "d_model": 64, "folder": "/runs/a"}
    assert filled((*COMMAND, '{"a": 1}', "{}"), values) == [
        *("python", "train.py", "--n=4", "--w=64", "/runs/a", '{"a": 1}', "{}")
    ]


@pytest.mark.parametrize(
    ("written", "got"), [(r"a\0b", r"'\\x00' in 'a\\x00b'"), (r"\ud800", r"ud800")]
)
def test_a_character_that_no_process_can_be_given_is_refused(written: str, got: str) -> None:
    with pytest.raises(ConfigError, match=rf"`train.command` must have characters .*, got .*{got}"):
        parse(STUDY.replace("train.py", f'"{written}"'))


def test_a_program_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    check_program((sys.executable, "train.py"))
    config = parse(STUDY.replace("python,", "no-such-program,"))
    assert config.plain_rates, "nothing says that one rate carries over"
    with pytest.raises(PlanError, match=r"must begin with a program.*'no-such-program'"):
        check_ready(config, tmp_path)


def test_a_parser_is_found_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_log_lines.py").write_text("def parse(line): return None\n", encoding="utf-8")
    assert own_parser("own_log_lines:parse")("a line") is None
    with pytest.raises(
        PlanError, match="must be a function that takes a line, but own_log_lines has none"
    ):
        own_parser("own_log_lines:prase")
    with pytest.raises(PlanError, match="parser no_such_module:parse must be"):
        own_parser("no_such_module:parse")


def test_what_only_fathoms_own_loop_does_is_refused() -> None:
    check_own_loop(parse("{study: a, objective: language, budgets: [1M]}"))
    with pytest.raises(PlanError, match=r"which tries `confirm.rates`, \[0.5, 1.0, 2.0\]"):
        check_own_loop(parse(STUDY))
    with pytest.raises(TrackingError, match=r"this shape is of `train\.command`"):
        check_model_name("best", "`train.command`")
