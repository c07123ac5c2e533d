"""`fathom ask --flops`, as a person types it, on the laws of a planted ladder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.loss_law import LowestLoss
from fathom.search.analysis.laws.token_law import fit_token_law
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.conclusion.token_laws import PartLaw, part_law, write_token_laws
from fathom.search.contract.exit_status import STATUS
from tests.support.command_line import here
from tests.support.contract import valid
from tests.support.optima import token_ladder

SHAPE = Shape(
    depth=8, d_model=512, d_ff=2048, n_heads=8, head_dim=64, vocab_size=32_000, context=1024
)
SIZES = (3_000_000, 10_000_000, 30_000_000)
LARGEST = 6 * SIZES[-1] * SIZES[-1] * 80


def ladder_law() -> PartLaw:
    law = fit_token_law(token_ladder(SIZES))
    assert law is not None
    losses = tuple(
        LowestLoss(
            params=size,
            tokens=size * ratio,
            loss=1.7 + 0.6 * (size / 1e7) ** -0.35 + 0.5 * (size * ratio / 2e8) ** -0.3,
            error=0.002,
            curvature=0.05,
        )
        for size in SIZES
        for ratio in (5, 20, 80)
    )
    return PartLaw(law=law, losses=losses)


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    file = tmp_path / "answer.json"
    write_token_laws(file, [ladder_law()])
    return file


def said(*arguments: object) -> tuple[int, str, str]:
    done = here("ask", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_flops_have_a_size_tokens_and_a_depth_with_what_being_wrong_costs(answer: Path) -> None:
    status, out, _ = said("--flops", 30 * LARGEST, "--law", answer)

    assert status == 0
    assert "non-embedding parameters" in out
    assert "Extrapolated: it is 30 times the compute of the ladder's largest training" in out
    assert "20 tokens a parameter:" in out
    assert "Hoffmann et al. 2022:" in out
    assert "Levine et al. 2020: depth" in out
    found = json.loads(said("--flops", 30 * LARGEST, "--law", answer, "--json")[1])
    assert valid(found)["answers"][0]["verdict"]["kind"] == "by_law"
    at_compute = found["at_compute"]
    assert at_compute["answer"]["params_interval"][0] < at_compute["answer"]["params"]
    assert at_compute["why_not"] == ""
    shape = found["answers"][0]["answer"]["shape"]
    assert shape is None, "a table does not say what its shapes have"


def test_where_shapes_are_known_the_flops_are_exactly_those_of_the_answered_one(
    tmp_path: Path,
) -> None:
    write_token_laws(tmp_path / "token_law.json", [replace(ladder_law(), template=SHAPE)])

    found = json.loads(said("--flops", LARGEST, "--law", tmp_path, "--json")[1])

    answered, at_compute = found["answers"][0]["answer"], found["at_compute"]
    sizes = {name: answered["shape"][name] for name in ("depth", "d_model", "d_ff", "n_heads")}
    shape = replace(SHAPE, **sizes)
    assert shape.size(Count.NON_EMBEDDING) == pytest.approx(
        at_compute["answer"]["params"], rel=0.01
    )
    assert shape.train_flops_per_token * at_compute["shape_tokens"] == pytest.approx(LARGEST)
    assert "the FLOPs are exactly those of" in said("--flops", LARGEST, "--law", tmp_path)[1]


def test_hours_of_a_gpu_are_flops_at_an_estimated_rate(answer: Path) -> None:
    status, out, _ = said("--gpu-hours", 10, "--gpu", "H100", "--law", answer)

    assert status == 0
    assert "10 hours of one H100, about 2.14e+19 FLOPs" in out


def test_too_much_compute_and_a_ladder_too_small_end_with_a_reason_and_status_1(
    answer: Path, tmp_path: Path
) -> None:
    status, out, _ = said("--flops", "1e24", "--law", answer)
    assert (status, out.count("\n")) == (1, 1)
    assert "times the compute of the ladder's largest training" in out
    small = tmp_path / "small.json"
    write_token_laws(small, [replace(ladder_law(), losses=ladder_law().losses[:6])])
    status, out, _ = said("--flops", LARGEST, "--law", small)
    assert status == 1
    assert "a law of loss needs 3 sizes and 3 horizons" in out
    status, out, _ = said("--flops", "1e24", "--law", answer, "--json")
    [none] = valid(json.loads(out))["answers"]
    assert (status, none["answer"], none["verdict"]["kind"]) == (1, None, "no_answer")
    by_verdict = said("--flops", "1e24", "--law", answer, "--exit-verdict")[0]
    assert by_verdict == STATUS[Kind.NO_ANSWER]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The losses of the ladder as a table without a depth."""
    file = tmp_path / "runs.csv"
    rows = [f"{run.params},{run.tokens},{run.loss}" for run in ladder_law().losses]
    file.write_text("\n".join(["non_embedding_params,D,val_loss", *rows]) + "\n")
    return file


