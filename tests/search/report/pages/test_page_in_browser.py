"""The page in a browser: at each width and colour scheme, by pointer, by keys and on paper."""

import io
import json
from base64 import b64decode
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from PIL import Image

from tests.support.browser import Browser, browser
from tests.support.reporting import BUDGETS, page_on
from tests.support.simulated import simulated_study

pytestmark = [pytest.mark.browser, pytest.mark.drill]

CUT = """(() => {
  const cut = [];
  for (const plot of document.querySelectorAll(".plot")) {
    const box = (plot.closest("figure") ?? plot.closest(".card")).getBoundingClientRect();
    if (!box.width) continue;
    for (const one of plot.querySelectorAll("text, use")) {
      const own = one.getBoundingClientRect();
      if (!own.width) continue;
      if (own.left < box.left - 1 || own.right > box.right + 1
          || own.top < box.top - 1 || own.bottom > box.bottom + 1)
        cut.push(plot.getAttribute("aria-label") + " " + one.textContent);
    }
  }
  return cut;
})()"""
"""What of the figures lies outside the frames around them."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with the report of a simulated study."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(page_on(simulated_study(budgets=BUDGETS)), "utf-8")
    with browser(folder / "profile") as opened:
        opened.open((folder / "report.html").as_uri())
        opened.wait_for("document.readyState === 'complete' && !!document.querySelector('#tip')")
        opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        yield opened


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_or_wider_than_a_window(chromium: Browser, width: int, scheme: str) -> None:
    chromium.show(width=width, height=900, scheme=scheme)

    root = "document.documentElement"
    assert chromium.ask(f"{root}.scrollWidth - {root}.clientWidth") <= 0
    assert chromium.ask(CUT) == []
    figures = chromium.ask("document.querySelectorAll('.plot svg[role=img]').length")
    assert figures == 1 + 5 * len(BUDGETS)
    lowest = "Math.min(...[...document.querySelectorAll('.plot > svg')].map((s) => s.clientHeight))"
    assert chromium.ask(lowest) >= 100
    assert chromium.errors == []


PAPER_PIXELS = 700
"""Width of A4 without margins at 96 pixels an inch."""


def test_on_paper_no_figure_is_cut_and_colours_are_those_of_a_light_page(chromium: Browser) -> None:
    chromium.show(width=PAPER_PIXELS, height=1000, scheme="dark", media="print")

    root = "document.documentElement"
    assert chromium.ask(f"{root}.scrollWidth - {root}.clientWidth") <= 0
    assert chromium.ask(CUT) == []
    back = chromium.ask("getComputedStyle(document.body).backgroundColor")
    assert back == "rgb(255, 255, 255)"


def test_the_answer_and_its_curves_are_above_the_fold(chromium: Browser) -> None:
    chromium.show(width=1280, height=800, scheme="light")
    chromium.ask("scrollTo(0, 0)")
    bottoms = chromium.ask(
        "[...document.querySelectorAll('.card .plot')].map((p) => p.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == len(BUDGETS)
    assert max(bottoms) < 800


def test_a_pointer_and_the_arrow_keys_read_values(chromium: Browser) -> None:
    chromium.show(width=1280, height=800, scheme="light")
    plot = f"document.querySelector('#loss-against-depth-{BUDGETS[0]} .plot')"
    chromium.ask(f"{plot}.scrollIntoView()")
    chromium.ask(f"""(() => {{
        const box = {plot}.querySelector(".points > use").getBoundingClientRect();
        {plot}.dispatchEvent(new PointerEvent("pointermove",
            {{clientX: box.x + box.width / 2, clientY: box.y + box.height / 2}}));
    }})()""")
    assert "depth" in chromium.ask("document.querySelector('#tip:not([hidden])').textContent")

    said = []
    for key in ("Escape", "ArrowRight", "ArrowRight", "ArrowDown"):
        chromium.ask(f"{plot}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
        said.append(chromium.ask("document.querySelector('#tip').textContent"))
    assert len(set(said[1:])) == 3, "each press goes one further"
    assert chromium.ask("document.querySelector('#tip').getAttribute('role')") == "status"


def test_keys_move_the_handle_of_the_sounding_and_what_it_says(chromium: Browser) -> None:
    chromium.show(width=390, height=800, scheme="dark")
    handle = "document.querySelector('.sounding .handle')"
    said = f"{handle}.querySelector('output').textContent"
    assert chromium.ask(said).startswith("At 3M parameters the best depth is ")
    chromium.ask(f"{handle}.querySelector('input').focus()")
    chromium.press("ArrowRight")
    beyond = chromium.ask(said)
    assert "by the power and logarithmic laws, beyond what was measured" in beyond
    chromium.press("Tab")
    chromium.press("ArrowRight")
    assert chromium.ask(said) != beyond
    assert chromium.ask(said).split(" The price")[0] == beyond.split(" The price")[0]
    assert " times the compute" in beyond
    named = chromium.ask("document.activeElement.getAttribute('aria-valuetext')")
    assert named == chromium.ask(f"{handle}.querySelectorAll('b')[1].textContent")
    assert chromium.errors == []


def test_a_click_moves_the_handle_to_the_nearest_size(chromium: Browser) -> None:
    chromium.show(width=1280, height=800, scheme="light")
    drawing = "document.querySelector('.sounding .plot > svg')"
    chromium.ask(f"""(() => {{
        const box = {drawing}.getBoundingClientRect();
        {drawing}.dispatchEvent(new MouseEvent("click",
            {{clientX: box.left + 1, clientY: box.top + 9, bubbles: true}}));
    }})()""")
    said = chromium.ask("document.querySelector('.sounding output').textContent")
    assert said.startswith("At 300k parameters")


def test_every_figure_has_a_table_of_its_values_when_it_is_unfolded(chromium: Browser) -> None:
    rows = """[...document.querySelectorAll("main figure:not(.sounding)")].map((figure) => [
        figure.querySelectorAll(".plot .points > use").length,
        figure.querySelectorAll(".values tbody tr").length,
        figure.querySelector(".values thead").textContent])"""
    found = chromium.ask(rows)
    assert len(found) == 4 * len(BUDGETS)
    assert all(points < lines for points, lines, _ in found), "points, and corners of lines"
    assert {head for *_, head in found} >= {"markofdepthloss", "markoftokensloss"}
    row = f"#loss-against-depth-{BUDGETS[0]} .values tr:nth-child(2)"
    cells = chromium.ask(f"[...document.querySelectorAll('{row} td')].map((c) => c.textContent)")
    assert cells[2].isdigit()


def test_a_term_explains_itself_when_it_has_the_focus(chromium: Browser) -> None:
    chromium.ask("document.querySelector('#table .term').focus()")
    chromium.ask("document.querySelector('#table .term').dispatchEvent(new Event('focus'))")
    assert "95 % probability" in chromium.ask("document.querySelector('#tip').textContent")


def test_a_link_unfolds_its_budget(chromium: Browser) -> None:
    unfolded = "document.querySelectorAll('details.budget[open]').length"
    chromium.ask("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
    chromium.ask(f"location.hash = 'budget-{BUDGETS[1]}'")
    assert chromium.wait_for(unfolded) == 1


def test_the_sections_are_named_by_their_headings_and_stay_at_hand(chromium: Browser) -> None:
    chromium.show(width=1280, height=800, scheme="light")
    named = "[...document.querySelectorAll('nav a')].map((a) => a.textContent)"
    headings = "[...document.querySelectorAll('section > h2')].map((h) => h.textContent)"
    assert chromium.ask(named) == chromium.ask(headings)
    chromium.ask("document.documentElement.style.scrollBehavior = 'auto'")
    chromium.ask("scrollTo(0, 3000)")
    assert chromium.ask("document.querySelector('nav').getBoundingClientRect().top") == 0


def saved(chromium: Browser, figure: str, kind: str) -> str:
    """The address of a figure's file, as its button makes it."""
    chromium.ask("window.saved = ''")
    chromium.ask("HTMLAnchorElement.prototype.click = function () { window.saved = this.href; }")
    buttons = f"[...document.querySelectorAll('#{figure} .saves button')]"
    chromium.ask(f"{buttons}.find((button) => button.textContent === '{kind}').click()")
    return str(chromium.wait_for("window.saved"))


