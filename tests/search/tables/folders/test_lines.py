"""What lines of logs say."""

import pytest

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.lines import common_pairs, pattern_pairs


@pytest.mark.parametrize(
    ("line", "pairs"),
    [
        ("step 100 | loss 3.21", {"step": 100, "loss": 3.21}),
        ("step=100 loss=3.21", {"step": 100, "loss": 3.21}),
        ('{"step": 100, "loss": 3.21, "tag": null}', {"step": 100, "loss": 3.21}),
        ("step 250: train loss 4.0, val loss 4.1",
         {"step": 250, "train_loss": 4.0, "val_loss": 4.1}),
        ("iter 10: loss 5.0, time 120.00ms, mfu 3.10%", {"iter": 10, "loss": 5.0}),
        ("step:125/1750 val_loss:4.6234 train_time:20000ms", {"step": 125, "val_loss": 4.6234}),
        ("2026-11-01 10:00:00,123 INFO step 7 | loss 1e-1", {"step": 7, "loss": 0.1}),
        ("[rank0] step:  1  \x1b[32mloss: 12.27\x1b[39m", {"step": 1, "loss": 12.27}),
        ("Epoch [1/10], Step [100/500], Loss: 2.3", {"Epoch": 1, "step": 100, "loss": 2.3}),
        ("{'eval_loss': 3.1, 'epoch': 1.0}", {"eval_loss": 3.1, "epoch": 1.0}),
        ("[eval] step 100 loss 3.2", {"step": 100, "val_loss": 3.2}),
        ("eval step 100 loss 3.2", {"step": 100, "val_loss": 3.2}),
        ('{"split": "val", "step": 1, "loss": 3.2}', {"split": "val", "step": 1, "val_loss": 3.2}),
        (" iteration  100/  5000 | learning rate: 1.5E-04 | lm loss: 6.5E+00 | loss scale: 1.0 |",
         {"iteration": 100, "learning_rate": 1.5e-4, "lm_loss": 6.5, "loss_scale": 1.0}),
        (" validation loss at iteration 100 | lm loss value: 3.3E+00 | lm loss PPL: 2.7E+01 |",
         {"iteration": 100, "val_loss": 3.3, "lm_loss_ppl": 27.0}),
        ("09:00 | INFO | valid | epoch 001 | loss 5.6 | ppl 17 | num_updates 1000",
         {"epoch": 1, "val_loss": 5.6, "ppl": 17, "num_updates": 1000}),
        ("Step 00250 | Validation bpb: 1.1", {"step": 250, "validation_bpb": 1.1}),
        ("step 10 | aux loss 0.1", {"step": 10, "aux_loss": 0.1}),
        ("step 1,000: tokens 1,234,567", {"step": 1000, "tokens": 1234567}),
        ("number of parameters: 10.65M", {"number_of_parameters": "10.65M"}),
        ("progress 50% of loss", {}),
        ("nothing at all", {}),
        ("{broken", {}),
    ],
)  # fmt: skip
def test_numbers_have_the_names_before_them(line: str, pairs: dict[str, object]) -> None:
    assert dict(common_pairs(line)) == pairs


@pytest.mark.parametrize("line", ["step 5 loss nan", "step 5 loss=NaN", '{"step": 5, "loss": NaN}'])
def test_a_loss_that_is_no_number_is_one_that_was_measured(line: str) -> None:
    loss = dict(common_pairs(line))["loss"]
    assert loss != loss


@pytest.mark.parametrize("text", ["a" * 60_000, "a " * 30_000, "1," * 30_000, "a=" * 30_000])
def test_no_text_is_read_without_end(text: str) -> None:
    assert not common_pairs(text)


def test_a_pattern_has_its_groups() -> None:
    read = pattern_pairs([r"it (?P<step>\d+) nll (?P<loss>\S+)", r"(?P<params>\S+) weights"])
    assert read("it 20 nll 3.5; done") == [("step", "20"), ("loss", "3.5")]
    assert read("10M weights") == [("params", "10M")]
    assert read("nothing") == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "must be a regular expression"), ("loss", "must name what it finds"),
     ("(?P<loss>a{99999999999})", "must be a regular expression")],
)  # fmt: skip
def test_a_pattern_that_is_none_is_one_line(pattern: str, message: str) -> None:
    with pytest.raises(TableError, match=message) as error:
        pattern_pairs([pattern])
    assert "for example --line" in str(error.value)
