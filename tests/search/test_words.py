"""The words of the answer: said in one place, and never read back by a program."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from fathom.search import words
from fathom.search.analysis.answer.verdict import (
    Advice,
    Depths,
    Keys,
    Kind,
    Lack,
    MayCostMore,
    MoreTokens,
    NoiseHidesDepth,
    NoiseUnknown,
    NoRemedy,
    Remedy,
    Seeds,
    TheseDepths,
    Verdict,
)
from tests.support.places import ROOT

READING = {
    *("replace", "removeprefix", "removesuffix", "startswith", "endswith"),
    *("split", "rsplit", "partition", "rpartition", "match", "fullmatch", "search", "sub"),
    *("findall", "finditer"),
}
"""Methods of texts and of regular expressions that take a text apart."""


@pytest.mark.parametrize(
    ("remedy", "study", "table"),
    [
        (Seeds(4), "set `confirm.seeds: 4`", "train 4 seeds of each of the best depths"),
        (MoreTokens(90), "about 90 seeds .* raise `tokens`", "about 90 seeds .* more tokens"),
        (Depths(4, 32), r"set `space.depth: \[4, 32\]`", "add depths from 4 to 32"),
        (TheseDepths((3, 6), (2, 4)), r"`space.depth: \[2, 3, 4, 6\]`", "train depths 3, 6 too$"),
        (Keys((("confirm.depths", 5),)), "set `confirm.depths: 5`", r"\(probability 16 %\)$"),
        (
            NoRemedy(Lack.NO_DEEPER, 10_000),
            "no deeper shape meets 10k; drop",
            r"\(probability 16 %\)$",
        ),
        (
            NoRemedy(Lack.NO_SHALLOWER, 10_000),
            "no shallower shape meets 10k; drop",
            r"\(probability 16 %\)$",
        ),
        (
            NoRemedy(Lack.NO_SUCH_DEPTH, 10_000, (5,)),
            "no shape of depth 5 meets 10k",
            r"\(probability 16 %\)$",
        ),
        (
            NoRemedy(Lack.ALL_PLANNED, 10_000, (1, 2)),
            r"already has every depth at which a shape meets 10k \(1, 2\)",
            r"\(probability 16 %\)$",
        ),
        *((advice, words.STUDY[advice], words.TABLE[advice]) for advice in Advice),
    ],
)
def test_a_remedy_names_keys_or_runs(remedy: Remedy, study: str, table: str) -> None:
    verdict = Verdict(Kind.INSUFFICIENT, MayCostMore(3, 0.16, (4, 2)), remedy)

    assert re.search(study, words.study_reason(verdict))
    assert re.search(table, words.table_reason(verdict))
    assert "`" not in words.table_reason(verdict), "a table has no study file"


def test_who_has_a_table_may_state_the_noise_that_it_does_not_show() -> None:
    unknown = Verdict(Kind.INSUFFICIENT, NoiseUnknown(), Seeds(3))
    hidden = Verdict(Kind.INSUFFICIENT, NoiseHidesDepth(0.01), Seeds(3))

    assert words.table_reason(unknown).endswith("or state the noise with --noise")
    assert "--noise" not in words.table_reason(hidden) + words.study_reason(unknown)


TREES = {
    path.relative_to(ROOT / "search"): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "search").rglob("*.py"))
}
FOLDERS = ("words.py", "conclusion", "report")
SAYING = [tree for path, tree in TREES.items() if path.parts[0] in FOLDERS]
"""Modules whose functions return the sentences of an answer."""


TEXT = {"str", "list[str]", "tuple[str, ...]", "dict[str, str]", "Iterator[str]"}
"""Annotations of what holds sentences."""


def texts(nodes: Iterable[ast.AST]) -> set[str]:
    """Names of those functions and attributes of these that are annotated as text."""
    notes = {
        node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.target): ast.unparse(
            (node.returns if isinstance(node, ast.FunctionDef) else node.annotation) or node
        )
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AnnAssign)
    }
    return {name for name, note in notes.items() if note in TEXT} - {"name", "key", "state"}


FUNCTIONS = set().union(*(texts(tree.body) for tree in SAYING)) | {"reason"}
CLASSES = [node for tree in SAYING for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
ATTRIBUTES = set().union(*(texts(node.body) for node in CLASSES)) - {"reason"}


def says(node: ast.AST, variables: Collection[str]) -> bool:
    """True if an expression holds a sentence: from a function, an attribute or a variable."""
    for part in ast.walk(node):
        match part:
            case ast.Name(name) if name in variables:
                return True
            case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)) if name in FUNCTIONS:
                return True
            case ast.Attribute(attr=name) if name in ATTRIBUTES:
                return True
    return False


def read_back(tree: ast.Module) -> Iterator[str]:
    """Yields the calls that take a sentence apart, also by way of a variable of their function."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        variables: set[str] = set()
        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.Assign) and says(node.value, variables):
                variables |= {ast.unparse(target) for target in node.targets}
        for node in nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=text, attr=method)) if method in READING:
                    if any(says(part, variables) for part in (text, *node.args)):
                        yield ast.unparse(node)
                case ast.Compare(left=part, ops=[ast.In() | ast.NotIn()], comparators=[text]):
                    is_text = isinstance(part, ast.Constant) and isinstance(part.value, str)
                    if is_text and says(text, variables):
                        yield ast.unparse(node)


