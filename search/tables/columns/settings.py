"""Finds the columns of a user's table that are settings of a training, by names and values.

A setting affects the loss, as depth does. Results, bookkeeping and columns that follow from the
shape are not settings; tables that tools export have dozens of these.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fathom.search.tables.columns.cells import Cells, Texts, numbered
from fathom.search.tables.columns.columns import OPTUNA, Columns, plain_name
from fathom.search.tables.columns.effects import moves_loss


def _words_in(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


SETTINGS = _words_in(
    "batch bs bsz lr rate decay wd warmup warm warmdown context ctx seq sequence seqlen window",
    "block_size heads head nhead nheads kv dropout drop optimizer optim optimiser sched",
    "schedule scheduler beta beta1 beta2 betas momentum eps epsilon clip clipping grad_clip",
    "init std sigma data dataset datasets corpus mix mixture subset tokenizer tokeniser vocab",
    "family arch architecture variant precision dtype fp16 bf16 amp norm act activation pos",
    "position positional rope rotary alibi tie tied tying bias ema accumulation accum epochs",
    "unique repeat repeats parametrization parameterization mup anneal annealing cooldown",
    "smoothing coef coefficient weight experts moe topk softcap objective task language lang",
    "tokens_per per_param per_parameter chinchilla temperature",
    "domain curriculum augmentation regularization teacher distillation quantization sparsity",
    "recipe",
)
"""Words in the names of columns that are settings."""
OUTCOMES = _words_in(
    "loss losses acc accuracy ppl perplexity bpb bpc nll ce entropy score bleu rouge chrf f1",
    "wer error err mfu hfu flops tflops pflops macs flop mem memory vram gb mb gib mib time",
    "times seconds secs sec hours hour minutes min mins ms duration runtime elapsed",
    "latency throughput speed cost price usd energy power watts utilization epoch",
    "mmlu hellaswag arc piqa winogrande boolq lambada gsm8k humaneval metric metrics diverged",
    "nan grad_norm param_norm weight_norm update_norm per_sec per_second tok_s it_s",
)
"""Words in the names of columns that are results of a training."""
KINDS = _words_in("type types kind style")
"""Last words of names of columns that choose among several options, such as `norm_type`."""
BOOKKEEPING = _words_in(
    "id ids uuid uid guid run runs trial experiment exp number index idx job jobid slurm url",
    "uri path dir directory folder file filename checkpoint ckpt host hostname user author",
    "owner created updated started ended finished completed start end date datetime timestamp",
    "day state status note notes tag tags comment comments description sweep commit git sha",
    "hash branch log logs logging log_dir save saved eval every interval frequency freq",
    "workers num_workers gpu gpus device devices cuda cpu cpus node nodes world world_size",
    "rank local_rank machine cluster instance region project entity wandb mlflow step steps",
    "iter iters iteration iterations resume resumed seed seeds replicate repeat_id compile",
    "compiled fsdp ddp parallel tp pp dp verbose debug version_info python torch",
)
"""Words in the names of columns that only identify, date or place a run."""
DERIVED = _words_in(
    "params param parameters parameter nparams embedding embeddings flops width hidden dim",
    "d_model n_embd dmodel d_ff ffn ff mlp intermediate inner layers layer depth blocks block",
    "loops loop recurrence recurrences aspect ratio expansion size sizes scale tokens token",
    "label shape",
)
"""Words in the names of columns that usually describe the shape or follow from it; their values
decide."""
NOT_THE_TRAINING = _words_in("eval val valid validation test log save parallel workers")
"""Words that show that `batch` or `seq` in the same name is not the training's."""
MICRO = _words_in("micro per_device device_batch")
"""Words in the names of columns with the batch size of one device in one pass."""
ACCUMULATED = _words_in("accum accumulation")
"""Words in the names of columns with the number of such passes in a whole batch."""
SHAPED = ("depth", "d_model", "d_ff", "params_non_embedding")
"""Columns, by Fathom's names, that together with the size define a shape."""
HEADS = _words_in("heads head nhead nheads kv")
"""Words in the names of columns with the number or width of heads, which may follow from the
model's width."""
REGIMES = _words_in(
    "context ctx seq sequence seqlen window block_size data dataset datasets corpus mix",
    "mixture subset tokenizer tokeniser vocab family arch architecture variant language lang",
    "domain task epochs unique model",
)
"""Words in the names of settings that change the question, such as the data, so that losses at
different values are not compared."""
NOT_METRICS = _words_in("coef coefficient weight scale type fn function name")
METRIC = re.compile(r"^(train|eval|val|valid|validation|test|perf|system|time|metrics?|summary)/")
FOLLOWS = 0.1
"""Largest residual, in logarithms, at which a column counts as a (rounded) power of depth, width
and size, and so follows from the shape."""
FEWEST_COPIES = 3
"""Fewest runs listed more than once, with only one column different, from which that column counts
as having no effect."""
MOST_DIGITS = 2
"""Most significant digits of a fraction, such as 0.1, that looks chosen and not measured."""


