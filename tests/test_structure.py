"""The structure, held: imports point one way, each framework has one home, tests mirror the code.

All but the last tests read the source by `ast`, over the files that are there, and import nothing.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

PACKAGES = ("models", "objectives", "search")
"""Folders of the checkout that are imported as `fathom.NAME`."""
STANDARD_LIBRARY = sys.stdlib_module_names

LEVELS = (
    {"records", "formatting"},
    {"analysis"},
    {"record_json"},
    {"run_folder"},
    {"study"},
    {"scheduling", "training"},
    {"conclusion"},
    {"tables"},
    {"report", "cluster", "export"},
    {"tracking"},
    {"pipeline"},
    {"commands"},
    {"api", "cli"},
    {"__main__"},
)
"""Folders and files of `search/`: each imports those of earlier levels, and no others."""

HEAVY = {"torch", "ray", "mlflow"}
"""They take a second or more to import, which `plan`, `predict` and `export` must not wait for."""

LIGHT = (
    *(
        "study.keys.config",
        "study.planning.budget",
        "study.planning.shapes",
        "study.planning.plan",
        "records",
        "run_folder",
    ),
    *("analysis.depth_estimates", "analysis.optimum", "analysis.law", "analysis.papers.findings"),
    *("scheduling.audit", "scheduling.halving", "scheduling.confirmation", "scheduling.journal"),
    *("scheduling.extend", "report.writer", "report.data", "report.terminal.tables"),
    *("export.best", "export.formats", "commands.predict", "commands.analyse_source", "cli"),
    *("tables.analysis", "report.terminal.analysed"),
    *("cluster.doctor.checks", "cluster.doctor.access", "cluster.doctor.messages"),
)
"""Modules of `search` that must work, and start, without the frameworks in `HEAVY`."""

HOMES = {
    "mlflow": ("search.tracking",),
    "ray": ("search.cluster",),
    "optuna": ("search.scheduling",),
    "psutil": ("search.cluster.doctor.gather",),
    "pydantic": ("search.study", "search.record_json", "objectives"),
    "typer": ("search.cli", "search.commands"),
    "tokenizers": ("objectives.text", "objectives.tokens", "objectives.rows.translation"),
    "pyarrow": ("objectives.tokens",),
    "safetensors": ("search.export.weights",),
    "pandas": ("search.api", "search.tables.parquet"),
    "jinja2": ("search.report",),
    "matplotlib": ("search.report",),
}
"""Each framework -> the folders or modules that may name it."""

ANALYSIS_MAY_USE = ("fathom.search.analysis", "fathom.search.records", "fathom.models.shape")
ANALYSIS_NEEDS = STANDARD_LIBRARY | {"numpy", "scipy"}

PROGRAM = "fathom.search.cli"
VERBS = "fathom.search.commands"
"""The files directly in it, and the program, may import inside a function, so that a command loads
only what it uses."""
DOOR = "fathom"
"""Loads `fathom.search.api` when one of its names is first used; shows them to editors only."""
QUICK_VERBS = {"plan", "predict", "export", "analyse"}


def name_of(path: Path) -> str:
    """`search/records.py` -> `fathom.search.records`; a package has its folder's name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return f"fathom.{dotted}" if parts[0] in PACKAGES else dotted


