"""Meaning of the columns of a user's table, by Fathom's names, common names, or `--map`."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from fathom.models.unit import NAMES as UNIT_NAMES
from fathom.models.unit import unit_in
from fathom.search.formatting import printable
from fathom.search.tables.errors import TableError

UNIT_WORDS = " ".join(UNIT_NAMES.values()).split()
HELD_OUT = ("val", "valid", "validation", "eval", "final_val", "best_val", "final_eval", "dev")
NAMES: Mapping[str, Sequence[str]] = {
    "depth": (
        "depth",
        "n_layer n_layers num_layers num_hidden_layers num_layer layers nlayer nlayers n_blocks"
        " num_blocks num_transformer_layers transformer_layers decoder_layers num_decoder_layers"
        " model_depth layer_count l",
        "unique_layers num_unique_layers n_unique_layers",
    ),
    "loss": (
        "val_loss valid_loss validation_loss eval_loss dev_loss heldout_loss held_out_loss"
        " final_val_loss final_eval_loss final_validation_loss val_loss_final loss_val"
        " loss_validation val_cross_entropy eval_cross_entropy val_ce val_nll val_lm_loss"
        " val_ce_loss validation_cross_entropy loss_valid loss_eval loss_dev evaluation_loss"
        " val_epoch_loss validation_epoch_loss",
        " ".join(f"{split}_{word}" for split in HELD_OUT for word in UNIT_WORDS),
        " ".join(f"{name} test_{name} final_{name}" for name in UNIT_WORDS),
        "test_loss loss_test test_cross_entropy",
        "loss loss_nats final_loss epoch_loss cross_entropy ce_loss nll_loss nll lm_loss ce",
        "best_val_loss best_validation_loss best_eval_loss min_val_loss best_loss",
        "train_loss training_loss final_train_loss loss_train loss_training train_epoch_loss",
        "value",
    ),
    "params_total": (
        "params_total total_params total_parameters num_params_total n_params_total"
        " total_num_params total_param_count",
        "params n_params num_params parameters num_parameters n_parameters nparams param_count"
        " parameter_count model_params model_parameters trainable_params num_trainable_params"
        " trainable_parameters number_of_params number_of_parameters size model_size",
    ),
    "params_non_embedding": (
        "params_non_embedding non_embedding_params non_embedding_parameters"
        " n_params_non_embedding num_params_non_embedding non_emb_params non_embed_params"
        " params_no_embedding params_without_embedding params_nonembedding nonembedding_params"
        " num_non_embedding_params num_non_embedding_parameters n_non_embedding"
        " non_embedding_param_count",
    ),
    "d_model": (
        "d_model",
        "n_embd hidden_size width dim model_dim embed_dim embedding_dim n_embed emb_dim dmodel"
        " model_width",
        "n_hidden",
    ),
    "aspect_ratio": ("aspect_ratio",),
    "d_ff": ("d_ff", "intermediate_size ffn_dim ff_dim mlp_dim d_mlp dff n_inner d_ffn d_hidden"),
    "tokens": (
        "tokens",
        "tokens_seen n_tokens num_tokens train_tokens training_tokens total_tokens"
        " consumed_tokens consumed_train_tokens tokens_consumed num_tokens_seen"
        " num_input_tokens_seen tokens_trained token_count num_train_tokens",
        "tokens_seen_val",
        "tokens_seen_train",
    ),
    "step": (
        "step global_step",
        "steps iter iteration iterations iter_num train_step training_step num_steps n_steps"
        " updates num_updates train_steps max_steps",
        "training_iteration",
    ),
    "seed": (
        "seed",
        "random_seed rng_seed train_seed data_seed init_seed model_seed torch_seed replicate"
        " replica repeat repetition rep",
    ),
    "learning_rate": (
        "learning_rate",
        "lr peak_lr max_lr base_lr peak_learning_rate max_learning_rate base_learning_rate",
    ),
    "seconds_per_step": ("seconds_per_step", "step_seconds sec_per_step"),
    "seconds": (
        "seconds",
        "train_seconds training_seconds wall_seconds wall_clock_seconds elapsed_seconds"
        " total_seconds time_seconds seconds_total time_total_s train_time_s train_time_seconds"
        " training_time_s training_time_seconds wall_time_s wall_time_seconds elapsed_s",
        "wall_time wall_clock runtime elapsed",
    ),
    "flops": (
        "flops",
        "train_flops training_flops total_flops flops_total compute_flops flop train_flop"
        " training_flop total_flop flops_budget compute_budget budget_flops compute",
    ),
    "run": (
        "run_id id trial_id tid run trial",
        "run_name name experiment_name exp_name experiment model_name model",
    ),
}
"""Fathom's name -> common names of such a column; names in an earlier text are preferred."""
_MEANINGS = {name: ours for ours, tiers in NAMES.items() for tier in tiers for name in tier.split()}
IGNORE = "ignore"
"""The name that `--map` gives to a column that is not to be used."""
OPTUNA = re.compile(r"^(params|user_attrs|system_attrs)_(?=.)")
"""Prefixes of columns in Optuna's data frame of trials; `params_total` begins like one, too."""
PREFIXES = (
    *("config", "params", "param", "metrics", "metric", "summary", "hparams", "hparam", "args"),
    *("cfg", "train_loop_config", "run_config", "settings", "hyperparams"),
    *("model", "trainer", "optimizer", "optim", "hyperparameters"),
    *("arch", "architecture", "network", "net", "backbone", "transformer", "decoder", "gpt"),
    *("results", "result", "final", "history", "curve", "curves", "log", "logs"),
)
"""First parts of names that add no meaning, such as `config` in `config.n_layer`."""
PREFIX = re.compile(f"({'|'.join(PREFIXES)})(_(config|cfg|args|kwargs))?")
"""Pattern of one of `PREFIXES`, alone or with an ending as in `architecture_config`."""
UNITS = {
    **dict.fromkeys(("k", "thousand", "thousands"), 1e3),
    **dict.fromkeys(("m", "million", "millions"), 1e6),
    **dict.fromkeys(("b", "bn", "billion", "billions"), 1e9),
}
"""Last part of a name, such as M in `params (M)` -> factor of the numbers."""
SCALED = ("params_total", "params_non_embedding", "tokens")
PERPLEXITY = re.compile(r"(^|_)(ppl|perplexity)($|_)")
LOGARITHM = re.compile(r"(^|_)(log|ln|log_e)($|_)")
NOTHING: Mapping[str, str] = {}
WITHOUT = {"depth": "; `predict` needs no losses, `ask --flops` no depths"}
"""Fathom's name -> commands that need no such column, as the end of a message."""
MOST_NAMES = 12
"""Largest number of columns that an error lists."""
SHORT = 60
"""Most letters of a list of names in a message where the remedy follows the list; the first name is
always shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that are used, and their meaning."""

    taken: Mapping[str, str]
    """Fathom's name of each column -> the table's own name."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Fathom's name -> factor of the table's numbers, such as 1e6 for `params (M)`."""
    passed_over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Fathom's name -> columns that might have the same meaning, and are not used."""
    ignored: frozenset[str] = frozenset()
    """Columns that `--map` says to ignore."""