class ColumnRole(Enum):
    """Role of a column of a table, by its name alone."""

    SETTING = auto()
    UNKNOWN = auto()
    NAME = auto()
    """Bookkeeping: who, when, where, which run."""
    RESULT = auto()
    """Result of a training."""
    OF_SHAPE = auto()
    """Part of a shape, or follows from it, unless the values say otherwise."""


def role_of(name: str) -> ColumnRole:
    """The role of a column, by its name alone."""
    words = _words(name)
    found = set(words)
    if METRIC.match(name.strip().lower()) or name.strip().startswith("_"):
        return ColumnRole.RESULT
    last = {words[-1], "_".join(words[-2:])} if words else {""}
    if last & OUTCOMES and not found & NOT_METRICS and not (found & SETTINGS and last & {"min"}):
        return ColumnRole.RESULT
    if last & {"layers", "layer", "params", "parameters", "loops"}:
        return ColumnRole.OF_SHAPE
    if found & NOT_THE_TRAINING and found & {"batch", "bs", "seq", "data_parallel", "accumulation"}:
        return ColumnRole.NAME
    if found & SETTINGS:
        return ColumnRole.SETTING
    if found & BOOKKEEPING:
        return ColumnRole.NAME
    if last & KINDS:
        return ColumnRole.SETTING
    if found & (DERIVED | OUTCOMES):
        return ColumnRole.OF_SHAPE
    return ColumnRole.UNKNOWN


def is_head(name: str) -> bool:
    """True for a column with a number of heads or their width."""
    return bool(set(_words(name)) & HEADS)


def is_regime(name: str) -> bool:
    """True for a column, such as data, context or family, whose values pose different questions."""
    return bool(set(_words(name)) & REGIMES)


