"""Executes the notebook of `examples/` and keeps what its cells show.

    python -m benchmarks.notebook

It runs in a folder of its own, where the study trains one trial at a time: trials then end in one
order, so that another execution with the same Python shows the same but for times. A test compares
all but the numbers, since the text of the study is Python's standard library.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
ONE_AT_A_TIME = "resources: {max_concurrent_trials: 1}\n"


def executed(folder: Path) -> NotebookNode:
    """Returns the notebook after an execution in an empty folder, with the outputs of its cells."""
    (folder / "configs").mkdir()
    study = (ROOT / "configs" / "tiny.yaml").read_text(encoding="utf-8")
    (folder / "configs" / "tiny.yaml").write_text(study + ONE_AT_A_TIME, encoding="utf-8")
    notebook = kept()
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("language_info", None)
    return notebook


def kept() -> NotebookNode:
    """Returns the notebook as it is kept."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    notebook: NotebookNode = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def main() -> None:
    """Execute the notebook and write it with its outputs."""
    with TemporaryDirectory() as folder:
        notebook = executed(Path(folder))
    text = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")
    print(f"{NOTEBOOK.relative_to(ROOT)}: {NOTEBOOK.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