def test_nothing_reads_the_sentences_of_an_answer_back() -> None:
    assert {"study_reason", "interval", "summary"} <= FUNCTIONS
    assert {"title", "question", "trials"} <= ATTRIBUTES

    found = {str(path): calls for path, tree in TREES.items() if (calls := list(read_back(tree)))}
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "return interval(optimum).replace(' or deeper', '+')",
        "return chart.title.removeprefix(chart.question)",
        "said = study_reason(verdict)\n    return re.sub('`', '', said)",
        "return state.reason(optimum).partition('/')[0]",
        "return 'raise' in findings.reason(optimum)",
    ],
)
def test_reading_back_would_be_seen(code: str) -> None:
    assert list(read_back(ast.parse(f"def f(x):\n    {code}")))


def looked_for(tree: ast.Module) -> Iterator[str]:
    """Yields the texts of two words or more that a module looks for in other texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=args) if method in READING | {
                "compile",
                "index",
                "find",
                "count",
            }:
                parts: list[ast.expr] = args
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                parts = [left]
            case _:
                continue
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                words_of = worded(re.sub(r"\\[a-zA-Z]|\[.*?\]|\(.*?\)", GAP, part.value))
                if len(words_of.replace(GAP, " ").split()) > 1:
                    yield words_of


GAP = "…"
"""What stands for a part of a sentence, or of a pattern, that is a value."""


def worded(text: str) -> str:
    """The words of a text and its gaps, with single spaces."""
    return " ".join(re.findall(rf"[\w']+|{GAP}", text))


def said(tree: ast.Module) -> Iterator[str]:
    """Yields the words of each text in a module; a value in one is a gap."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
            yield worded("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield worded(node.value)


def read_by_wording(tree: ast.Module) -> list[str]:
    """The texts that a module looks for and that are a part of a sentence of a verdict."""
    sentences = [f" {sentence} " for sentence in said(TREES[Path("words.py")])]
    return [
        text for text in looked_for(tree) if any(f" {text} " in sentence for sentence in sentences)
    ]


def test_nothing_looks_for_the_words_of_a_verdict() -> None:
    found = {str(path): texts for path, tree in TREES.items() if (texts := read_by_wording(tree))}
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        r"return re.search(r'train (\d+) seeds', text)",
        r"return re.compile(r'may lie beyond [0-9]')",
        "return 'raise `confirm.depths`' in text",
        "return line.partition('has not ended')[0]",
    ],
)
def test_looking_for_words_of_a_verdict_would_be_seen(code: str) -> None:
    assert read_by_wording(ast.parse(f"def f(text, line):\n    {code}"))


def spoken(path: Path) -> set[str]:
    """The parts of sentences in the code of a module, of more than four words."""
    described = {
        node.value
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        phrase
        for node in set(ast.walk(TREES[path])) - described
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if len((phrase := " ".join(node.value.split())).split()) > 4
    }


def test_the_sentences_of_a_verdict_stand_in_one_module() -> None:
    words_path = Path("words.py")
    phrases = spoken(words_path)
    assert len(phrases) > 15
    others = set().union(*(spoken(path) for path in TREES if path != words_path))

    assert not {phrase for phrase in phrases if any(phrase in other for other in others)}