@pytest.mark.parametrize("width", [390, 1280])
def test_a_figure_is_saved_with_its_legend_and_all_of_its_texts(
    chromium: Browser, width: int
) -> None:
    chromium.show(width=width, height=800, scheme="light")
    chromium.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for figure in ("depth-against-budget", f"learning-curves-{BUDGETS[0]}"):
        drawing = unquote(saved(chromium, figure, "SVG")).partition(",")[2]
        legend = f"[...document.querySelectorAll('#{figure} .legend > *')]"
        names = chromium.ask(f"{legend}.map((entry) => entry.textContent)")
        assert names
        assert all(f">{name}</text>" in drawing for name in names)
        question = chromium.ask(f"document.querySelector('#{figure} .question').textContent")
        assert question.split()[-1] in drawing, "not cut"
        assert 'class="other"' not in drawing, "the handle of the page is no data"
        outside = f"""(() => {{
            const place = document.body.appendChild(document.createElement("div"));
            place.innerHTML = {json.dumps(drawing)};
            const whole = place.firstChild.getBoundingClientRect();
            const texts = [...place.querySelectorAll("text")].filter((text) => {{
                const box = text.getBoundingClientRect();
                return box.left < whole.left || box.right > whole.right;
            }}).map((text) => text.textContent);
            place.remove();
            return texts;
        }})()"""
        assert chromium.ask(outside) == []


def test_a_figure_is_saved_with_300_dots_per_inch(chromium: Browser) -> None:
    chromium.show(width=1280, height=800, scheme="light")
    content = b64decode(saved(chromium, "depth-against-budget", "PNG").partition(",")[2])
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        assert [round(dots) for dots in image.info["dpi"]] == [300, 300]
        assert image.width > 3000
