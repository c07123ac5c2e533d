"""Which columns of somebody's table are settings."""

import pytest

from fathom.search.tables.columns.cells import read_cells
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.columns.settings import (
    ColumnRole,
    role_of,
    settings_of,
    to_read,
    with_whole_batches,
)
from fathom.search.tables.open_table import rows_of


def settings(**columns: list[object]) -> tuple[str, ...]:
    """The settings of a table of four shapes."""
    base = {"depth": [2, 4, 8, 16], "params": [9] * 4, "loss": [3.1, 3.0, 2.9, 2.8], **columns}
    rows = [dict(zip(base, row, strict=True)) for row in zip(*base.values(), strict=True)]
    table = rows_of("t", rows)
    taken = choose_columns(table.names, {}, "t")
    cells = read_cells(table, taken, to_read(table.names, taken, (), ()))
    return settings_of(with_whole_batches(cells, ()), ()).names


def test_a_column_that_only_tells_copies_of_runs_apart_is_no_setting() -> None:
    names: list[object] = ["deep", "wide"]
    both: dict[str, list[object]] = {
        "depth": [2, 2, 4, 4, 8, 8],
        "params": [9] * 6,
        "scaling_data": names * 3,
    }

    assert settings(**both, loss=[3.1, 3.1, 3.0, 3.0, 2.9, 2.9]) == ()
    assert settings(**both, loss=[3.1, 3.1, 3.0, 3.0, 2.9, 2.8]) == ("scaling_data",)


@pytest.mark.parametrize(
    "name",
    ["batch_size", "config/optimizer.weight_decay", "Warmup Steps", "model.n_heads", "n_ctx",
     "dropout", "dataset_path", "adam_beta2", "gpus_or_batch_field", "unique_tokens",
     "vocab_size", "lr_scheduler_type", "label_smoothing", "z_loss_coef", "family",
     "mlp_type", "block_type", "layer_type", "ffn_kind"],
)  # fmt: skip
def test_a_setting_is_known_by_its_name(name: str) -> None:
    assert role_of(name) is ColumnRole.SETTING


@pytest.mark.parametrize(
    "name",
    ["train/loss", "eval/accuracy", "grad_norm", "batch_time", "tokens_per_sec", "val_ppl",
     "peak_memory_gb", "_step", "_runtime", "total_flops", "z_loss", "train/lr"],
)  # fmt: skip
def test_what_a_training_gave_is_no_setting(name: str) -> None:
    assert role_of(name) is ColumnRole.RESULT


@pytest.mark.parametrize(
    "name",
    ["params_blocks", "params_no_input_embedding", "unique_layers", "loops", "embedding_dim"],
)
def test_what_a_shape_has_is_no_setting_by_its_name_alone(name: str) -> None:
    assert role_of(name) is ColumnRole.OF_SHAPE


@pytest.mark.parametrize(
    "name",
    ["Name", "ID", "Created", "hostname", "git_commit", "output_dir", "eval_batch_size",
     "save_steps", "max_steps", "num_workers", "gpu_type", "notes", "data_parallel_size"],
)  # fmt: skip
def test_what_keeps_the_books_is_no_setting(name: str) -> None:
    assert role_of(name) in (ColumnRole.NAME, ColumnRole.UNKNOWN)


def test_an_unknown_column_is_a_setting_by_its_values() -> None:
    assert settings(kappa=[1, 1, 2, 2]) == ("kappa",)
    assert settings(zeta=["on", "on", "on", "off"]) == ("zeta",)
    assert settings(hella=[0.3123, 0.3231, 0.3344, 0.3521]) == (), "measured"
    assert settings(who=["a", "b", "c", "d"]) == (), "a name of each shape"
    assert settings(what=["L2-x", "L4-x", "L8-x", "L16-x"]) == ()


def test_columns_that_tell_the_same_runs_apart_are_one() -> None:
    assert settings(batch=[1, 1, 2, 2], batch_tokens=[64, 64, 128, 128]) == ("batch",)
    assert settings(lr=[1, 1, 2, 2], min_lr=[0.1, 0.1, 0.2, 0.2]) == ()


def test_parts_of_a_batch_count_by_their_product() -> None:
    parts: dict[str, list[object]] = {"micro_batch": [8, 8, 4, 4], "grad_accum": [1, 1, 2, 2]}

    assert settings(**parts) == ()
    assert settings(**(parts | {"grad_accum": [1, 1, 1, 2]})) == ("micro_batch x grad_accum",)
    assert settings(micro_batch=[8, 8, 4, 4], total_batch=[64] * 4) == ()
