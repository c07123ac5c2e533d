"""The house plan, held: imports point one way and each framework has one home.

All but the last test read the source by `ast`, over the files that are there, and import nothing.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("models", "objectives", "search")
STANDARD_LIBRARY = sys.stdlib_module_names

CHAINS = (
    ("config", "budget", "space", "trial", "tuner"),
    ("records", "analysis.evidence", "analysis.optimum", "analysis.law", "report.writer"),
    ("records", "analysis.optimum", "analysis.law", "export.best", "export.formats"),
)
"""In `search`: a module may use those before it, never one after it, not even by way of a third."""

HEAVY = {"torch", "ray", "mlflow"}
"""They take a second or more to import, which `plan`, `predict` and `export` must not wait for."""

LIGHT = (
    *("config", "budget", "space", "plan", "records", "folder", "seeds"),
    *("analysis.evidence", "analysis.audit", "analysis.optimum", "analysis.law", "predict"),
    "analysis.further",
    *("scheduler", "confirm", "recover", "extend", "report.writer", "tables", "cli"),
    *("export.best", "export.formats"),
    *("doctor.checks", "doctor.access", "doctor.words"),
)
"""Modules of `search` that must work, and start, without the frameworks in `HEAVY`."""

HOMES = {
    "mlflow": ("search.tracking",),
    "ray": (
        "search.actor",
        "search.cluster",
        "search.doctor.nodes",
        "search.team",
        "search.tuner",
    ),
    "optuna": ("search.sampler", "search.studies"),
    "psutil": ("search.doctor.gather",),
    "pydantic": ("search.config",),
    "typer": ("search.cli", "search.verbs"),
    "tokenizers": ("objectives.encoding", "objectives.tokenizer_file"),
    "safetensors": ("search.export.weights",),
    "pandas": ("search.study",),
    "plotly": ("search.report",),
    "matplotlib": ("search.report",),
}
"""Each framework -> how the names of the only modules begin that may name it."""

PROGRAM = "search.cli"
VERBS = "search.verbs"
"""Its modules, and the program, may import inside a function, so that a verb loads only what it
uses."""
DOOR = "search"
"""Hands out names of `search.study` when they are first asked for; shows them to editors only."""
QUICK_VERBS = {"plan", "predict", "export"}


def name_of(path: Path) -> str:
    """`search/plan.py` -> `search.plan`; a package goes by its folder's name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    name_of(path): path
    for folder in (*PACKAGES, "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def names_imported(node: ast.stmt | ast.AST) -> Iterator[str]:
    """What an import statement may load: for `from a.b import c`, `a.b` and `a.b.c`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_ours(name: str) -> bool:
    return name.split(".")[0] in PACKAGES


def first_parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@cache
def imports_anywhere(module: str) -> set[str]:
    """Every import of a module, those inside its functions too."""
    return {name for node in ast.walk(tree_of(module)) for name in names_imported(node)}


@cache
def imports_at_start(module: str) -> set[str]:
    """What importing the module imports before any function of it runs."""
    return {name for node in tree_of(module).body for name in names_imported(node)}


def reached_from(names: set[str]) -> tuple[set[str], set[str]]:
    """Our modules and the top-level names of others that importing `names` loads in the end."""
    ours: set[str] = set()
    others: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        if not is_ours(name):
            others.add(name.split(".")[0])
        elif name in FILES and name not in ours:
            ours.add(name)
            waiting |= imports_at_start(name)
            waiting.add(name.rpartition(".")[0] or name)
    return ours, others


def reached(module: str) -> tuple[set[str], set[str]]:
    ours, others = reached_from({module})
    return ours - {module}, others


def modules_of(package: str) -> list[str]:
    return sorted(module for module in FILES if module.split(".")[0] == package)


def test_every_module_opens_with_its_docstring() -> None:
    bare = [module for module in sorted(FILES) if not ast.get_docstring(tree_of(module))]

    assert not bare, "the first statement of a file says what it is for, before any import"


@pytest.mark.parametrize("module", sorted(FILES))
def test_imports_stand_at_the_top_of_their_module(module: str) -> None:
    nodes = [
        node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    relative = [
        ast.unparse(node) for node in nodes if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative, "imports name their module in full"
    hidden = [ast.unparse(node) for node in nodes if node not in tree_of(module).body]
    lazy = module in (PROGRAM, DOOR) or module.startswith(f"{VERBS}.")
    assert lazy or not hidden, f"only {PROGRAM} and {VERBS} import elsewhere than at the top"


@pytest.mark.parametrize(
    ("package", "others"),
    [("models", {"objectives", "search"}), ("objectives", {"models", "search"})],
)
def test_models_and_objectives_know_neither_each_other_nor_the_search(
    package: str, others: set[str]
) -> None:
    for module in modules_of(package):
        assert not first_parts(imports_anywhere(module)) & others, module


@pytest.mark.parametrize("module", sorted(FILES.keys() - {DOOR}))
def test_no_module_imports_itself_by_way_of_others(module: str) -> None:
    ours = {name for name in imports_anywhere(module) if name in FILES}
    back = sorted(name for name in ours if module in reached_from({name})[0])

    assert not back, f"{module} imports these, and they import {module}"


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_the_pipeline_is_imported_in_one_direction(chain: tuple[str, ...]) -> None:
    present = [f"search.{stage}" for stage in chain if f"search.{stage}" in FILES]

    for position, module in enumerate(present):
        later = set(present[position + 1 :])
        assert not reached(module)[0] & later, f"{module} comes before them"


@pytest.mark.parametrize("module", [f"search.{name}" for name in LIGHT])
def test_planning_and_analysis_load_no_heavy_framework(module: str) -> None:
    assert not reached(module)[1] & HEAVY


@pytest.mark.parametrize("verb", sorted(QUICK_VERBS))
def test_a_quick_verb_loads_no_heavy_framework_when_it_runs(verb: str) -> None:
    bodies = [
        node
        for module in FILES
        if module.startswith(f"{VERBS}.")
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef) and node.name == verb
    ]
    assert len(bodies) == 1, f"{VERBS} has a function for each verb, named like it"

    names = {name for body in bodies for node in ast.walk(body) for name in names_imported(node)}

    assert not reached_from(names)[1] & HEAVY


def test_sizes_are_counted_with_the_standard_library_only() -> None:
    assert first_parts(imports_anywhere("models.shape")) <= STANDARD_LIBRARY


def test_checking_a_study_waits_for_neither_ray_nor_mlflow() -> None:
    assert "torch" in reached("search.check")[1]
    assert not reached("search.check_words")[1] & {"ray", "mlflow"}
    assert reached("search.transfer")[1] <= STANDARD_LIBRARY


def test_training_needs_torch_and_nothing_else() -> None:
    assert reached("search.train")[1] <= STANDARD_LIBRARY | {"torch"}


@pytest.mark.parametrize("framework", sorted(HOMES))
def test_each_framework_has_one_home(framework: str) -> None:
    ours = [module for module in FILES if is_ours(module)]
    users = [module for module in ours if framework in first_parts(imports_anywhere(module))]

    assert not [module for module in users if not module.startswith(HOMES[framework])]


@pytest.mark.parametrize(
    "arguments", ["--help", "predict --params 175e9", "plan configs/tiny.yaml"]
)
def test_no_heavy_framework_is_loaded_once_a_quick_verb_has_answered(arguments: str) -> None:
    program = """if True:
        import sys
        from search.cli import main
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        print("LOADED", *sys.modules)
    """

    asked = [sys.executable, "-c", program, *arguments.split()]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    loaded = answer.stdout.rpartition("LOADED")[2].split()
    assert "search.cli" in loaded
    assert not HEAVY & set(loaded)
