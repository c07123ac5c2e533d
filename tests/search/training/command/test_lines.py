"""What a line of a training command says, and what is refused."""

import math
from pathlib import Path

import pytest

from fathom.search.training.command.lines import (
    CommandLine,
    Evaluation,
    LineError,
    json_values,
    load_parser,
    read_line,
)


def read(text: str) -> CommandLine:
    return read_line(text, json_values, tokens_per_step=100)


def test_a_line_of_json_has_tokens_loss_and_metrics() -> None:
    line = read('{"tokens": 300, "loss": 2.5, "accuracy": 0.5, "phase": "train", "done": true}')
    assert line.evaluation is not None
    assert (line.evaluation.tokens, line.evaluation.loss) == (300, 2.5)
    assert line.evaluation.metrics == {"accuracy": 0.5}
    assert math.isnan(line.evaluation.train_loss), "the line gives none"


def test_steps_become_tokens_where_a_line_has_no_tokens() -> None:
    line = read('{"step": 7, "loss": 2, "train_loss": 1.5}')
    assert line == CommandLine(Evaluation(tokens=700, loss=2.0, train_loss=1.5))


@pytest.mark.parametrize("text", ["", "epoch 3", "{not json", "[1, 2]", '{"event": "start"}', "{}"])
def test_other_lines_of_a_log_say_nothing(text: str) -> None:
    assert read(text) == CommandLine()


def test_a_line_may_give_the_number_of_parameters_alone() -> None:
    assert read('{"parameters": 1000}') == CommandLine(None, 1000)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "1e999"])
def test_a_loss_that_is_no_number_is_read_as_it_is(loss: str) -> None:
    evaluation = read(f'{{"tokens": 100, "loss": {loss}}}').evaluation
    assert evaluation is not None
    assert not math.isfinite(evaluation.loss)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"loss": 2.5}', "a loss must come with `tokens` or `step`"),
        ('{"tokens": 1.5, "loss": 2}', "`tokens` must be a whole number, got 1.5"),
        ('{"tokens": -1, "loss": 2}', "`tokens` must be a whole number, got -1"),
        ('{"tokens": 1e30, "loss": 2}', "`tokens` must be a whole number"),
        ('{"tokens": "many", "loss": 2}', "`tokens` must be a whole number, got 'many'"),
        ('{"tokens": 100, "loss": "low"}', "`loss` must be a number, got 'low'"),
        ('{"tokens": 100, "loss": null}', "`loss` must be a number, got None"),
        ('{"tokens": 100, "loss": true}', "`loss` must be a number, got True"),
        ('{"parameters": NaN}', "`parameters` must be a whole number, got nan"),
    ],
)
def test_values_that_cannot_be_right_are_one_line(text: str, message: str) -> None:
    with pytest.raises(LineError, match=message):
        read(text)


MODULE = """
def parse(line):
    if line == "bad":
        raise IndexError("no loss")
    if line == "wrong":
        return 3
    return {"step": 1, "loss": 2.0} if line == "step" else None
"""


def test_a_users_function_reads_what_it_knows_and_its_mistakes_name_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_parser(None) is json_values
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lines_of_a_log.py").write_text(MODULE, encoding="utf-8")
    parse = load_parser("lines_of_a_log:parse")
    assert parse("step") == {"step": 1, "loss": 2.0}
    assert parse("else") is None
    with pytest.raises(
        LineError, match=r"read the line 'bad', got IndexError: no loss at .*, line 4"
    ):
        parse("bad")
    with pytest.raises(LineError, match="must return a mapping or None, got 3 for 'wrong'"):
        parse("wrong")
