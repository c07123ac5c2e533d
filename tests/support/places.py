"""Folders that tests read: the checkout and, where it is there, the real data beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Real data sets, laid out as `download` has them; absent on most machines."""

PACKAGE_FOLDERS = {
    "fathom",
    *(link.name for link in (ROOT / "fathom").iterdir() if link.is_symlink()),
}
"""Folders of the checkout that an installation needs: the package, and those its links name."""