def choose_columns(
    names: Sequence[str],
    told: Mapping[str, str],
    table: str,
    lacking: Mapping[str, str] = NOTHING,
    needed: Sequence[str] = ("depth", "loss"),
) -> Columns:
    """The columns of a table by their meaning; `told`, from `--map`, maps the table's names to
    Fathom's. A table must have the `needed` columns and a size. `lacking` maps one of Fathom's
    names, or `size`, to the end of the message that such a column is missing.

    Raises:
        TableError: when a needed column is missing, or several columns could be it.
    """
    _check_told(names, told, table)
    taken = {ours: theirs for theirs, ours in told.items() if ours != IGNORE}
    plain = {name: plain_name(name) for name in names if name not in told}
    factors: dict[str, float] = {}
    passed_over: dict[str, Sequence[str]] = {}
    for ours in (name for name in NAMES if name not in taken):
        found = [match for tier in NAMES[ours] if (match := _matches(plain, ours, tier))]
        in_unit = [name for name in plain if ours == "loss" and _is_in_unit(plain[name])]
        if not found and len(in_unit) == 1:
            found = [in_unit]
        if not found and ours == "loss":
            found = [named] if (named := [n for n in plain if PERPLEXITY.search(plain[n])]) else []
        if not found:
            continue
        same = found[0] if ours not in found[0] else [ours]
        if len(same) > 1 and ours in (*needed, "params_total", "params_non_embedding", "tokens"):
            raise TableError(
                f"{table} must have one column that is the {ours}, got {listed(same)}; choose "
                f"with --map {as_argument(same[0])}={ours}"
            )
        taken[ours] = same[0]
        if others := [name for match in found for name in match if name != same[0]]:
            passed_over[ours] = others
    for ours in SCALED:
        if ours in taken and (unit := _unit(plain_name(taken[ours]))):
            factors[ours] = UNITS[unit]
    _check_needed(needed, names, taken, table, lacking)
    ignored = frozenset(theirs for theirs, ours in told.items() if ours == IGNORE)
    return Columns(taken=taken, factors=factors, passed_over=passed_over, ignored=ignored)


def parse_maps(maps: Sequence[str]) -> dict[str, str]:
    """The arguments `COLUMN=NAME` of `--map`: the table's name -> Fathom's.

    Raises:
        TableError: when an argument has another form, or two give the same NAME.
    """
    told: dict[str, str] = {}
    for text in maps:
        theirs, equals, ours = text.rpartition("=")
        ours = {"params": "params_total"}.get(ours.strip(), ours.strip())
        if not equals or not theirs or ours not in (*NAMES, IGNORE):
            raise TableError(
                f"`--map` must be COLUMN=NAME with a NAME of {', '.join(NAMES)} or {IGNORE}, got "
                f"{text!r}; for example --map val/loss=loss"
            )
        if ours != IGNORE and ours in told.values():
            raise TableError(f"`--map` must name one column for {ours}, got two; drop one")
        told[theirs] = ours
    return told


