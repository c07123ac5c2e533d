"""A sampler that a study names by its import path: `search/study/keys/own_sampler.py`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.fingerprint import fingerprint_of
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.own_sampler import has_seed, make_sampler
from fathom.search.study.planning.plan import study_notes
from tests.support.command_line import here

OWN = '''
import optuna

class Seeded(optuna.samplers.RandomSampler):
    """Takes a seed, and a number of its own."""

    def __init__(self, scale, seed=None):
        super().__init__(seed)
        self.scale, self.seed = scale, seed

class Unseeded(optuna.samplers.RandomSampler):
    """Draws differently every time."""

    def __init__(self):
        super().__init__()

class Failing(optuna.samplers.RandomSampler):
    def sample_independent(self, *arguments):
        raise RuntimeError("it needs constraints")

def function():
    """No class."""
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module of samplers."""
    (tmp_path / "own_samplers.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("own_samplers", None)


def study(sampler: str, **options: object) -> StudyConfig:
    return parse(
        f"{{study: s, objective: language, budgets: [300k], sampler: {sampler}, "
        f"sampler_options: {options}}}"
    )


def test_a_class_is_made_with_its_options_and_the_seed(own: Path) -> None:
    config = study("own_samplers.Seeded", scale=2.5)
    made = make_sampler(str(config.own_sampler), config.sampler_options, 7)

    assert (made.scale, made.seed) == (2.5, 7)
    assert has_seed(config.own_sampler)
    assert parse(dump(config)) == config
    assert make_sampler("optuna.samplers.NSGAIISampler", {"population_size": 10}, 0)


def test_a_sampler_without_a_seed_is_called_not_reproducible_by_the_plan(own: Path) -> None:
    config = study("own_samplers.Unseeded")
    line = "not reproducible: the constructor of `sampler: own_samplers.Unseeded` takes no `seed`"

    assert make_sampler(str(config.own_sampler), config.sampler_options, 7)
    assert not fingerprint_of(config, "data").reproducible
    assert fingerprint_of(study("own_samplers.Seeded"), "data").reproducible
    assert line in study_notes(config)
    assert not any("reproducible" in note for note in study_notes(study("curve")))
    assert not any("reproducible" in note for note in study_notes(study("own_samplers.Seeded")))


REFUSED = {
    "no_such_module.Sampler": "the module of sampler no_such_module:Sampler must be importable",
    "own_samplers.Seedet": "has nothing by that name; did you mean 'Seeded'?",
    "own_samplers.function": "has another thing by that name; correct its name",
    "subprocess.Popen": "must be a class derived from `optuna.samplers.BaseSampler`",
    "own_samplers.Seeded": "must be what own_samplers.Seeded takes, scale, seed, got {}: TypeError",
    "optuna.samplers.PartialFixedSampler": "takes, fixed_params, base_sampler, got {}: TypeError",
}
"""Import path -> part of the one line that refuses it."""


@pytest.mark.parametrize(("sampler", "line"), REFUSED.items(), ids=REFUSED)
def test_what_is_no_sampler_is_refused_in_one_line(own: Path, sampler: str, line: str) -> None:
    with pytest.raises(PlanError) as refusal:
        make_sampler(sampler, {}, 0)

    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize(
    ("sampler", "line"),
    [
        ("own_samplers.Nothing", "study.yaml:4: sampler own_samplers.Nothing must be a class"),
        ("own_samplers.Failing", "and learn from losses, got RuntimeError: it needs constraints"),
        ("optuna.samplers.BruteForceSampler", "must draw a depth and a feed-forward ratio"),
    ],
)
def test_nothing_starts_with_a_sampler_that_cannot_draw(
    own: Path, verb: str, sampler: str, line: str
) -> None:
    file = own / "study.yaml"
    file.write_text(f"study: s\nobjective: hop\nbudgets: [20k]\nsampler: {sampler}\n")

    done = here(verb, file, cwd=own)

    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (own / "runs").exists()
