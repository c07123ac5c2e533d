"""The card: one page of Markdown and a picture, to repeat an answer by or to overturn it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from PIL import Image

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.records import Outcome
from fathom.search.report.pages.card import CARD, PICTURE, card_text, save_card, study_yaml
from fathom.search.report.pages.page import page as page_of
from fathom.search.study.file.study_file import load, parse
from fathom.search.study.fingerprint import Fingerprint, fingerprint_of
from fathom.search.study.keys.groups import TrackingConfig
from tests.support.optima import located, verdict
from tests.support.places import ROOT
from tests.support.reporting import BUDGETS, CONFIG, Records, conclusion_of, of_budget, visible

DIGESTS = Fingerprint(study="5" * 32, data="d" * 32)


@pytest.fixture(scope="module")
def found(study: Records) -> Conclusion:
    return replace(conclusion_of(study), fingerprint=DIGESTS)


@pytest.fixture(scope="module")
def card(found: Conclusion) -> str:
    return card_text(found)


def blocks(card: str) -> dict[str, str]:
    """Language -> the text of the block in it."""
    return dict(re.findall(r"```(\w+)\n(.*?)\n```", card, flags=re.DOTALL))


def test_the_card_has_claim_cost_digests_and_citation(card: str) -> None:
    assert "**Train depth 3 at 300k, depth 4 at 1M" in card
    assert "| 300k | 6M | total | 3 | 3 |" in card
    assert DIGESTS.study in card
    assert DIGESTS.data in card
    assert re.search(
        r"147 trials \(.*93 finished.*\), 3.16B training tokens, [\d.]+e16 FLOPs", card
    )
    assert blocks(card)["bibtex"].startswith("@software{fathom,")
    assert "![Train depth 3 at 300k, depth 4 at 1M" in card
    assert f"]({PICTURE})" in card


def test_a_study_whose_sampler_takes_no_seed_is_called_not_reproducible(
    study: Records, card: str
) -> None:
    config = CONFIG.model_copy(update={"sampler": "mine.Unseeded"})
    drawn = replace(conclusion_of(study), config=config)
    found = replace(drawn, fingerprint=replace(DIGESTS, reproducible=False))

    assert "Shapes: not reproducible, as `mine.Unseeded` takes no seed" in card_text(found)
    assert "mine.Unseeded: not reproducible, as it takes no seed" in visible(page_of(found, []))
    assert "reproducible" not in card


def test_the_file_on_the_card_is_the_study_that_was_searched(card: str) -> None:
    assert parse(blocks(card)["yaml"]) == CONFIG
    for file in (ROOT / "configs").rglob("*.yaml"):
        config = load(file)
        again = parse(study_yaml(config))
        assert fingerprint_of(again, "data") == fingerprint_of(config, "data"), file


def test_addresses_and_machines_are_no_part_of_the_file(found: Conclusion) -> None:
    secret = TrackingConfig(uri="postgresql://me:hunter2@host/db")
    config = CONFIG.model_copy(update={"tracking": secret})
    shown = card_text(replace(found, config=config))
    assert "hunter2" not in shown
    assert set(yaml.safe_load(blocks(shown)["yaml"])) == {"study", "objective", "budgets"}


def test_an_answer_is_overturned_by_a_depth_outside_that_is_better_by_two_standard_errors(
    found: Conclusion, card: str
) -> None:
    optimum = located(found.optima[0])
    line = next(line for line in card.splitlines() if line.startswith("- 300k: a depth"))
    below = float(re.findall(r"below (\d\.\d{4}) nats", line)[0])
    assert "a depth outside 2-4" in line
    assert optimum.loss - 4 * optimum.noise < below < optimum.loss


def test_an_answer_at_an_end_is_overturned_from_the_other_side_only(found: Conclusion) -> None:
    optimum = located(found.optima[0])
    shallowest, deepest = (optimum.depths[place].depth for place in (0, -1))
    at_edge = verdict(Kind.EDGE)
    deep = replace(optimum, verdict=at_edge, interval=(4, deepest), optimal_depth=deepest)
    shallow = replace(optimum, verdict=at_edge, interval=(shallowest, 3))
    shown = [card_text(replace(found, optima=(each,))) for each in (deep, shallow)]
    assert "- 300k: a depth below 4 whose mean loss" in shown[0]
    assert f"- 300k: a depth outside {shallowest}-4 whose" in shown[1], "no shallower model exists"


def test_where_nothing_is_claimed_nothing_can_be_overturned(found: Conclusion) -> None:
    unsure = replace(found.optima[0], verdict=verdict(Kind.INSUFFICIENT))
    shown = card_text(replace(found, optima=(unsure, *found.optima[1:])))
    assert "- 300k: nothing is claimed." in shown
    assert "300k: insufficient; depth 3 is the best estimate." in shown


def test_a_run_whose_trials_all_diverged_has_a_card_without_a_chart(
    study: Records, tmp_path: Path
) -> None:
    lost = [r for r in of_budget(study, BUDGETS[0]) if r.outcome is Outcome.DIVERGED]
    shown = save_card(conclusion_of(lost), tmp_path)
    assert "no trial has finished" in shown
    assert "No digest was recorded." in shown
    with Image.open(tmp_path / PICTURE) as picture:
        assert picture.size == (1200, 630)


def test_the_picture_has_the_size_of_link_previews_and_says_what_it_is(
    found: Conclusion, tmp_path: Path
) -> None:
    save_card(found, tmp_path)
    with Image.open(tmp_path / PICTURE) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1200, 630))
        texts = picture.info
    assert texts["Title"] == "simulated: how deep should the transformer be?"
    assert texts["Description"].startswith("Train depth 3 at 300k")
    assert "settings and data 555555555555" in texts["Comment"]
    assert texts["Software"].startswith("Fathom ")
    assert "Creation Time" not in texts


def test_the_same_run_gives_the_same_bytes(found: Conclusion, tmp_path: Path) -> None:
    made = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        save_card(found, folder)
        made.append([(folder / file).read_bytes() for file in (CARD, PICTURE)])
    assert made[0] == made[1]


def test_of_many_sizes_the_picture_shows_the_largest(study: Records, tmp_path: Path) -> None:
    first, *others = conclusion_of(study).optima
    smaller = [replace(first, budget=budget) for budget in (100_000, 200_000)]
    found = replace(conclusion_of(study), optima=(*smaller, first, *others))
    save_card(found, tmp_path)
    with Image.open(tmp_path / PICTURE) as picture:
        assert "2 more in the card" in picture.info["Comment"]
        assert "200k" not in picture.info["Description"]


def test_the_report_has_the_card_to_copy(found: Conclusion, card: str) -> None:
    page = page_of(found, ())
    assert " ".join(card.split()) in visible(page)
    assert 'aria-label="Copy the card"' in page
    assert '<meta property="og:image" content="card.png">' in page


HARM = (
    "<img src=x onerror=alert(1)>",
    "GPU](http://here) ![x](http://here/y.png)",
    "`</p><script>x</script>`",
    "\n\n# Heading\n```\n<b>",
)


@pytest.mark.parametrize("device", HARM)
def test_words_of_the_records_are_neither_html_nor_links(found: Conclusion, device: str) -> None:
    records = tuple(replace(record, device=device) for record in found.records)
    card = card_text(replace(found, records=records, fingerprint=replace(DIGESTS, data=device)))
    shown = re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    assert "<" not in shown
    assert "\n# Heading" not in shown
    assert not re.search(r"(?<!\\)\]\(http", shown)
    assert blocks(card)["bibtex"].startswith("@software{fathom,")


def test_no_value_of_the_study_ends_the_block_in_which_it_stands(found: Conclusion) -> None:
    config = found.config.model_copy(update={"study": "s"})
    objective = config.objective.model_copy(update={"corpus": "```<script>```"})
    card = card_text(replace(found, config=config.model_copy(update={"objective": objective})))
    (block,) = re.findall(r"^````yaml\n(.*?)\n````$", card, flags=re.DOTALL | re.MULTILINE)
    assert "```<script>```" in block
