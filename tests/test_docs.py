"""The documentation: it builds without a warning, its links work, its statements hold."""

import doctest
import importlib
import json
import re
import shutil
import subprocess
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
from fathom.search.study.keys.config import StudyConfig, parse
from tests.conftest import CHROMIUM
from tests.support.markdown import PAGES, anchors_of, blocks_of, links_of
from tests.support.places import ROOT

BROWSER = next(filter(None, map(shutil.which, CHROMIUM)), None)


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
    asked = ["sphinx", "--quiet", "--fail-on-warning", "--keep-going", ROOT / "docs", folder]
    built = subprocess.run(
        [sys.executable, "-m", *map(str, asked)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert not built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_of_the_site_leads_to_a_page_and_its_anchor(
    site: Path, pages: dict[Path, Html]
) -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_works_on_github_too(page: Path) -> None:
    broken = []
    for link in links_of(page):
        place, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", place):
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_the_page_of_commands_has_every_verb_and_option(site: Path) -> None:
    text = text_of(site / "cli.html")

    command: Any = get_command(app)
    for name, verb in command.commands.items():
        assert f"fathom {name}" in text
        for option in (word for own in verb.params for word in own.opts if word[0] == "-"):
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


def test_the_studies_that_pages_show_are_studies() -> None:
    shown = [block.text for page in PAGES for block in blocks_of(page) if block.language == "yaml"]
    studies = [text for text in shown if text.startswith("study:")]

    assert len(studies) >= 10
    for study in studies:
        parse(study)


WITH_EXAMPLES = [
    "fathom." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for package in ("models", "objectives", "search")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_of_docstrings_are_correct(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))

    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_benchmarks_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    modules = re.findall(r"python -m ((?:benchmarks|tests)(?:\.\w+)+)", text)
    files = re.findall(r"\b(?:search|models|objectives|benchmarks|tests)/[\w/]+\.[a-z]+", text)

    places = [ROOT / module.replace(".", "/") for module in modules]
    assert not [
        place for place in places if not (place.is_dir() or place.with_suffix(".py").exists())
    ]
    assert not [file for file in files if not (ROOT / file).exists()]


NOTES = {
    "install": "it makes an environment",
    "long": "it trains for minutes or hours, or takes data from elsewhere",
    "cluster": "it needs hosts, a cloud or a server",
}
"""Why a block of shell is not run by a test."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_shell_is_run_by_a_test_or_says_why_not(page: Path) -> None:
    """`tests/search/test_cli.py` runs those without a note."""
    notes = [block.note for block in blocks_of(page) if block.language == "sh"]

    assert {*notes} <= {"", *NOTES}
    assert {block.language for block in blocks_of(page)}.isdisjoint({"bash", "shell", "console"})


PROBE = """<script>
const errors = [];
console.error = (...words) => errors.push(words.join(" "));
addEventListener("error", (event) => errors.push(event.message || "a file is missing"), true);
addEventListener("load", () => setTimeout(() => {
  const goto = new URLSearchParams(location.search).get("goto");
  const link = goto && [...document.querySelectorAll(".sidebar-tree a")]
    .find((one) => one.getAttribute("href") === goto);
  if (link) { link.click(); return; }
  const empty = (one) => one.getBoundingClientRect().width < 2;
  const root = document.documentElement;
  parent.postMessage({
    page: decodeURIComponent(location.pathname.split("/site/")[1]), errors,
    title: document.querySelector("h1").textContent,
    overflow: root.scrollWidth - root.clientWidth,
    pictures: [...document.images].filter((one) => !one.naturalWidth).map((one) => one.src),
    formulas: [...document.querySelectorAll("svg[role=img]")].filter(empty).length,
  }, "*");
}, 100));
</script>"""
"""Put into every page: follows the link that the address asks for, then says what a reader sees."""
FRAMES = """<!doctype html><body><script>
const seen = [], waiting = %s;
const show = () => {
  const told = () => `SEEN${JSON.stringify(seen)}NEES`;
  if (!waiting.length) { document.body.textContent = told(); return; }
  const [place, width] = waiting.shift(), frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = "site/" + place;
  document.body.replaceChildren(frame);
};
addEventListener("message", (m) => { seen.push(m.data); show(); }); show();
</script>"""
"""One page after the other, as wide as a telephone or a desk."""


@pytest.mark.browser
def test_a_browser_gets_from_the_front_page_to_every_page_and_draws_it(
    site: Path, tmp_path: Path
) -> None:
    assert BROWSER is not None
    shutil.copytree(site, tmp_path / "site")
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("<head>", f"<head>{PROBE}", 1), encoding="utf-8")
    front = Html(site / "index.html")
    goals = [link for link in dict.fromkeys(front.links) if link in sources()]
    assert {*goals} == sources()

    seen = in_browser(
        tmp_path, [(f"index.html?goto={goal}", w) for goal in goals for w in (390, 1280)]
    )

    assert [one["page"] for one in seen] == [goal for goal in goals for _ in range(2)]
    for one in seen:
        assert one["errors"] == [], one["page"]
        assert one["overflow"] <= 0, f"{one['page']} is wider than the window"
        assert one["pictures"] == []
        assert one["formulas"] == 0, "every formula is drawn"
        assert one["title"]


def sources() -> set[str]:
    """The source pages by their names in the site."""
    folder = ROOT / "docs"
    written = {str(path.relative_to(folder).with_suffix(".html")) for path in folder.rglob("*.md")}
    return written - {"index.html"}


def in_browser(folder: Path, places: list[tuple[str, int]]) -> list[dict[str, Any]]:
    (folder / "frames.html").write_text(FRAMES % json.dumps(places), encoding="utf-8")
    switches = "headless no-sandbox disable-gpu disable-quic no-first-run disable-sync dump-dom"
    switches += (
        " disable-background-networking disable-component-update allow-file-access-from-files"
    )
    done = subprocess.run(
        [
            str(BROWSER),
            *(f"--{switch}" for switch in switches.split()),
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=60000",
            "--window-size=1400,1000",
            (folder / "frames.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found = re.search(r"SEEN(\[.*?\])NEES", done.stdout, re.S)
    assert found, done.stderr[-2000:]
    answer: list[dict[str, Any]] = json.loads(unescape(found[1]))
    return answer
