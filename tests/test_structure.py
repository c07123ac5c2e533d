"""The structure, held: imports point one way, each framework has one home, tests mirror the code.

All but the last tests read the source by `ast`, over the files that are there, and import nothing.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.support.command_line import run
from tests.support.places import ROOT

PACKAGES = ("models", "objectives", "papers", "search")
"""Folders of the checkout that are imported as `fathom.NAME`."""
STANDARD_LIBRARY = sys.stdlib_module_names

LEVELS = (
    {"records", "formatting", "signals", "version"},
    {"analysis"},
    {"record_json", "words"},
    {"json_lines"},
    {"run_folder"},
    {"study"},
    {"scheduling", "training"},
    {"conclusion", "serving"},
    {"tables"},
    {"report", "cluster", "export"},
    {"tracking"},
    {"opening"},
    {"pipeline"},
    {"analysing"},
    {"contract"},
    {"laboratory"},
    {"commands"},
    {"api", "cli"},
    {"__main__"},
)
"""Folders and files of `search/`: each imports those of earlier levels, and no others."""

EXTRAS = {
    "search.cli": ("search.commands",),
    "search.commands.laboratory": ("search.laboratory",),
    "search.analysing": ("search.tables.sources", "search.tables.folders"),
    "search.conclusion.published": ("papers.analyses",),
    "search.conclusion.named_law": (
        *("search.analysis.laws.published", "search.analysis.laws.amount_law"),
        *("search.analysis.laws.token_law", "search.analysis.laws.loss_law"),
    ),
    "search.report.pages.page": (
        *("search.report.pages.card", "search.report.pages.hero", "search.report.pages.sounding"),
    ),
    "search.export.formats": (
        *("search.export.hugging_face", "search.export.litgpt", "search.export.nanogpt"),
        "search.export.torchtitan",
    ),
    "objectives.registry": ("objectives.rows", "objectives.external", "papers.tasks"),
    "models.methods": ("papers.admin", "papers.sizing"),
    "models.network.blocks": (
        *("models.layers", "models.network.experts", "models.network.state_space"),
    ),
}
"""Where a table names extras, which few studies use, and which these are: commands, laboratories,
sources of tables, published analyses, laws, sections of the report, formats of export, objectives,
methods of papers, options of a block. The core imports them there alone."""
TO_EXTRAS = {
    "models.shape": ("models.layers.experts", "models.layers.state_space"),
    "search.analysis.laws.compute_law": ("search.analysis.laws.loss_law",),
    "search.analysis.spending.at_compute": (
        "search.analysis.laws.loss_law",
        "search.analysis.laws.published",
        "search.analysis.laws.token_law",
    ),
    "search.api": (
        "search.commands.export_folder",
        "search.commands.train_best",
    ),
    "search.commands.live_report": ("search.report.pages.card",),
    "search.commands.predict": (
        "search.analysis.laws.published",
        "search.analysis.laws.token_law",
    ),
    "search.conclusion.findings": ("search.analysis.laws.amount_law",),
    "search.conclusion.token_laws": (
        "search.analysis.laws.loss_law",
        "search.analysis.laws.token_law",
    ),
    "search.contract.reply": ("search.analysis.laws.amount_law",),
    "search.export.weights": (
        "search.export.hugging_face",
        "search.export.nanogpt",
    ),
    "search.laboratory.ask.compute": ("search.analysis.laws.loss_law",),
    "search.laboratory.ask.table_losses": ("search.analysis.laws.loss_law",),
    "search.report.charts.tokens": ("search.analysis.laws.token_law",),
    "search.report.pages.comparison": ("search.report.pages.sounding",),
    "search.report.pages.horizons": (
        "search.analysis.laws.token_law",
        "search.report.pages.sounding",
    ),
    "search.report.pages.writer": (
        "search.report.pages.card",
        "search.report.pages.hero",
        "search.report.pages.sounding",
    ),
    "search.report.words.sizes": ("search.analysis.laws.amount_law",),
    "search.report.words.text": ("search.analysis.laws.token_law",),
    "search.study.keys.model_group": ("models.layers.experts", "models.layers.state_space"),
    "search.tables.grouped.ladder_file": ("search.tables.sources.read",),
    "search.tracking.writing.publishing": ("search.analysis.laws.token_law",),
    "search.training.state": ("models.network.experts",),
}
"""What else of the core imports which extras: 33 arrows, of 67 by the same list on 2122b8e6, and of
94 by a wider one on b11d4ae. Nothing is added."""

HEAVY = {"torch", "ray", "mlflow"}
"""They take a second or more to import, which `plan`, `predict` and `export` must not wait for."""

LIGHT = (
    "tracking.writing.publishing",
    *(
        "study.keys.config",
        "study.planning.budget",
        "study.planning.space.shapes",
        "study.planning.plan",
        "records",
        "run_folder",
    ),
    *(
        "analysis.losses.depth_estimates",
        "analysis.answer.finding",
        "analysis.laws.law",
        "conclusion.published",
    ),
    *("scheduling.audit", "scheduling.halving", "scheduling.confirmation", "scheduling.journal"),
    *("scheduling.extend", "report.pages.writer", "report.pages.data", "report.terminal.tables"),
    *("export.best", "export.formats", "commands.predict", "analysing.source", "cli"),
    *("tables.analysis", "report.terminal.answer_tables", "contract.table_answers"),
    *("cluster.doctor.checks", "cluster.doctor.access", "cluster.doctor.messages"),
)
"""Modules of `search` that must work, and start, without the frameworks in `HEAVY`."""

HOMES = {
    "mlflow": ("search.tracking",),
    "ray": ("search.cluster",),
    "optuna": ("search.scheduling",),
    "psutil": ("search.cluster.doctor.gather", "search.cluster.memory_kills"),
    "pydantic": (
        "search.study",
        "search.record_json",
        "search.contract",
        "objectives",
        "papers.tasks",
    ),
    "typer": ("search.cli", "search.commands"),
    "charset_normalizer": ("objectives.text.guesses",),
    "pooch": ("objectives.files.fetching",),
    "tokenizers": ("objectives.text", "objectives.tokens", "objectives.rows.translation"),
    "pyarrow": ("objectives.tokens", "search.tables.sources.parquet"),
    "safetensors": ("search.export.weights",),
    "pandas": ("search.api",),
    "jinja2": ("search.report",),
    "matplotlib": ("search.report",),
    "tensorboard": ("search.tables.folders.events",),
    "boto3": ("search.cluster.doctor.amazon",),
}
"""Each framework -> the folders or modules that may name it."""

ANALYSIS_MAY_USE = (
    *("fathom.search.analysis", "fathom.search.records"),
    *("fathom.models.shape", "fathom.models.spend", "fathom.models.unit"),
)
ANALYSIS_NEEDS = STANDARD_LIBRARY | {"numpy", "scipy"}

PAPERS_MAY_USE = (
    *("models", "objectives", "papers", "search.records", "search.analysis", "search.formatting"),
    *("search.conclusion.published", "search.report.words", "search.report.pages.data"),
)

PROGRAM = "fathom.search.cli"
VERBS = "fathom.search.commands"
SOURCES = "fathom.search.analysing"
"""The files directly in these two, and the program, may import inside a function, so that a command
loads only what it uses, and a table needs only the libraries of its own source."""
DOOR = "fathom"
"""Loads `fathom.search.api` when one of its names is first used; shows them to editors only."""
QUICK_VERBS = {"plan", "predict", "export", "analyse"}

MOST_LINES = 48_130
"""Most lines of code of `PACKAGES`, without docstrings, comments and blank lines. Whoever raises it
writes here what for: 298 for ASHA in virtual time, 173 for one depth of a budget and `--depth`, 302
for the layouts in which trackers and people keep their runs, 122 for sizes that are free at equal
seconds, 228 for counts of models that transformers builds and for compute asked of a table, 270 for
decimal commas, places and seeds in columns, refusals of free sizes, and plans that load no library
of data, 190 for matrices in groups, decoding with states and experts, and units everywhere, 200 for
hostile sources and checkpoints, silent trials, perplexities, and reports of 20,000 trials."""
MOST_FILES = 15
"""Most modules of a folder, beside its `__init__`."""
LARGER_FOLDERS: dict[str, int] = {}
"""Folders that have more -> how many they may have, until rooms divide them. Whoever raises one
writes here what for."""
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


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
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Every node of a file: the one walk that the tests share."""
    return list(ast.walk(tree_of(path)))


