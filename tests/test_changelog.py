"""CHANGELOG.md begins with the project's version, on the day that CITATION.cff gives."""

import re
import tomllib

import yaml

from tests.support.places import ROOT


def test_its_newest_release_has_the_version_and_date_of_the_citation() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", text)[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    assert version == project["version"] == citation["version"]
    assert date == citation["date-released"].isoformat()


def test_its_changes_stand_under_the_headings_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = set(re.findall(r"(?m)^### (.+)$", text))

    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
