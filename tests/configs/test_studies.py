"""configs/studies: each file plans, is named after its place, and docs/studies.md has it."""

from pathlib import Path

import pytest

from benchmarks.papers.studies import OF_LOSSES, PAPERS, claims_of
from fathom.objectives.rows.translation.keys import TranslationConfig
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from tests.support.dry_run import MACHINE
from tests.support.places import ROOT

FILES = sorted((ROOT / "configs" / "studies").glob("*/*.yaml"))
OF_BLOCKS = sorted(
    path for kind in ("depth", "width") for path in (ROOT / "configs").glob(f"*_{kind}*.yaml")
)
"""Studies of other blocks, and the dense ones to compare them with."""
KNOWN = {*PAPERS, *OF_LOSSES}
PUBLISHED = ("language", "transduction", "translation", "classification")
"""Objectives whose text or rows must be had or drawn first, which a test does not wait for."""
VOCABULARY = 1000
"""Of those; no budget of their studies counts embeddings."""


def of_paper(paper: str) -> list[StudyConfig]:
    return [load(path) for path in FILES if path.parent.name == paper]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_study_can_be_planned_and_is_named_after_its_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(path)
    monkeypatch.setattr(TranslationConfig, "train_tokens", lambda _keys: 1_000_000)
    fixed = config.objective.name in PUBLISHED
    plans = plan_study(config, VOCABULARY if fixed else vocab_size_of(config.objective), MACHINE)

    assert all(plan.shapes for plan in plans)
    assert config.study == f"{path.parent.name}-{path.stem}"
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("path", OF_BLOCKS, ids=lambda path: path.stem)
def test_each_study_of_a_block_can_be_planned(path: Path) -> None:
    config = load(path)
    plans = plan_study(config, 8000 if path.stem.endswith("gpu") else 256, MACHINE)

    assert all(plan.shapes for plan in plans)
    assert config.study == path.stem.replace("_gpu", "-gpu")


@pytest.mark.parametrize("paper", sorted(KNOWN))
def test_each_paper_has_a_study_for_a_cpu_and_one_for_a_gpu(paper: str) -> None:
    kinds = {config.study.split("-")[1] for config in of_paper(paper)}

    assert kinds == {"cpu", "gpu"}


def test_every_folder_is_a_paper_whose_claims_are_known() -> None:
    assert {path.parent.name for path in FILES} == KNOWN
    assert all(claims_of(config) for paper in PAPERS for config in of_paper(paper))
    assert not any(claims_of(config) for paper in OF_LOSSES for config in of_paper(paper))


def test_the_page_has_a_section_for_each_paper(page: str) -> None:
    assert {paper for paper in KNOWN if f"\n## {paper}\n" in page} == KNOWN
