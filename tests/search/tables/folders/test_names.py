"""Settings in the names of files and folders."""

import pytest

from fathom.search.tables.folders.names import settings_in


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("d8_w512_seed1", {"depth": "8", "d_model": "512", "seed": "1"}),
        ("depth=8,lr=0.01", {"depth": "8", "learning_rate": "0.01"}),
        ("L12-D768-s3", {"depth": "12", "d_model": "768", "seed": "3"}),
        ("12L-768d", {"depth": "12", "d_model": "768"}),
        ("n_layer=8_n_embd=512_seed=2", {"depth": "8", "d_model": "512", "seed": "2"}),
        ("layers_8_width_512", {"depth": "8", "d_model": "512"}),
        ("gpt2_params124M_d12_lr3e-4_wd0.1",
         {"params_total": "124M", "depth": "12", "learning_rate": "3e-4", "weight_decay": "0.1"}),
        ("train_fn_1a2b_00003_3_depth=8,lr=0.0100_2026-11-01_10-00-00",
         {"depth": "8", "learning_rate": "0.0100"}),
        ("model.n_layer=8,data=fine_web,adam_beta2=0.95",
         {"depth": "8", "data": "fine_web", "adam_beta2": "0.95"}),
        ("baseline_10layer_d512", {"depth": "10", "d_model": "512"}),
        ("shared_4x5_d512", {"depth": "4", "d_model": "512", "loops": "5"}),
        ("gpt_12x768_seed2", {"depth": "12", "d_model": "768", "seed": "2"}),
        ("768x12", {"depth": "12", "d_model": "768"}),
        ("run_2x8", {}),
        ("version_3", {}),
        ("2026-11-01_10-00-00", {}),
        ("a1b2c3d4", {}),
    ],
)  # fmt: skip
def test_a_name_has_settings_as_people_write_them(name: str, settings: dict[str, str]) -> None:
    assert settings_in([name]) == settings


def test_a_file_holds_before_the_folders_above_it() -> None:
    assert settings_in(["sweep_seed1", "d4", "d8.5_seed2"]) == {"seed": "2", "depth": "8.5"}
