"""Folders for other frameworks: which shapes they take, and that each is written whole or not."""

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks.answers.trained.exports import trained
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.shape import DEFAULTS
from fathom.search.export.architectures import APART, COMMON, OPTIONS
from fathom.search.export.best import BestShape
from fathom.search.export.formats import FORMATS, model_of, taking_weights, write_folder
from fathom.search.export.weights import write_weights
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving.weights_folder import NOTE, WEIGHTS
from tests.support.trained import LANGUAGE, best_of

RMS, LEARNED, RELU2 = Normalization.RMS, Positions.LEARNED, Activation.RELU2
FITTING: dict[str, dict[str, Any]] = {
    "hf": {"norm": RMS},
    "litgpt": {"norm": RMS, "gated": True, "tied": False, "qk_norm": True, "queries_per_key": 3},
    "nanogpt": {"positions": LEARNED, "d_ff": 96},
    "torchtitan": {"norm": RMS, "gated": True, "queries_per_key": 3},
}
"""A shape that each format takes."""


def written(best: BestShape, name: str, out: Path, weights: Path | None = None) -> list[str]:
    model = model_of(best, name, weights=weights)
    carry = partial(write_weights, model, name, weights) if weights else None
    return write_folder(model, name, out, carry)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hf", {"looped": True}, ("`model.looped: true` (it has false)", "`fathom train`")),
        ("hf", {"residual": Residual.POST}, ("`model.residual: post` (it has pre)",)),
        ("hf", {"embedding_rank": 4}, ("`model.embedding_rank: 4` (it has null)",)),
        ("hf", {"smeared_keys": True, "norm": RMS}, ("`model.smeared_keys: true`", "Arcee")),
        ("hf", {"bidirectional": True}, ("`model.bidirectional: true`",)),
        ("hf", {"groups": 2}, ("`model.groups: 2` (it has 1)", "`fathom train`")),
        ("litgpt", {"groups": 2}, ("`model.groups: 2` (it has 1)",)),
        ("nanogpt", {"groups": 2}, ("`model.groups: 2` (it has 1)",)),
        ("torchtitan", {"groups": 2}, ("`model.groups: 2` (it has 1)",)),
        (
            "litgpt",
            {"activation": RELU2},
            ("`model.feed_forward.activation: relu2` (it has gelu)",),
        ),
        (
            "torchtitan",
            {"norm": RMS, "gated": True, "qk_norm": True},
            ("`model.attention.qk_norm: true` (it has false)",),
        ),
        (
            "nanogpt",
            {"positions": LEARNED, "d_ff": 96, "queries_per_key": 3},
            ("`model.attention.queries_per_key: 3` (it has 1)",),
        ),
        ("hf", {"d_ff": 0}, ("`space.feed_forward: false`",)),
        ("hf", {"gated": True, "biases": True}, ("`model.norm: layer` (it has rms)", "Llama")),
        (
            "nanogpt",
            {"positions": LEARNED, "d_ff": 96, "head_dim": 6},
            ("3 heads of 6 (its heads make up d_model = 24)",),
        ),
        ("hf", {"norm": RMS, "n_heads": 5}, ("5 heads (their number divides d_model = 24)",)),
        ("litgpt", {"positions": LEARNED}, ("`model.positions: learned` (it has rotary or none)",)),
        ("nanogpt", {}, ("`model.positions: rotary` (it has learned)", "d_ff = 40")),
        ("nanogpt", {"positions": LEARNED}, ("d_ff = 40 (it has 4 d_model = 96)",)),
        ("nanogpt", {"positions": LEARNED, "d_ff": 96, "tied": False}, ("`model.tied: false`",)),
        ("torchtitan", {"norm": RMS}, ("`model.gated: false` (it has true)", "Llama 3")),
    ],
)
def test_obstacles_to_an_export_are_named(
    name: str, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        model_of(best_of(**options), name)
    assert all(word in str(caught.value) for word in (f"`--format {name}`", *words)), caught.value
    assert "\n" not in str(caught.value)


def test_an_option_of_which_no_framework_is_said_to_have_another_value_has_its_default() -> None:
    apart = {*OPTIONS, *APART}
    assert apart < {*DEFAULTS}
    assert {name: (DEFAULTS[name],) for name in {*DEFAULTS} - apart} == COMMON


@pytest.mark.parametrize(("name", "options"), [("hf", {}), ("litgpt", {}), ("hf", {"tied": False})])
def test_layer_norm_without_biases_has_two_ways_out(name: str, options: dict[str, Any]) -> None:
    best = best_of(**options)
    with pytest.raises(ConfigError, match=r"`model.norm: layer` .*add `--nearest` .*`model.norm"):
        model_of(best, name)
    found = model_of(best, name, nearest=True)
    assert found.shape.norm is RMS
    assert found.shape.params_total == best.shape.params_total


def test_the_nearest_model_is_marked_and_takes_no_weights(tmp_path: Path) -> None:
    fitting = best_of(biases=True)
    assert model_of(fitting, "hf", nearest=True).shape == fitting.shape
    model = model_of(best_of(), "hf", nearest=True)
    lines = write_folder(model, "hf", tmp_path / "out", None)
    assert any("RMSNorm where the search had layer norm" in line for line in lines)
    assert "RMSNorm where" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(ConfigError, match=r"weights can't be converted .*`model.tied: true`"):
        model_of(best_of(), "hf", nearest=True, weights=Path("trained"))


@pytest.mark.parametrize(
    ("name", "weights", "words"),
    [
        ("llama", False, "must be one of yaml, hf, litgpt, nanogpt, torchtitan, got 'llama'"),
        ("nanogtp", False, "did you mean 'nanogpt'"),
        ("yaml", True, "need another `--format` than yaml"),
        ("torchtitan", True, "takes no `--weights`.*`--format hf`"),
    ],
)
def test_an_impossible_format_is_refused(name: str, weights: bool, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model_of(best_of(norm=RMS, gated=True), name, weights=Path("trained") if weights else None)


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_describes_itself_and_the_next_step(name: str, tmp_path: Path) -> None:
    best = best_of(**FITTING[name])
    lines = written(best, name, tmp_path / "new" / "out")
    assert f"{best.shape.params_total:,} parameters" in lines[0]
    readme = (tmp_path / "new" / "out" / "README.md").read_text()
    assert lines[-1] in readme
    assert str(tmp_path / "new" / "out") in readme
    assert "bytes of UTF-8 text" in readme
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"], "nothing is left beside"


def test_weights_are_exported_only_if_lossless() -> None:
    assert taking_weights(best_of()) == []
    assert taking_weights(best_of(tied=False)) == taking_weights(best_of(norm=RMS))
    assert taking_weights(best_of(norm=RMS)) == ["hf", "litgpt"]
    assert taking_weights(best_of(positions=LEARNED, d_ff=96)) == ["nanogpt"]


def test_weights_bring_the_tokenizer_of_the_text_that_they_were_trained_on(tmp_path: Path) -> None:
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, letters in zip(texts, ("abc ", "xyz "), strict=True):
        path.write_text(letters * 40)
    study, training = (
        best_of(
            norm=RMS,
            vocab_size=5,
            objective=LANGUAGE | {"corpus": str(path), "tokenizer": "chars"},
        )
        for path in texts
    )
    trained(training, tmp_path / "trained")
    written(study, "hf", tmp_path / "with", tmp_path / "trained")
    written(study, "hf", tmp_path / "without")
    vocabularies = [
        json.loads((tmp_path / name / "tokenizer.json").read_text())["model"]["vocab"]
        for name in ("with", "without")
    ]
    assert ["x" in vocabulary for vocabulary in vocabularies] == [True, False]


def test_a_folder_has_a_name_of_its_own_and_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = model_of(best_of(norm=RMS), "hf")
    write_folder(model, "hf", None, None)
    assert (tmp_path / "demo-8k-hf" / "config.json").exists()
    with pytest.raises(ConfigError, match="hf exists already; move it away or choose another"):
        write_folder(model, "hf", None, None)


def test_a_folder_whose_weights_fail_is_not_there_at_all(tmp_path: Path) -> None:
    best = best_of(norm=RMS)
    trained(best, tmp_path / "trained")
    (tmp_path / "trained" / WEIGHTS).write_bytes(b"no weights")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(ConfigError, match="weights"):
        written(best, "hf", tmp_path / "out", tmp_path / "trained")
    assert [path.name for path in tmp_path.iterdir()] == ["trained"]


@pytest.mark.parametrize(
    "other",
    ["text", torch.zeros(24, dtype=torch.int32), torch.zeros(24, device="meta"),
     torch.zeros(24).to_sparse()],
)  # fmt: skip
def test_what_no_weight_can_be_is_refused(other: object, tmp_path: Path) -> None:
    best = best_of(norm=RMS)
    state = trained(best, tmp_path / "trained").state_dict()
    assert state["final_norm.weight"].shape == (24,)
    torch.save(state | {"final_norm.weight": other}, tmp_path / "trained" / WEIGHTS)
    with pytest.raises(ConfigError, match="does not hold the weights that `fathom train` writes"):
        written(best, "hf", tmp_path / "out", tmp_path / "trained")


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    trained(best_of(norm=RMS, n_heads=6, head_dim=4), tmp_path / "trained")
    with pytest.raises(
        ConfigError, match=r"3 heads of 8, got .*6 heads of 4; .*choose another with --params"
    ):
        written(best_of(norm=RMS), "hf", tmp_path / "out", tmp_path / "trained")


def test_weights_are_found_by_their_folder_or_their_file_and_need_their_description(
    tmp_path: Path,
) -> None:
    best, sources = best_of(norm=RMS), (tmp_path / "trained", tmp_path / "trained" / WEIGHTS)
    trained(best, tmp_path / "trained")
    for name, source in zip(("one", "two"), sources, strict=True):
        written(best, "hf", tmp_path / name, source)
    by_folder, by_file = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert by_folder.read_bytes() == by_file.read_bytes()
    (tmp_path / "trained" / NOTE).unlink()
    for source in (*sources, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"training.yaml must say what was trained"):
            written(best, "hf", tmp_path / "out", source)


@pytest.mark.parametrize(
    ("name", "file", "part"), [("litgpt", "lit_model.pth", None), ("nanogpt", "ckpt.pt", "model")]
)
def test_every_weight_arrives(name: str, file: str, part: str | None, tmp_path: Path) -> None:
    best = best_of(**FITTING[name])
    trained(best, tmp_path / "trained")
    written(best, name, tmp_path / "out", tmp_path / "trained")
    content = torch.load(tmp_path / "out" / file, weights_only=True)
    weights = content[part] if part else content
    sizes = {weight.data_ptr(): weight.numel() for weight in weights.values()}
    assert sum(sizes.values()) == best.shape.params_total


def test_litgpt_reads_the_sizes_and_ties_by_its_own_setting(tmp_path: Path) -> None:
    best = best_of(norm=RMS)
    written(best, "litgpt", tmp_path / "out")
    config = yaml.safe_load((tmp_path / "out" / "model_config.yaml").read_text())
    assert config["norm_class_name"] == "RMSNorm"
    assert (config["padded_vocab_size"], config["intermediate_size"]) == (256, 40)
    training = yaml.safe_load((tmp_path / "out" / "pretrain.yaml").read_text())
    assert training["model_config"] == config
    assert training["train"]["tie_embeddings"] is True
    assert training["train"]["max_tokens"] == 160_000


def test_nanogpt_gets_its_settings_and_the_size_of_the_vocabulary(tmp_path: Path) -> None:
    best = best_of(**FITTING["nanogpt"])
    written(best, "nanogpt", tmp_path / "out")
    settings: dict[str, Any] = {}
    exec((tmp_path / "out" / "train_fathom.py").read_text(), settings)
    assert (settings["n_layer"], settings["n_head"], settings["n_embd"]) == (3, 3, 24)
    assert settings["block_size"] == 16
    assert settings["bias"] is False
    meta = pickle.loads((tmp_path / "out" / "meta.pkl").read_bytes())
    assert meta == {"vocab_size": 256}


def test_torchtitan_gets_a_module_of_its_own_parts(tmp_path: Path) -> None:
    best = best_of(**FITTING["torchtitan"])
    written(best, "torchtitan", tmp_path / "out")
    source = (tmp_path / "out" / "fathom_llama3.py").read_text()
    compile(source, "fathom_llama3.py", "exec")
    assert "DEPTH, D_MODEL, D_FF = 3, 24, 40" in source
    assert "TIED = 256, 16, True" in source
