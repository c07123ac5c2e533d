from pathlib import Path

import pytest

from fathom.objectives.files.download import CACHE_VARIABLE, MIRROR_VARIABLE
from tests.support.places import SHARED_DATA


@pytest.fixture(autouse=True)
def _own_cache_and_no_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Real published files, beside the project where there are any."""
    folder = SHARED_DATA
    if not folder.is_dir():
        pytest.skip(f"no mirror of the published files in {folder}")
    monkeypatch.setenv(MIRROR_VARIABLE, str(folder))
    return folder
