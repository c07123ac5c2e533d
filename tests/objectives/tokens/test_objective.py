"""Windows of token ids in files: the same as those of a text in memory, each token once."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fathom.objectives.contract import content_digest_of
from fathom.objectives.errors import ObjectiveError, UnseenDataError
from fathom.objectives.next_token import NextToken
from fathom.objectives.prepare import prepare
from fathom.objectives.tokens import ranges
from fathom.objectives.tokens.keys import TokensConfig
from fathom.objectives.tokens.objective import Tokens
from fathom.search.training.ranks.data_parallel import Ranks
from tests.support.objectives import CPU, keys_of

CONTEXT = 8
IDS = np.arange(5000, dtype=np.uint32)


def write(folder: Path, ids: NDArray[Any] = IDS, parts: int = 3) -> Path:
    for number, part in enumerate(np.array_split(ids, parts)):
        np.save(folder / f"ids-{number}.npy", part)
    return folder


def unplaced(folder: Path, **keys: Any) -> Any:
    given = {"vocabulary": 5000, "context": CONTEXT, "eval_tokens": 80}
    return prepare(keys_of("tokens", train=str(folder), **given | keys))


def tokens(folder: Path, **keys: Any) -> Tokens:
    task: Tokens = unplaced(folder, **keys).to(CPU)
    return task


def in_memory(task: Tokens, ids: NDArray[Any], held_out: int) -> NextToken:
    """The same text in memory."""
    return NextToken(
        train=ids[:-held_out].astype(np.int32),
        validation=ids[-held_out:].astype(np.int32),
        vocab_size=task.vocab_size,
        context=CONTEXT,
        eval_windows=task.eval_windows,
        tokens_per_byte=None,
    ).to(CPU)


def test_batches_and_evaluations_are_those_of_the_text_in_memory(tmp_path: Path) -> None:
    task = tokens(write(tmp_path))
    other = in_memory(task, IDS, held_out=50)
    table = torch.nn.Embedding(5000, 5000)
    for step in (0, 1, 2, 90, 7):
        for seed in (3, 4):
            found, wanted = (
                objective.batch(seed=seed, step=step, batch_size=9) for objective in (task, other)
            )
            assert torch.equal(found.inputs, wanted.inputs)
            assert torch.equal(found.targets, wanted.targets)
    assert task.evaluate(table) == other.evaluate(table)


def test_two_workers_a_resumed_trial_and_a_group_see_the_same_batches(tmp_path: Path) -> None:
    write(tmp_path)
    sent = pickle.dumps(unplaced(tmp_path))
    first, second = (pickle.loads(sent).to(CPU) for _ in range(2))
    straight = [first.batch(seed=5, step=step, batch_size=6) for step in range(20)]
    resumed = [second.batch(seed=5, step=step, batch_size=6) for step in range(13, 20)]
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(straight[13:], resumed, strict=True))
    parts = [
        Ranks(rank, 3).local_batch(pickle.loads(sent).to(CPU).batch(seed=5, step=4, batch_size=6))
        for rank in range(3)
    ]
    assert torch.equal(torch.cat([part.targets for part in parts]), straight[4].targets)


def test_no_token_travels_with_the_objective(tmp_path: Path) -> None:
    for size in (10_000, 1_000_000):
        np.zeros(size, np.uint16).tofile(tmp_path / "ids.bin")
        assert len(pickle.dumps(unplaced(tmp_path / "ids.bin", vocabulary=9))) < 4000


def test_the_last_part_is_held_out_and_counts_no_bytes(tmp_path: Path) -> None:
    task = tokens(write(tmp_path), validation_fraction=0.2, eval_tokens=10**6)
    assert (len(task.train), len(task.validation)) == (4000, 1000)
    seen = task.batch(seed=0, step=0, batch_size=499).inputs
    assert int(seen.max()) < 4000
    assert set(task.evaluate(torch.nn.Embedding(5000, 5000))) == {"loss"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"vocabulary": None}, "`tokenizer` must name the tokenizer.json"),
        ({"vocabulary": 4999}, r"below the size of the vocabulary, 4999, got 4999 in .*ids-2\.npy"),
        ({"context": 4000, "eval_tokens": 4000}, "both splits must be longer than `context`"),
        ({"validation_fraction": 0.001}, "got 5 tokens of validation"),
        ({"tokenizer": "nothing.json"}, "must be a tokenizer.json, got No such file"),
        ({"validation": "nothing"}, "must lie in a file, a folder or a glob"),
        ({"ids": np.where(IDS % 2 == 0, 5, -100)}, "got -100 in"),
    ],
)
def test_what_does_not_suit_is_one_line(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = dict(keys)
    with pytest.raises(ObjectiveError, match=message):
        tokens(write(tmp_path, given.pop("ids", IDS)), **given)


def test_a_wrong_id_that_no_sample_saw_fails_the_step_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "WHOLE_TOKENS", 1000)
    ids = np.zeros(10**5, np.uint16)
    ids[12_345] = 999
    task = tokens(write(tmp_path, ids), vocabulary=10)
    with pytest.raises(ObjectiveError, match=r"got 999 in .* \(token 12,345 of the data\)"):
        task.batch(seed=0, step=0, batch_size=len(task.train) // CONTEXT - 1)


def test_a_machine_without_the_files_is_named(tmp_path: Path) -> None:
    task = unplaced(write(tmp_path))
    (tmp_path / "ids-1.npy").write_bytes(b"less")
    with pytest.raises(UnseenDataError, match=r"every node must see .*ids-1\.npy, .* \(4 bytes"):
        task.to(CPU)
    (tmp_path / "ids-1.npy").unlink()
    with pytest.raises(UnseenDataError, match="No such file") as error:
        task.to(CPU)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_every_machine_that_trains_must_see_all_files_whole(tmp_path: Path) -> None:
    task = tokens(write(tmp_path))
    found = TokensConfig(
        name="tokens", train=str(tmp_path), vocabulary=task.vocab_size, context=CONTEXT
    ).files_on_nodes()
    assert found == {
        str(tmp_path / f"ids-{n}.npy"): (tmp_path / f"ids-{n}.npy").stat().st_size for n in range(3)
    }


def test_a_file_cut_short_while_training_fails_with_the_reason(tmp_path: Path) -> None:
    task = tokens(write(tmp_path))
    (tmp_path / "ids-0.npy").write_bytes(b"")
    with pytest.raises(ObjectiveError, match="has been cut short; copy it again"):
        task.batch(seed=0, step=0, batch_size=500)


def test_the_digest_of_every_byte_ignores_times_which_the_quick_one_heeds(tmp_path: Path) -> None:
    task = tokens(write(tmp_path, np.zeros(10**6, np.uint16)))
    quick, first = task.data_digest, content_digest_of(task, lambda: False)
    file = tmp_path / "ids-1.npy"
    assert first
    assert tokens(tmp_path).data_digest == quick
    file.touch()
    assert tokens(tmp_path).data_digest != quick
    assert content_digest_of(task, lambda: False) == first
    with file.open("r+b") as opened:
        opened.seek(123_457)
        opened.write(b"\1")
    assert content_digest_of(task, lambda: False) != first
    assert content_digest_of(task, lambda: True) is None


def test_the_tokenizer_is_named_or_lies_beside_the_shards(tmp_path: Path) -> None:
    def file_of(**keys: Any) -> Path | None:
        found = keys_of("tokens", train=str(tmp_path), **keys)
        assert isinstance(found, TokensConfig)
        return found.tokenizer_file

    assert file_of() is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert file_of() == tmp_path / "tokenizer.json"
    assert file_of(tokenizer="/other.json") == Path("/other.json")
