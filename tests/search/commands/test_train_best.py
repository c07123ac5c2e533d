"""`fathom train`: progress, another corpus, and going on after Ctrl-C."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.objectives.contract import Batch
from fathom.objectives.text.language.objective import Language
from fathom.search.commands.train_best import train_best
from fathom.search.export.best import BestShape
from fathom.search.run_folder import ENDING
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import study_of
from fathom.search.study.planning.plan import vocab_size_of
from fathom.search.study.planning.space.shape_space import ShapeLimits
from fathom.search.training.saving import trial_log
from fathom.search.training.saving.weights_folder import WEIGHTS
from tests.support.trained import LANGUAGE, best_of

TEXT = "The quick brown fox jumps over the lazy dog, again and again. "


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT * 40)
    (tmp_path / "other.txt").write_text("1234567890 " * 200)
    return path


@pytest.fixture
def best(corpus: Path) -> BestShape:
    return best_of(objective=LANGUAGE | {"corpus": str(corpus), "tokenizer": "bytes"})


def said_by(best: BestShape, out: Path, *, tokens: str = "2k", corpus: str | None = None) -> str:
    said: list[str] = []
    train_best(best, tokens=tokens, corpus=corpus, out=out, say=said.append)
    return "\n".join(said)


def losses(said: str) -> list[str]:
    return [line.split("  ")[3] for line in said.splitlines()[1:-2]]


def test_it_prints_its_speed_and_its_result(best: BestShape, tmp_path: Path) -> None:
    said = said_by(best, tmp_path / "out").splitlines()
    shape = f"depth 3, d_model 24, d_ff 40, {best.shape.params_total:,} parameters"
    assert said[0] == f"{shape}: 2,000 tokens on the CPU, threads: 1"
    assert all("tokens/s" in line and "left" in line for line in said[1:-2])
    assert "100%" in said[-3]
    assert "held-out loss" in said[-2]
    assert "bits per byte, after 2,000 tokens in" in said[-2]
    assert "rank_ratio" not in said[1]


def test_a_text_that_is_not_to_be_seen_from_here_is_answered_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    best = best_of(objective=LANGUAGE | {"corpus": "texts/mine.txt", "tokenizer": "bytes"})
    with pytest.raises(ConfigError, match=r"'texts/mine.txt', is not found from .*--data"):
        said_by(best, tmp_path / "out")


def test_a_text_that_was_cut_before_is_not_cut_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = LANGUAGE | {"corpus": str(corpus), "tokenizer": "bpe:260"}
    best, cache = best_of(objective=objective, vocab_size=260), tmp_path / "runs" / ".tokens"

    def weights(out: str) -> Path:
        return train_best(
            best, tokens="500", out=tmp_path / out, cache=cache, say=lambda _line: None
        )

    first = torch.load(weights("first"))
    monkeypatch.setattr("fathom.objectives.text.language.cache.encode", None)
    again = torch.load(weights("again"))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_auto_sizing_leaves_zeros_and_says_how_much_is_left(corpus: Path, tmp_path: Path) -> None:
    best = best_of(
        objective=LANGUAGE | {"corpus": str(corpus), "tokenizer": "bytes"},
        train={"auto_sizing": {"strength": 0.5}, "learning_rate": 0.01},
    )
    out = tmp_path / "out"
    said = said_by(best, out, tokens="20k").splitlines()
    assert "neurons_left" in said[1]
    assert "by_layer" not in said[1]
    state = torch.load(out / WEIGHTS)
    assert any((weight == 0).all(1).any() for name, weight in state.items() if ".into." in name)


def test_ctrl_c_loses_no_printed_progress(
    best: BestShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "REPORT_SECONDS", 0.0)
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_best(best, tokens="2k", out=tmp_path / "cut", say=interrupt)
    rest = said_by(best, tmp_path / "cut")
    whole = said_by(best, tmp_path / "whole")

    assert losses(rest) == losses(whole)
    assert [line.split("  ")[3] for line in said[1:]] == losses(whole)[:3]
    cut, uncut = (torch.load(tmp_path / name / "weights.pt") for name in ("cut", "whole"))
    assert all(torch.equal(cut[name], uncut[name]) for name in uncut)


Change = Callable[[dict[str, Any]], object]
FORGED: dict[str, Change] = {
    "steps beyond the last": lambda state: state["training"].update(step=10**9),
    "no step": lambda state: state["training"].update(step="x"),
    "no seconds": lambda state: state["training"].update(train_seconds=None),
    "a point of text": lambda state: state["points"][0].update(loss="x"),
    "a point of other tokens": lambda state: state["points"][0].update(tokens=10**30),
    "a moment without numbers": lambda state: moments(state).update(
        exp_avg=moments(state)["exp_avg"].to("meta")
    ),
    "no layers": lambda state: state.update(layers=None),
    "a moment of another shape": lambda state: moments(state).update(exp_avg=torch.zeros(3)),
    "a moment of a huge shape": lambda state: moments(state).update(
        exp_avg=torch.zeros(1, dtype=torch.half).expand(10**6, 10**6)
    ),
    "a moment that is missing": lambda state: moments(state).pop("exp_avg"),
}


def moments(state: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = state["training"]["optimizer"]["state"][0]
    return found


@pytest.mark.parametrize("forged", FORGED)
def test_a_checkpoint_that_was_changed_is_not_used(
    best: BestShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    monkeypatch.setattr(trial_log, "REPORT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        train_best(best, tokens="500", out=tmp_path / "cut", say=stop_at_the_third_line())
    path = tmp_path / "cut" / "checkpoint.pt"
    state = torch.load(path)
    FORGED[forged](state)
    torch.save(state, path)
    with pytest.warns(UserWarning, match="a checkpoint is damaged and is not used"):
        again = said_by(best, tmp_path / "cut", tokens="500")
    assert losses(again) == losses(said_by(best, tmp_path / "whole", tokens="500"))


def stop_at_the_third_line() -> Callable[[str], None]:
    said: list[str] = []

    def stop(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            raise KeyboardInterrupt

    return stop


def test_sigterm_saves_the_step_under_way_between_evaluations(
    best: BestShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "INTERRUPT_POLL_SECONDS", 0.0)
    batch, asked, said = Language.batch, [10], list[str]()

    def interrupting(self: Language, *, seed: int, step: int, batch_size: int) -> Batch:
        if step in asked:
            asked.remove(step)
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(self, seed=seed, step=step, batch_size=batch_size)

    monkeypatch.setattr(Language, "batch", interrupting)
    with pytest.raises(KeyboardInterrupt):
        train_best(best, tokens="2k", out=tmp_path / "cut", say=said.append)
    assert said.count("Ending: the training saves where it stands; Ctrl-C again ends at once") == 1
    state = torch.load(tmp_path / "cut" / "checkpoint.pt", weights_only=True)
    assert state["training"]["step"] == 11, "the step under way is the last"
    assert not (tmp_path / "cut" / ENDING).exists()
    rest, whole = said_by(best, tmp_path / "cut"), said_by(best, tmp_path / "whole")
    assert losses(rest) == losses(whole)


def test_another_corpus_is_trained_on_if_it_suits_the_shape_and_takes_another_folder(
    best: BestShape, corpus: Path, tmp_path: Path
) -> None:
    plain, other = said_by(best, tmp_path / "plain"), str(tmp_path / "other.txt")
    assert said_by(best, tmp_path / "other", corpus=other) != plain
    with pytest.raises(ConfigError, match="holds another training"):
        said_by(best, tmp_path / "other")
    chars = LANGUAGE | {"corpus": str(corpus), "tokenizer": "chars"}
    with pytest.raises(
        ConfigError, match=r"the shape's 28 token ids, but that of .*other.txt' by `chars` has 12"
    ):
        said_by(best_of(objective=chars, vocab_size=28), tmp_path / "out", corpus=other)
    with pytest.raises(ValueError, match="nowhere"):
        said_by(best, tmp_path / "out", corpus="nowhere.txt")
    hop = best_of(objective={"name": "hop", "context": 16})
    with pytest.raises(ConfigError, match=r"`--data` needs .*`objective: language`, got `hop`"):
        said_by(hop, tmp_path / "out", corpus="stdlib")
    assert not (tmp_path / "out").exists()


def test_translations_of_the_test_pairs_are_beside_the_weights(tmp_path: Path) -> None:
    rules = {"pairs": 200, "nesting": 0, "nouns": 5, "verbs": 4}
    objective = {"name": "translation", "generated": rules, "context": 8}
    sizes = {"space": {"depth": [2, 2], "split": "1-1"}, "budgets": ["8k"]}
    config = study_of({"study": "s", "objective": objective, "count": "non_embedding", **sizes})
    shape = ShapeLimits.of(config, vocab_size_of(config.objective)).shape(
        depth=2, d_model=16, d_ff=32
    )
    said = said_by(BestShape(config, 8_000, shape), tmp_path / "out", tokens="4k")

    assert "bleu/beam" in said
    outputs = (tmp_path / "out" / "test.output").read_text().splitlines()
    assert len(outputs) == len((tmp_path / "out" / "test.reference").read_text().splitlines()) > 0
    assert "tok:13a" in (tmp_path / "out" / "test.scores").read_text()