FILES = {
    name_of(path): path
    for path in (
        *(ROOT / "fathom").glob("*.py"),
        *(p for folder in (*PACKAGES, "benchmarks") for p in (ROOT / folder).rglob("*.py")),
    )
}
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def known(module: str) -> str:
    """The module's full name.

    Raises:
        AssertionError: when a rule names a module that is not there, and so could never fail.
    """
    full = f"fathom.{module}"
    assert full in FILES, f"a rule of this test names {module}, which does not exist"
    return full


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def names_imported(node: ast.stmt | ast.AST) -> Iterator[str]:
    """Modules that an import statement may load: for `from a.b import c`, `a.b` and `a.b.c`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_ours(name: str) -> bool:
    return name.split(".")[0] == "fathom"


def first_parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@cache
def imports_anywhere(module: str) -> set[str]:
    """Every import of a module, those inside its functions too."""
    return {name for node in ast.walk(tree_of(module)) for name in names_imported(node)}


@cache
def imports_at_start(module: str) -> set[str]:
    """Modules imported by a module at import time, outside its functions."""
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
    inside = [name for name in FILES if f"{name}.".startswith(f"fathom.{package}.")]
    assert inside, f"a rule of this test names {package}, which does not exist"
    return sorted(inside)


def level_of(module: str) -> int | None:
    """The level of a module of `search`; None for what belongs to none, such as `fathom.models`."""
    _, _, inside = module.partition("fathom.search.")
    place = inside.split(".")[0]
    return next((i for i, level in enumerate(LEVELS) if place in level), None)


def classes_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


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
    lazy = module in (PROGRAM, DOOR) or module.rpartition(".")[0] == VERBS
    assert lazy or not hidden, f"only {PROGRAM} and {VERBS} import elsewhere than at the top"


@pytest.mark.parametrize("module", sorted(FILES))
def test_no_module_imports_a_package_by_its_folder_instead_of_by_fathom(module: str) -> None:
    assert not first_parts(imports_anywhere(module)) & set(PACKAGES)


@pytest.mark.parametrize("package", ["models", "objectives"])
def test_models_and_objectives_know_neither_each_other_nor_the_search(package: str) -> None:
    for module in modules_of(package):
        foreign = [name for name in imports_anywhere(module) if is_ours(name)]
        assert all(f"{name}.".startswith(("fathom.", f"fathom.{package}.")) for name in foreign)
        others = {name.split(".")[1] for name in foreign if "." in name} - {package}
        assert not others, module


@pytest.mark.parametrize("module", sorted(FILES.keys() - {DOOR}))
def test_no_module_imports_itself_by_way_of_others(module: str) -> None:
    ours = {name for name in imports_anywhere(module) if name in FILES}
    back = sorted(name for name in ours if module in reached_from({name})[0])

    assert not back, f"{module} imports these, and they import {module}"


def test_every_file_and_folder_of_the_search_has_a_level() -> None:
    there = {
        path.stem if path.suffix else path.name
        for path in (ROOT / "search").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert there - {"__init__"} == set().union(*LEVELS)


@pytest.mark.parametrize("module", modules_of("search"))
def test_imports_point_from_later_levels_to_earlier_ones(module: str) -> None:
    own = level_of(module)
    place = module.split(".")[2] if own is not None else ""
    others = {name for name in imports_anywhere(module) if name in FILES}
    beside = {name for name in others if level_of(name) is not None and own is not None}

    wrong = [
        name
        for name in sorted(beside)
        if name.split(".")[2] != place and (level_of(name) or 0) >= (own or 0)
    ]
    assert not wrong, f"{place} stands on a lower level than these, or beside them"


def test_at_most_fourteen_files_stand_directly_in_search() -> None:
    assert len(list((ROOT / "search").glob("*.py"))) <= 14


@pytest.mark.parametrize("module", modules_of("search.analysis"))
def test_the_analysis_needs_records_shapes_and_numpy_alone(module: str) -> None:
    ours = {name for name in imports_anywhere(module) if name in FILES}
    beyond = [
        name for name in ours if not f"{name}.".startswith(tuple(f"{a}." for a in ANALYSIS_MAY_USE))
    ]
    assert not beyond

    assert first_parts(imports_anywhere(module)) <= ANALYSIS_NEEDS | {"fathom"}
    assert reached(module)[1] <= ANALYSIS_NEEDS


@pytest.mark.parametrize("module", LIGHT)
def test_planning_and_analysis_load_no_heavy_framework(module: str) -> None:
    assert not reached(known(f"search.{module}"))[1] & HEAVY


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
    assert reached(known("models.shape"))[1] <= STANDARD_LIBRARY


def test_checking_a_study_imports_neither_ray_nor_mlflow() -> None:
    assert "torch" in reached(known("search.commands.check.check"))[1]
    assert not reached(known("search.commands.check.output"))[1] & {"ray", "mlflow"}
    assert reached(known("search.commands.check.rate_sweep"))[1] <= STANDARD_LIBRARY


def test_training_needs_torch_and_nothing_else() -> None:
    assert reached(known("search.training.loop"))[1] <= STANDARD_LIBRARY | {"torch"}


@pytest.mark.parametrize("framework", sorted(HOMES))
def test_each_framework_has_one_home(framework: str) -> None:
    homes = [known(home) for home in HOMES[framework]]
    users = [m for m in FILES if is_ours(m) and framework in first_parts(imports_anywhere(m))]
    assert users, f"nothing uses {framework}: drop the rule"

    inside = tuple(f"{home}." for home in homes)
    assert not [module for module in users if not f"{module}.".startswith(inside)]


def test_no_two_classes_share_a_name() -> None:
    sources = [*FILES.values(), *(path for path in TESTS if "support" in path.parts)]
    names = Counter(name for path in sources for name in classes_of(path))

    assert not [name for name, times in names.items() if times > 1]


def places_with_tests() -> list[Path]:
    return [path for path in TESTS if path.name.startswith("test_")]


@pytest.mark.parametrize("path", places_with_tests(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_test_file_stands_where_its_module_does(path: Path) -> None:
    """`tests/a/b/test_c.py` or `test_c_and_more.py` tests `a/b/c`, a module, folder or page."""
    folder = ROOT / path.parent.relative_to(ROOT / "tests")
    if path.parent.name == "drill" or folder == ROOT:
        return  # the drill has its parts beside it; tests of the whole stand at the top
    assert folder.is_dir(), f"there is no folder {folder.relative_to(ROOT)}"
    subject = path.stem.removeprefix("test_")
    names = {entry.name.split(".")[0] for entry in folder.iterdir()}

    assert any(f"{subject}_".startswith(f"{name}_") for name in names), sorted(names)


@pytest.mark.parametrize("path", TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_tests_import_no_other_tests(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {name for node in ast.walk(tree) for name in names_imported(node)}

    assert not [name for name in names if name.startswith("tests.") and ".test_" in name]


@pytest.mark.parametrize(
    "arguments", ["--help", "predict --params 175e9", "plan configs/tiny.yaml"]
)
def test_no_heavy_framework_is_loaded_once_a_quick_verb_has_answered(arguments: str) -> None:
    loaded = loaded_by(["-c", "from fathom.search.cli import main; main()", *arguments.split()])

    assert "fathom.search.cli" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("name", ["search", "fathom"])
def test_no_module_is_loaded_under_two_names(name: str) -> None:
    loaded = loaded_by(["-m", name, "plan", "configs/tiny.yaml"])

    assert "fathom.search.cli" in loaded
    by_folder = {module for module in loaded if module.split(".")[0] in PACKAGES}
    assert by_folder <= {"search", "search.__main__"}, "`python -m search` only delegates"


def loaded_by(arguments: list[str]) -> set[str]:
    """Names of the modules that a run of Python has loaded when it ends well."""
    hook = "import atexit, sys; atexit.register(lambda: print('LOADED', *sys.modules))"
    runner = f"{hook}; import runpy; sys.argv = sys.argv[1:]; "
    if arguments[0] == "-m":
        program = f"{runner}runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    else:
        program = f"{runner}{arguments[1]}"
    asked = [sys.executable, "-c", program, *arguments[1:]]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.rpartition("LOADED")[2].split())
