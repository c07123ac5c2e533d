import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.corpus import Corpus
from fathom.objectives.text.encode import PIECE_BYTES, encode, id_type
from fathom.objectives.text.tokenizer import count_ids
from tests.support.command_line import run
from tests.support.places import ROOT

TEXT = Path(__file__).read_bytes()


def split_of(train: str, validation: str) -> Corpus:
    return Corpus(train=train.encode(), validation=validation.encode())


def test_bytes_are_their_own_ids() -> None:
    ids = encode(split_of("héllo", "\U0001f600"), tokenizer="bytes")
    assert bytes(ids.train) == "héllo".encode()
    assert bytes(ids.validation) == "\U0001f600".encode()
    assert ids.vocab_size == 256
    assert ids.train.dtype == np.uint8


def test_characters_are_numbered_in_order_and_unseen_ones_share_the_last_id() -> None:
    ids = encode(split_of("cabé\U0001f600", "abzé?"), tokenizer="chars")
    assert ids.train.tolist() == [2, 0, 1, 3, 4]
    assert ids.validation.tolist() == [0, 1, 5, 3, 5]
    assert ids.vocab_size == 6


@given(st.text(min_size=1))
def test_training_text_can_be_told_from_its_characters(text: str) -> None:
    ids = encode(split_of(text, text), tokenizer="chars")
    alphabet = sorted(set(text))
    assert "".join(alphabet[token] for token in ids.train) == text


def test_byte_pairs_shorten_text_and_learn_from_the_training_split_only() -> None:
    train = "the cat sat on the mat. " * 20
    ids = encode(split_of(train, "zqzqzqzqzq" * 9), tokenizer="bpe:265")
    other = encode(split_of(train, "the mat the cat"), tokenizer="bpe:265")
    assert ids.train.tolist() == other.train.tolist()
    assert len(ids.train) < len(train)
    assert len(ids.validation) == 90, "a pair of the validation split must stay two bytes"
    assert ids.train.max() < ids.vocab_size == 265


def test_byte_pairs_hold_every_text_even_of_characters_never_seen() -> None:
    ids = encode(split_of("ascii only, ascii only", "日本語 \U0001f600"), tokenizer="bpe:258")
    assert len(ids.validation) == len("日本語 \U0001f600".encode())


def test_texts_longer_than_one_piece_are_encoded_whole() -> None:
    long = TEXT.decode() * (3 * PIECE_BYTES // len(TEXT) + 1)
    ids = encode(split_of(TEXT.decode(), long), tokenizer="bpe:300")
    short = encode(split_of(TEXT.decode(), TEXT.decode()), tokenizer="bpe:300")
    repeats = len(long) / len(TEXT.decode())
    assert len(ids.validation) == pytest.approx(repeats * len(short.validation), rel=1e-4)


def test_byte_pairs_are_the_same_in_every_process_with_any_number_of_threads() -> None:
    code = (
        "import hashlib, sys; from pathlib import Path;"
        "from fathom.objectives.text.corpus import Corpus;"
        "from fathom.objectives.text.encode import encode;"
        "text = Path(sys.argv[1]).read_bytes();"
        "ids = encode(Corpus(train=text, validation=text), tokenizer='bpe:600');"
        "print(hashlib.sha256(ids.train.tobytes()).hexdigest())"
    )
    sums = {
        run(
            *(sys.executable, "-c", code, __file__),
            cwd=ROOT,
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
        ).stdout
        for threads in ("1", "2", "5")
    }
    assert all(sums)
    assert len(sums) == 1


def test_more_ids_than_the_text_supports_are_refused_with_the_most_it_does() -> None:
    with pytest.raises(ObjectiveError, match="got bpe:5000 where it supports") as caught:
        encode(split_of("abab abab abab", "abab"), tokenizer="bpe:5000")
    most = str(caught.value).split("use ")[1].split()[0]
    assert encode(split_of("abab abab abab", "abab"), tokenizer=most).vocab_size > 256


def test_ids_take_the_smallest_type_that_holds_the_largest() -> None:
    types = [(256, np.uint8), (257, np.int16), (32_768, np.int16), (32_769, np.int32)]
    for size, kind in types:
        assert id_type(size) is kind
        assert np.iinfo(id_type(size)).max >= size - 1


WRONG = {
    "words": "must be bytes, chars or bpe:N, for example bpe:1024, got 'words'",
    "bpe:256": "N > 256, the bytes alone, got 'bpe:256'; use bpe:257",
    **{name: f"got '{name}'" for name in ("bpe", "bpe:", "bpe:1e3", "bpe:-5", "bpe:²")},
    **{name: f"got '{name}'" for name in ("bytes:9", "Bytes")},
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_tokenizer_is_refused_with_the_valid_ones(name: str) -> None:
    with pytest.raises(ObjectiveError, match=WRONG[name]):
        count_ids(corpus="stdlib", tokenizer=name, validation_fraction=0.1)
    with pytest.raises(ObjectiveError, match=WRONG[name]):
        encode(split_of("text", "text"), tokenizer=name)


def test_a_vocabulary_is_sized_as_it_will_be_encoded(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(TEXT)
    cut = int(0.75 * len(TEXT))
    split = Corpus(train=TEXT[:cut], validation=TEXT[cut:])
    for tokenizer in ("bytes", "chars", "bpe:290"):
        size = count_ids(corpus=str(file), tokenizer=tokenizer, validation_fraction=0.25)
        assert size == encode(split, tokenizer=tokenizer).vocab_size


def test_a_vocabulary_of_a_missing_corpus_is_refused_without_reading() -> None:
    for tokenizer in ("bytes", "chars", "bpe:300"):
        with pytest.raises(ObjectiveError, match=r"got 'missing\.txt'"):
            count_ids(corpus="missing.txt", tokenizer=tokenizer, validation_fraction=0.1)
