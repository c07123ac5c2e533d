"""The documentation as a site: it builds without a warning, its links work, a browser draws it."""

import re
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.main import get_command

from fathom.search.cli import app
from fathom.search.study.file.errors import groups_of
from fathom.search.study.keys.config import StudyConfig
from tests.support.browser import browser
from tests.support.command_line import run
from tests.support.places import ROOT

pytestmark = pytest.mark.drill


class Html(HTMLParser):
    """The links of a page, the files that it loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values["id"]} if "id" in values else set()
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "src" in values or tag == "link":
            self.loaded.append(values.get("src") or values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--fail-on-warning", "--keep-going")
    built = run(sys.executable, "-m", "sphinx", *options, ROOT / "docs", folder)
    assert built.returncode == 0, built.stderr
    assert not built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_of_the_site_leads_to_an_anchor(site: Path, pages: dict[Path, Html]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            place, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", place):
                continue
            target = (path.parent / place).resolve() if place else path
            known = pages[target].anchors if target in pages else set()
            if not target.is_file() or (anchor and anchor not in known):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_the_site_loads_nothing_from_elsewhere(pages: dict[Path, Html], site: Path) -> None:
    loaded = {place for page in pages.values() for place in page.loaded}

    assert not [place for place in loaded if re.match(r"([a-z]+:)?//", place)]
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", styles)


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_the_page_of_commands_has_every_verb_and_option(site: Path) -> None:
    text = text_of(site / "cli.html")

    command: Any = get_command(app)
    shown = {name: verb for name, verb in command.commands.items() if not verb.hidden}
    for name, verb in shown.items():
        assert f"fathom {name}" in text
        for option in (
            word for parameter in verb.params for word in parameter.opts if word[0] == "-"
        ):
            assert option in text, f"{name} {option}"


def test_the_page_of_keys_has_every_key_with_its_meaning(site: Path) -> None:
    rows = dict(re.findall(r"<tr.*?>(\w+)</span></code>.*?(<td>.*?)</tr>", flat(site), re.S))

    waiting: list[Any] = [StudyConfig]
    while waiting:
        group = waiting.pop()
        for name, field in group.model_fields.items():
            assert name in rows
            waiting += groups_of(field.annotation)
    assert "Largest relative difference" in rows["tolerance"]
    assert "0.005" in rows["tolerance"]


def flat(site: Path) -> str:
    return (site / "config.html").read_text(encoding="utf-8")


def test_a_figure_at_the_beginning_of_a_line_ends_no_paragraph(site: Path) -> None:
    text = " ".join(text_of(site / "quickstart.html").split())
    assert re.search(r"It took \d+ minutes on two CPU cores", text)
    paragraphs = re.findall(r"<p>(.*?)</p>", (site / "quickstart.html").read_text("utf-8"), re.S)
    assert not [text for text in paragraphs if text.endswith("took")]


def test_each_report_of_the_gallery_has_a_picture_that_leads_to_it(site: Path) -> None:
    page = (site / "gallery.html").read_text(encoding="utf-8")
    shown = re.findall(r'<a href="reports/(\w+)\.html"><img [^>]*src="reports/(\w+)\.png"', page)
    made = {path.stem for path in (site / "reports").glob("*.png")}
    assert {report for report, _ in shown} == {picture for _, picture in shown} == made
    assert len(made) >= 4


FOLLOW = """[...document.querySelectorAll(".sidebar-tree a")]
    .find((link) => link.getAttribute("href") === "%s").click()"""
SEEN = """(() => ({
    title: document.querySelector("h1").textContent,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    pictures: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
    formulas: [...document.querySelectorAll("svg[role=img]")]
        .filter((formula) => formula.getBoundingClientRect().width < 2).length,
    cut: innerWidth < 500 ? [...document.querySelectorAll(".highlight pre")]
        .filter((block) => block.scrollWidth > block.clientWidth).length : 0,
    uncopied: [...document.querySelectorAll(".highlight pre")]
        .filter((block) => !block.parentElement.querySelector("button.copybtn")).length,
    covered: [...document.querySelectorAll("button.copybtn")].filter((button) =>
        button.parentElement.querySelector("pre").getBoundingClientRect().right
            > button.getBoundingClientRect().left).length,
}))()"""
"""What a reader sees of a page: a formula that is not drawn has no width, commands are whole on a
telephone, and each block has a button that copies it, beside its lines."""
GOOD = {"overflow": 0, "pictures": [], "formulas": 0, "cut": 0, "uncopied": 0, "covered": 0}


@pytest.mark.browser
def test_a_browser_gets_from_the_front_page_to_every_page_and_draws_it(
    site: Path, pages: dict[Path, Html], tmp_path: Path
) -> None:
    folder = ROOT / "docs"
    written = {str(path.relative_to(folder).with_suffix(".html")) for path in folder.rglob("*.md")}
    goals = [link for link in dict.fromkeys(pages[site / "index.html"].links) if link in written]
    assert {*goals} == written - {"index.html"}

    with browser(tmp_path / "profile") as chromium:
        for width in (390, 1280):  # as a telephone, and as a desk
            chromium.show(width=width, height=900, scheme="light")
            for goal in goals:
                chromium.open((site / "index.html").as_uri())
                chromium.wait_for("document.readyState === 'complete' && !!document.links.length")
                chromium.ask(FOLLOW % goal)
                chromium.wait_for(
                    f"document.readyState === 'complete' && location.href.endsWith('/{goal}')"
                )
                seen = chromium.ask(SEEN)
                assert seen.pop("title"), goal
                assert seen == GOOD, goal
                assert chromium.errors == [], goal