def _check_told(names: Sequence[str], told: Mapping[str, str], table: str) -> None:
    for theirs in told:
        if theirs not in names:
            near = difflib.get_close_matches(theirs, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {listed(names)}"
            raise TableError(f"`--map` must name a column of {table}, got {theirs!r}; {hint}")
    for theirs in set(told):
        if list(names).count(theirs) > 1:
            raise TableError(f"{table} must have one column {theirs!r}, got two; rename one")


def _check_needed(
    needed: Sequence[str],
    names: Sequence[str],
    taken: Mapping[str, str],
    table: str,
    lacking: Mapping[str, str],
) -> None:
    for ours in needed:
        if ours in taken:
            continue
        raise TableError(
            f"{table} must have a column that is the {ours}, got {listed(names, SHORT)}; name it "
            f"with --map COLUMN={ours}{lacking.get(ours, WITHOUT.get(ours, ''))}"
        )
    if not {"params_total", "params_non_embedding", "d_model", "aspect_ratio"} & set(taken):
        raise TableError(
            f"{table} must have the size of each model, got {listed(names, SHORT)}; name it with "
            "--map COLUMN=params_total or COLUMN=d_model, or add such a column"
            f"{lacking.get('size', '')}"
        )
    for ours, theirs in taken.items():
        if list(names).count(theirs) > 1:
            column = f"{printable(theirs)!r}, which is the {ours}"
            raise TableError(f"{table} must have one column {column}, got two; rename one")


def meaning(name: str) -> str | None:
    """Fathom's name for a column of a table; None if the column's name is not known.

    >>> meaning("config.n_layer"), meaning("Loss/val"), meaning("params (M)"), meaning("accuracy")
    ('depth', 'loss', 'params_total', None)
    """
    whole = plain_name(name)
    found = _MEANINGS.get(whole)
    if found is None and _unit(whole):
        scaled = _MEANINGS.get(whole.rpartition("_")[0])
        found = scaled if scaled in SCALED else None
    return found or ("loss" if unit_in(whole) else None)


def _is_in_unit(plain: str) -> bool:
    """True if a plain name has a unit of losses, such as bpb, and is not a training loss."""
    return bool(unit_in(plain)) and "train" not in plain


def _matches(plain: Mapping[str, str], ours: str, tier: str) -> list[str]:
    """The table's names that match a name in `tier`, in the order of `tier`."""
    known = tier.split()
    found = []
    for name, whole in plain.items():
        stem = whole.rpartition("_")[0] if ours in SCALED and _unit(whole) else whole
        forms = [form for form in (whole, stem, OPTUNA.sub("", whole)) if form in known]
        if forms:
            found.append((known.index(forms[0]), name))
    return [name for _, name in sorted(found, key=lambda place: place[0])]


def is_perplexity(name: str) -> bool:
    """True for the name of a column of perplexities, whose logarithms are losses in nats.

    >>> is_perplexity("eval/ppl"), is_perplexity("log_perplexity")
    (True, False)
    """
    plain = plain_name(name)
    return bool(PERPLEXITY.search(plain)) and not LOGARITHM.search(plain)


def plain_name(name: str) -> str:
    """The name in small letters and underscores, without parts that add no meaning.

    >>> plain_name("model/nLayer"), plain_name("eval/val_losses"), plain_name("config.lr.value")
    ('n_layer', 'val_loss', 'lr')
    """
    parts = re.split(r"[./]", name.strip())
    while len(parts) > 1 and PREFIX.fullmatch(parts[0].strip().lower()):
        parts = parts[1:]
    if len(parts) > 1 and parts[-1].strip().lower() == "value":  # of W&B's config.yaml
        parts.pop()
    if len(parts) > 1 and {parts[0].lower(), parts[1].lower().split("_")[0]} <= {*HELD_OUT}:
        parts = parts[1:]  # eval/val_bpb
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", "_".join(parts))
    return (
        re.sub(r"[^a-z0-9]+", "_", text.lower())
        .strip("_")
        .replace("losses", "loss")
        .removesuffix("_nats")
    )


def _unit(plain: str) -> str:
    """The unit at the end of a plain name, such as m for millions; empty without one."""
    stem, _, last = plain.rpartition("_")
    return last if stem and last in UNITS else ""


def listed(names: Sequence[str], letters: float = inf) -> str:
    """The names of columns for a message: the first name, then more up to `letters` letters in
    all."""
    shown = [printable(str(name)) or "''" for name in names[:MOST_NAMES]]
    while len(shown) > 1 and len(", ".join(shown)) > letters:
        shown.pop()
    more = len(names) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more > 0 else "")


def as_argument(name: str) -> str:
    """The name of a column as an argument in a shell, quoted if necessary."""
    plain = printable(name)
    return plain if re.fullmatch(r"[\w./-]+", plain) else f"'{plain}'"