def to_read(
    names: Sequence[str], columns: Columns, results: Iterable[str], asked: Iterable[str]
) -> list[str]:
    """The columns to read as texts: those that may be settings or names of runs, and those that the
    question is about, `asked`; the columns `results` are known to be no settings."""
    used = {*columns.taken.values(), *columns.ignored, *results}
    for ours, others in columns.passed_over.items():
        used |= set() if ours == "run" else set(others)
    asked = set(asked)
    return [
        name
        for name in dict.fromkeys(names)
        if name in asked or not (name in used or role_of(name) is ColumnRole.RESULT)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Columns of a table by role, apart from those with a meaning of their own such as depth."""

    names: tuple[str, ...]
    """Columns that are settings; of several that split the rows in the same way, only the first."""
    left: tuple[str, ...]
    """Columns with several values that are taken for names or results."""
    shaped: tuple[str, ...] = ()
    """Columns of numbers with one value for each shape that yet does not follow from the shape."""


def settings_of(cells: Cells, asked: Iterable[str]) -> Settings:
    """The roles of the columns in `cells.texts`; those that are `asked` for are always settings."""
    asked = set(asked)
    shapes = _shapes(cells.values)
    rates = cells.values.get("learning_rate")
    seen = set() if rates is None else {_pattern(np.nan_to_num(rates, nan=-1.0))}
    found, left, shaped = set(), set(), set()
    for name in sorted(cells.texts, key=lambda name: (name not in asked, len(name))):
        texts = cells.texts[name]
        if name not in asked and _only_copies(name, cells):
            left.add(name)
            continue
        if name not in asked and not _is_setting(name, texts, shapes, cells.values["depth"]):
            of_shape = role_of(name) is ColumnRole.OF_SHAPE
            if of_shape and _stands_alone(texts, shapes, cells.values):
                shaped.add(name)
            left |= {name} if len(texts.values) > 1 and not of_shape else set()
            continue
        pattern = _pattern(texts.codes)
        own = 2 * len(texts.values) > len(texts.codes)  # such as drawn numbers, which are all alike
        found |= {name} if name in asked or own or pattern not in seen else set()
        seen.add(pattern)
    moving = {name for name in left if moves_loss(name, cells, found)}
    found, left = found | moving, left - moving
    return Settings(
        names=tuple(name for name in cells.texts if name in found),
        left=tuple(name for name in cells.texts if name in left),
        shaped=tuple(name for name in cells.texts if name in shaped),
    )


def with_whole_batches(cells: Cells, asked: Iterable[str]) -> Cells:
    """The cells with columns such as batch per device and accumulation replaced by their product,
    or dropped if another column has the whole batch; unchanged if one of them is `asked` for."""
    asked, words = set(asked), {name: set(_words(name)) for name in cells.texts}
    numeric = [name for name, texts in cells.texts.items() if _numbers(texts) is not None]
    batch = [n for n in numeric if role_of(n) is ColumnRole.SETTING and words[n] & {"batch", "bs"}]
    micro = [name for name in batch if words[name] & MICRO]
    whole = [name for name in batch if not words[name] & (MICRO | ACCUMULATED)]
    times = [n for n in numeric if role_of(n) is ColumnRole.SETTING and words[n] & ACCUMULATED]
    parts = [*(micro or whole[:1]), *times]
    if asked & set(parts) or not ((micro and whole) or (times and len(parts) > 1)):
        return cells
    texts = {name: texts for name, texts in cells.texts.items() if name not in parts}
    if not (micro and whole):
        texts[" x ".join(parts)] = _product([cells.texts[name] for name in parts])
    return replace(cells, texts=texts)


def _numbers(texts: Texts) -> list[float] | None:
    """The values as numbers; None if some are not numbers."""
    found = [texts.number(value) for value in texts.values]
    numbers = [number for number in found if number is not None]
    return numbers if len(numbers) == len(found) else None


def _product(columns: Sequence[Texts]) -> Texts:
    """The product of columns of numbers."""
    product = np.ones(len(columns[0].codes))
    for texts in columns:
        product = product * np.array(_numbers(texts))[texts.codes]
    values, codes = np.unique(product, return_inverse=True)
    return Texts(codes=codes.astype(np.int64), values=tuple(f"{value:.10g}" for value in values))


def _pattern(values: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
    """Values numbered in order of appearance, as a key that is equal for columns that split the
    rows in the same way."""
    _, first, places = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[places].tobytes()


def _is_setting(
    name: str, texts: Texts, shapes: NDArray[np.int64], depths: NDArray[np.float64]
) -> bool:
    if len(texts.values) < 2 or texts.cut:
        return False
    role = role_of(name)
    if role not in (ColumnRole.UNKNOWN, ColumnRole.OF_SHAPE):
        return role is ColumnRole.SETTING
    numbers = [texts.number(value) for value in texts.values if value]
    pairs = len(np.unique(np.stack([texts.codes, shapes]), axis=1).T)
    if all(number is not None for number in numbers):
        if role is ColumnRole.OF_SHAPE and pairs == len(np.unique(shapes)):
            return False
        return _chosen([number for number in numbers if number is not None], shapes, texts)
    if pairs == len(texts.values):
        return False  # no value is of two shapes: it is a name
    return not _names_depth(texts, depths)


def _only_copies(name: str, cells: Cells) -> bool:
    """True if rows that differ only in this column have identical losses, at least three times: the
    column then only says where a run was listed."""
    losses = cells.values["loss"].tolist()
    if len(cells.texts[name].values) < 2 or len(losses) - len({*losses}) < FEWEST_COPIES:
        return False  # as in nearly every table, and the rest takes long with many columns
    others = [c.codes for other, c in cells.texts.items() if other != name and len(c.values) > 1]
    others += [np.nan_to_num(c, nan=-1) for ours, c in cells.values.items() if ours != "loss"]
    rows: dict[bytes, dict[int, set[float]]] = {}
    keys = np.stack(others, axis=1, dtype=np.float64)
    for key, code, loss in zip(keys, cells.texts[name].codes.tolist(), losses, strict=True):
        rows.setdefault(key.tobytes(), {}).setdefault(code, set()).add(loss)
    several = [list(values.values()) for values in rows.values() if len(values) > 1]
    return len(several) >= FEWEST_COPIES and all(
        some == values[0] for values in several for some in values
    )


def _stands_alone(
    texts: Texts, shapes: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]
) -> bool:
    """True if numbers, one for each shape, look chosen and are no power of depth, width and size: a
    setting that changes together with the shape."""
    numbers = _numbers(texts)
    _, first = np.unique(shapes, return_index=True)
    if len(texts.values) < 2 or numbers is None or not _chosen(numbers, shapes[first], texts):
        return False
    column = np.array(numbers)[texts.codes[first]]
    if (column <= 0).any():
        return True
    sizes = [np.log(values[name][first]) for name in (*SHAPED, "params_total") if name in values]
    design = np.stack([np.ones(len(first)), *sizes], axis=1)
    known = np.isfinite(design).all(axis=0)
    fitted = np.linalg.lstsq(design[:, known], np.log(column), rcond=None)[0]
    missed = np.log(column) - design[:, known] @ fitted
    few = 2 * len(texts.values) <= len(first)
    spare = len(first) - int(np.linalg.matrix_rank(design[:, known]))
    return float(np.abs(missed).max()) > FOLLOWS or (few and spare < 1)


def _chosen(numbers: Sequence[float], shapes: NDArray[np.int64], texts: Texts) -> bool:
    """True if numbers look chosen, not measured: whole numbers that runs share, or few numbers, or
    short ones."""
    several = len(texts.codes) > len(np.unique(shapes))
    if all(number.is_integer() for number in numbers):
        return not (several and len(numbers) >= 0.9 * len(texts.codes)) and (
            several or all(map(_is_round, numbers))
        )
    few = len(numbers) <= len(np.unique(shapes)) / 2 + 1
    return few or all(f"{number:.{MOST_DIGITS}g}" == f"{number:g}" for number in numbers)


def _is_round(number: float) -> bool:
    """True for a whole number with few digits, or with many factors of two, such as 1536."""
    whole = int(abs(number))
    odd = whole // (whole & -whole) if whole else 0
    return odd <= 100 or float(f"{whole:.3g}") == whole


def _names_depth(texts: Texts, depths: NDArray[np.float64]) -> bool:
    """True if each value contains the depth of its rows as a number, such as `L12`."""
    for code, value in enumerate(texts.values):
        within = {int(depth) for depth in np.unique(depths[texts.codes == code])}
        if len(within) != 1 or not re.search(rf"(?<!\d){within.pop()}(?!\d)", value):
            return False
    return True


def _shapes(values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.int64]:
    """Number of each row's shape, (rows,); rows of one shape share it."""
    names = ("depth", "d_model", "d_ff", "params_total", "params_non_embedding")
    return numbered([values[name] for name in names if name in values])


def _words(name: str) -> list[str]:
    """The words of a name, and each pair of neighbouring words as one, such as `block_size`."""
    plain = OPTUNA.sub("", plain_name(name)).split("_")
    pairs = ["_".join(pair) for pair in pairwise(plain)]
    return [*pairs, *plain]