def names_imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Modules that import statements may load: for `from a.b import c`, `a.b` and `a.b.c`."""
    names = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def first_parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@cache
def imports_anywhere(module: str) -> set[str]:
    """Every import of a module, those inside its functions too."""
    return names_imported(nodes_of(FILES[module]))


def ours_in(module: str) -> set[str]:
    """Modules of the project that a module imports anywhere."""
    return imports_anywhere(module) & FILES.keys()


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
            waiting |= {*imports_at_start(name), name.rpartition(".")[0] or name}
    return ours, others


def is_ours(name: str) -> bool:
    return name.split(".")[0] == "fathom"


@cache
def imports_at_start(module: str) -> set[str]:
    """Modules imported by a module at import time, outside its functions."""
    return names_imported(tree_of(FILES[module]).body)


@cache
def reached(module: str) -> tuple[set[str], set[str]]:
    """The modules of the project, and the packages, that importing a module loads."""
    return reached_from({module})


def modules_of(package: str) -> list[str]:
    inside = [name for name in FILES if f"{name}.".startswith(f"fathom.{package}.")]
    assert inside, f"a rule of this test names {package}, which does not exist"
    return sorted(inside)


def level_of(module: str) -> int | None:
    """The level of a module of `search`; None for what belongs to none, such as `fathom.models`."""
    return next((i for i, level in enumerate(LEVELS) if place_of(module) in level), None)


def place_of(module: str) -> str:
    """The file or folder directly in `search/` that a module belongs to; "" elsewhere."""
    return module.partition("fathom.search.")[2].split(".")[0]


def test_every_module_opens_with_its_docstring() -> None:
    bare = [module for module, path in FILES.items() if not ast.get_docstring(tree_of(path))]

    assert not bare, "the first statement of a file says what it is for, before any import"


def test_imports_stand_at_the_top_of_their_module_and_name_modules_in_full() -> None:
    """But for the program and its verbs: a command loads only what it uses."""
    relative, hidden = [], []
    for module, path in FILES.items():
        lazy = module in (PROGRAM, DOOR) or module.rpartition(".")[0] in (VERBS, SOURCES)
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                relative.append((module, ast.unparse(node)))
            if isinstance(node, ast.Import | ast.ImportFrom) and not lazy:
                hidden += [] if node in tree_of(path).body else [(module, ast.unparse(node))]

    assert not relative
    assert not hidden


def test_no_module_imports_a_package_by_its_folder_instead_of_by_fathom() -> None:
    assert not [m for m in FILES if first_parts(imports_anywhere(m)) & set(PACKAGES)]


@pytest.mark.parametrize("package", ["models", "objectives"])
def test_models_and_objectives_know_neither_each_other_nor_the_search(package: str) -> None:
    foreign = [
        (module, name)
        for module in modules_of(package)
        for name in imports_anywhere(module)
        if is_ours(name) and name != "fathom" and not f"{name}.".startswith(f"fathom.{package}.")
    ]

    assert not foreign


def test_papers_build_on_the_public_contract_and_the_core_reaches_them_by_name_alone() -> None:
    core = [module for package in PACKAGES if package != "papers" for module in modules_of(package)]

    assert not [m for m in core if any(is_of(name, "papers") for name in imports_anywhere(m))]
    assert not [
        (module, name)
        for module in modules_of("papers")
        for name in imports_anywhere(module)
        if is_ours(name) and not any(is_of(name, package) for package in PAPERS_MAY_USE)
    ]


def test_the_core_names_extras_in_their_tables_alone() -> None:
    found: dict[str, set[str]] = {}
    for table, extras in EXTRAS.items():
        names = [name for extra in extras for name in modules_of(extra)]
        inside = (known(table).removeprefix("fathom."), *extras, "papers")
        for module in FILES:
            if is_ours(module) and not any(is_of(module, place) for place in inside):
                theirs = ours_in(module) & {n for n in names if FILES[n].stem != "__init__"}
                found.setdefault(module.removeprefix("fathom."), set()).update(
                    name.removeprefix("fathom.") for name in theirs
                )

    assert {module: tuple(sorted(names)) for module, names in found.items() if names} == TO_EXTRAS


def is_of(module: str, package: str) -> bool:
    """True for a module of a package of ours, and for the package."""
    return f"{module}.".startswith(f"fathom.{package}.")


def test_no_module_imports_itself_by_way_of_others() -> None:
    back = [
        (module, name)
        for module in FILES.keys() - {DOOR}
        for name in ours_in(module)
        if module in reached(name)[0]
    ]

    assert not back, "each imports the second, which imports it"


def test_every_file_and_folder_of_the_search_has_a_level() -> None:
    there = {
        path.stem if path.suffix else path.name
        for path in (ROOT / "search").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert there - {"__init__"} == set().union(*LEVELS)


def test_imports_point_from_later_levels_to_earlier_ones() -> None:
    wrong = []
    for module in modules_of("search"):
        level = level_of(module)
        for name in ours_in(module):
            other = level_of(name)
            if level is not None and other is not None and place_of(module) != place_of(name):
                wrong += [(module, name)] if other >= level else []

    assert not wrong, "each imports the second, which is on a later level, or on the same"


def test_at_most_fourteen_files_stand_directly_in_search() -> None:
    assert len(list((ROOT / "search").glob("*.py"))) <= 14


def lines_of_code(path: Path) -> int:
    """Lines with a token of code; texts that stand alone, such as docstrings, do not count."""
    text = io.StringIO(path.read_text(encoding="utf-8"))
    lines = {
        line
        for token in tokenize.generate_tokens(text.readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in nodes_of(path):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_the_product_grows_by_decision_only() -> None:
    product = [path for path in FILES.values() if path.relative_to(ROOT).parts[0] in PACKAGES]

    assert sum(map(lines_of_code, product)) <= MOST_LINES


def test_a_folder_holds_fifteen_modules_at_most_or_is_named_with_its_number() -> None:
    modules = [path for path in FILES.values() if path.stem != "__init__"]
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    larger = {
        name: number
        for name, number in folders.items()
        if name.split("/")[0] in PACKAGES and number > LARGER_FOLDERS.get(name, MOST_FILES)
    }

    assert not larger
    assert all(folders[name] > MOST_FILES for name in LARGER_FOLDERS), "drop one that is no more"


def test_the_analysis_needs_records_shapes_and_numpy_alone() -> None:
    allowed = tuple(f"{name}." for name in ANALYSIS_MAY_USE)
    modules = modules_of("search.analysis")
    pairs = [(module, name) for module in modules for name in ours_in(module)]
    packages = {m: first_parts(imports_anywhere(m)) | reached(m)[1] for m in modules}

    assert not [(module, name) for module, name in pairs if not f"{name}.".startswith(allowed)]
    assert not {m: more for m in modules if (more := packages[m] - ANALYSIS_NEEDS - {"fathom"})}


def test_planning_and_analysis_load_no_heavy_framework() -> None:
    loaded = {module: reached(known(f"search.{module}"))[1] & HEAVY for module in LIGHT}

    assert not {module: heavy for module, heavy in loaded.items() if heavy}


def test_quick_verbs_load_no_heavy_framework_when_they_run() -> None:
    verbs = [
        node
        for module in FILES
        if module.startswith(f"{VERBS}.")
        for node in tree_of(FILES[module]).body
        if isinstance(node, ast.FunctionDef) and node.name in QUICK_VERBS
    ]
    loaded = {verb.name: reached_from(names_imported(list(ast.walk(verb))))[1] for verb in verbs}

    assert sorted(verb.name for verb in verbs) == sorted(QUICK_VERBS)
    assert not {verb: names & HEAVY for verb, names in loaded.items() if names & HEAVY}


def test_sizes_are_counted_with_the_standard_library_only() -> None:
    assert reached(known("models.shape"))[1] <= STANDARD_LIBRARY


def test_checking_a_study_imports_neither_ray_nor_mlflow() -> None:
    assert "torch" in reached(known("search.laboratory.check.check"))[1]
    assert not reached(known("search.laboratory.check.output"))[1] & {"ray", "mlflow"}
    assert reached(known("search.laboratory.check.rate_sweep"))[1] <= STANDARD_LIBRARY


def test_training_needs_torch_and_nothing_else() -> None:
    assert reached(known("search.training.loop"))[1] <= STANDARD_LIBRARY | {"torch"}


def test_each_framework_has_one_home() -> None:
    users = {
        framework: {
            m for m in FILES if is_ours(m) and framework in first_parts(imports_anywhere(m))
        }
        for framework in HOMES
    }
    inside = {framework: tuple(f"{known(h)}." for h in homes) for framework, homes in HOMES.items()}

    assert all(users.values()), "nothing uses one of the frameworks: drop its rule"
    assert not [(f, m) for f in users for m in users[f] if not f"{m}.".startswith(inside[f])]


def test_no_two_classes_share_a_name() -> None:
    sources = [*FILES.values(), *(path for path in TESTS if "support" in path.parts)]
    names = Counter(
        node.name for path in sources for node in nodes_of(path) if isinstance(node, ast.ClassDef)
    )

    assert not [name for name, times in names.items() if times > 1]


def test_a_test_file_stands_where_its_module_does() -> None:
    """`tests/a/b/test_c.py` or `test_c_and_more.py` tests `a/b/c`, a module, folder or page."""
    astray = []
    for path in TESTS:
        folder = ROOT / path.parent.relative_to(ROOT / "tests")
        # The drill has its parts beside it; the siege and the tests at the top are of the whole.
        apart = folder in (ROOT, ROOT / "drill", ROOT / "siege")
        if path.name.startswith("test_") and not apart:
            names = (
                {entry.name.split(".")[0] for entry in folder.iterdir()} if folder.is_dir() else ()
            )
            subject = f"{path.stem.removeprefix('test_')}_"
            astray += [] if any(subject.startswith(f"{name}_") for name in names) else [path]

    assert not astray


def test_tests_import_no_other_tests() -> None:
    imports = {path: names_imported(nodes_of(path)) for path in TESTS}

    assert not [
        (path, name)
        for path, names in imports.items()
        for name in names
        if name.startswith("tests.") and ".test_" in name
    ]


@pytest.mark.parametrize(
    "arguments", ["--help", "predict --params 175e9", "plan configs/tiny.yaml"]
)
def test_no_heavy_framework_is_loaded_once_a_quick_verb_has_answered(arguments: str) -> None:
    loaded = loaded_by(["-c", "from fathom.search.cli import main; main()", *arguments.split()])

    needed = {"numpy", "scipy"} if "predict" in arguments else set[str]()
    assert "fathom.search.cli" in loaded
    assert not (HEAVY | {"optuna", "numpy", "scipy"} - needed) & loaded


@pytest.mark.parametrize("name", ["search", "fathom"])
def test_no_module_is_loaded_under_two_names(name: str) -> None:
    loaded = loaded_by(["-m", name, "plan", "configs/tiny.yaml"])

    assert "fathom.search.cli" in loaded
    by_folder = {module for module in loaded if module.split(".")[0] in PACKAGES}
    assert by_folder <= {"search", "search.__main__"}, "`python -m search` only delegates"


def test_a_plan_of_text_loads_no_library_that_only_reading_tokens_takes() -> None:
    loaded = loaded_by(["-m", "fathom", "plan", "configs/tiny.yaml"])

    assert not {"numpy", "tokenizers"} & loaded


def loaded_by(arguments: list[str]) -> set[str]:
    """Names of the modules that a run of Python has loaded when it ends well."""
    hook = "import atexit, sys; atexit.register(lambda: print('LOADED', *sys.modules))"
    runner = f"{hook}; import runpy; sys.argv = sys.argv[1:]; "
    if arguments[0] == "-m":
        program = f"{runner}runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    else:
        program = f"{runner}{arguments[1]}"
    asked = [sys.executable, "-c", program, *arguments[1:]]
    answer = run(*asked, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.rpartition("LOADED")[2].split())
