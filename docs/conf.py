"""How the pages are built: `make docs`. Warnings are errors, and nothing comes from a network."""

import os
import sys
from html import escape
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# So that `docs.extensions` is found from wherever the build was started.
sys.path.insert(0, str(Path(__file__).parent.parent))

project = "Fathom"
release = version_of("fathom-depth")
copyright = "the authors of Fathom; Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "docs.extensions.generated",
    "docs.extensions.formulas",
    "docs.extensions.gallery",
]

html_theme = "furo"
html_title = f"Fathom {release}"
# The address of the site with a slash at its end, where it is known: what shows a link to a page
# needs the whole address of its picture.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_favicon = "static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "search_order.js")
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
# Reports on tables that are not in the repository.
html_extra_path = ["kept"]
html_css_files = ["site.css"]
html_math_renderer = "svg"

# Markdown as GitHub shows it: its anchors, its formulas.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
# The shell prompt's lexer, for `sh` with a second word that says what a block needs.
highlight_language = "none"

# Docstrings have one house style: a name between backticks is code.
default_role = "code"
# Docstrings of PyTorch's own methods are left out.
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

nitpicky = True
# Their pages are on other sites, which a build without a network cannot read.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(collections|enum|inspect|numpy|np|optuna|pandas|pathlib|pydantic|torch|typing)(\..*)?",
    ),
]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", readable)
    app.connect("html-page-context", add_preview)


def readable(*event: Any) -> tuple[str | None, str | None]:
    """A signature that parses: a dataclass writes the default of a dict as no Python has it."""
    *_, signature, returns = event
    return (signature.replace("<factory>", "...") if signature else signature), returns


def add_preview(app: Sphinx, page: str, _: str, context: dict[str, Any], *_more: Any) -> None:
    """Adds what others show of a link to a page: its title, the question and a picture."""
    base = app.config.html_baseurl
    if not base:
        return
    said = {
        "og:type": "article",
        "og:title": f"{context.get('title', page)} | Fathom",
        "og:description": "How deep should a transformer be, for this many parameters?",
        "og:url": f"{base}{page}.html",
        "og:image": f"{base}_images/answer.png",
        "twitter:card": "summary_large_image",
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta property="{name}" content="{escape(text)}" />' for name, text in said.items()
    )
