"""Which column is what."""

import pytest

from fathom.search.tables.columns.columns import choose_columns, parse_maps
from fathom.search.tables.errors import TableError


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (
            ["n_layer", "n_embd", "n_params", "val_loss"],
            {"depth": "n_layer", "d_model": "n_embd", "params_total": "n_params"},
        ),
        (
            ["config.architecture_config.num_hidden_layers", "model_args.n_embd", "val_loss"],
            {
                "depth": "config.architecture_config.num_hidden_layers",
                "d_model": "model_args.n_embd",
                "loss": "val_loss",
            },
        ),
        (
            ["config.model.num_hidden_layers", "config/hidden_size", "eval/loss", "_step"],
            {"depth": "config.model.num_hidden_layers", "loss": "eval/loss", "step": "_step"},
        ),
        (
            ["params.depth", "metrics.loss", "params.params_total", "Run ID", "metrics.tokens"],
            {"depth": "params.depth", "loss": "metrics.loss", "run": "Run ID"},
        ),
        (["nLayer", "loss", "val_loss", "dModel"], {"depth": "nLayer", "loss": "val_loss"}),
        (["depth", "Val loss (nats)", "train_loss", "size"], {"loss": "Val loss (nats)"}),
        (["depth", "best_val_loss", "train_loss", "size"], {"loss": "best_val_loss"}),
        (["depth", "train_loss", "size"], {"loss": "train_loss", "params_total": "size"}),
    ],
)
def test_columns_are_recognised_by_usual_names(names: list[str], taken: dict[str, str]) -> None:
    assert taken.items() <= choose_columns(names, {}, "t").taken.items()


def test_units_in_a_name_are_factors() -> None:
    found = choose_columns(["depth", "loss", "params (M)", "Tokens (B)"], {}, "t")

    assert found.factors == {"params_total": 1e6, "tokens": 1e9}


def test_what_is_told_comes_before_what_is_recognised() -> None:
    names = ["depth", "loss", "ppl", "params", "lr"]
    told = parse_maps(["ppl=loss", "params=params_non_embedding", "lr=ignore"])
    found = choose_columns(names, told, "t").taken

    assert found == {"loss": "ppl", "params_non_embedding": "params", "depth": "depth"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], r"a column that is the depth, got a, b; name it with --map COLUMN=depth"),
        (["depth", "acc", "d_model"], r"column that is the loss"),
        (["depth", "ppl", "val_ppl", "params"], r"that is the loss, got ppl, val_ppl; choose with"),
        (["depth", "loss"], r"must have the size of each model"),
        (["depth", "val_loss", "eval_loss", "params"], r"choose with --map val_loss=loss"),
        (["depth", "depth", "loss", "params"], r"one column 'depth', which is the depth, got two"),
        (["\x1b[31mdepth"], r"got \\x1b\[31mdepth"),
    ],
)
def test_what_lacks_or_is_open_is_one_line(names: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message):
        choose_columns(names, {}, "t")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (["loss"], "must be COLUMN=NAME"),
        (["x=accuracy"], "must be COLUMN=NAME"),
        (["a=loss", "b=loss"], "one column for loss, got two"),
    ],
)
def test_a_map_has_one_form(maps: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse_maps(maps)


def test_a_map_of_a_column_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(TableError, match="did you mean val_loss"):
        choose_columns(["depth", "val_loss", "params"], {"val_los": "loss"}, "t")