def test_a_table_without_depth_has_size_and_tokens_and_says_that_depth_is_not_shown(
    answer: Path, runs: Path
) -> None:
    status, out, _ = said("--flops", LARGEST, "--law", runs, "--map", "D=tokens")

    assert status == 0
    assert "tokens, depth: not shown.\nDepth is not shown: no column has it." in out
    asked = ("--flops", LARGEST, "--json", "--law")
    found = valid(json.loads(said(*asked, runs, "--map", "D=tokens")[1]))
    assert found["answers"][0]["answer"] is None
    assert found["answers"][0]["verdict"]["kind"] == "by_law"
    by_law = json.loads(said(*asked, answer)[1])["at_compute"]["answer"]
    assert found["at_compute"]["answer"]["params"] == pytest.approx(by_law["params"], rel=0.02)
    assert found["at_compute"]["answer"]["depth"] is None


def test_of_a_run_with_several_rows_the_last_one_counts_and_depths_are_asked_for_elsewhere(
    runs: Path,
) -> None:
    lines = [line.split(",") for line in runs.read_text().splitlines()[1:]]
    curves = [
        f"{size},{int(tokens) * part // 4},{float(loss) + 0.5 * (4 - part)},{number},{number}"
        for number, (size, tokens, loss) in enumerate(lines, 1) for part in (1, 2, 3, 4)
    ]  # fmt: skip
    plain = said("--flops", LARGEST, "--law", runs, "--map", "D=tokens")[1]
    runs.write_text("\n".join(["non_embedding_params,tokens,val_loss,run,depth", *curves]) + "\n")

    status, out, _ = said("--flops", LARGEST, "--law", runs)

    assert status == 0
    assert out.splitlines()[0] == plain.splitlines()[0]
    assert "--horizons` asks this table for depths" in out


def test_a_table_that_shows_no_size_is_one_line(runs: Path) -> None:
    status, out, error = said("--flops", LARGEST, "--law", runs)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "must have a column that is the tokens" in error
    runs.write_text("params,tokens,val_loss\n1e6,2e7,3.1\n2e6,4e7,3.0\n")
    status, out, error = said("--flops", LARGEST, "--law", runs)
    assert (status, out.count("\n"), error) == (1, 1, "")
    assert "7 losses among them, got 2 of 2 sizes" in out
    runs.write_text("params,tokens,val_loss\n1e6,,3.1\n2e6,,3.0\n")
    assert "must have the tokens of its runs" in said("--flops", LARGEST, "--law", runs)[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flops", "1e20"], "`--law` must be a run folder"),
        (["--flops", "much", "--law", "x"], "`--flops` must be a number above 0, got much"),
        (["--flops", "inf", "--law", "x"], "`--flops` must be a number above 0, got inf"),
        (["--gpu-hours", "5", "--law", "x"], "`--gpu` must name the GPU"),
        (["--flops", "1", "--gpu", "L4", "--law", "x"], "`--gpu` goes with --gpu-hours alone"),
        (
            ["--flops", "1", "--law", "x", "--params", "1B"],
            "`--flops` and `--params` belong to two",
        ),
        (
            ["--flops", "1", "--law", "x", "--plan"],
            "`--flops` and `--plan` belong to two questions",
        ),
        (["--params", "1B", "--hours", "1", "--law", "x"], "`--params` and `--law` belong to two"),
        (["--params", "1B", "--hours", "1", "--gpu", ""], "`--gpu` must be one of"),
        (["--params", "1B", "--hours", "1", "--out", "."], "`--out` must be a file in an existing"),
        (["--params", "1B", "--hours", "1", "--out", "no/x.yaml"], "an existing folder, got"),
        (["--gpu-hours", "5", "--flops", "1", "--law", "x"], "the same thing twice"),
        (
            ["--flops", "1", "--law", "levine2020"],
            "`--flops` needs a law over parameters and tokens",
        ),
        (["--params", "1B"], "takes --params and --hours to search"),
        (["--flops", "1", "--law", "x", "--map", "D=tokens"], "`--map` names columns of a table"),
    ],
)
def test_a_mistake_in_the_question_is_one_line(arguments: list[str], message: str) -> None:
    status, out, error = said(*arguments)

    assert (status, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_the_law_of_a_study_keeps_the_best_shape_of_its_largest_budget() -> None:
    known = DepthEstimate(depth=8, loss=1.6, standard_error=0.002, trials=2, shape=SHAPE)
    optima = [replace(found, shape=SHAPE, depths=(known,)) for found in token_ladder(SIZES)]

    found = part_law(optima)

    assert found is not None
    assert found.template == SHAPE
    assert [known.error for known in found.losses] == [0.002] * 9
