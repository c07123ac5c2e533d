"""examples/buy_trainings.py: a program that knows the schema alone buys trainings."""

from pathlib import Path

from examples.buy_trainings import buy


def test_it_buys_until_the_depth_is_settled(tmp_path: Path) -> None:
    found = buy(tmp_path / "runs.csv", money=1e18)

    assert found["verdict"]["settled"]
    low, high = found["answer"]["interval"]
    assert low <= 9 <= high
    assert 0 < found["money_left"] < 1e18


def test_it_ends_when_the_money_is_gone(tmp_path: Path) -> None:
    found = buy(tmp_path / "runs.csv", money=1.5e16)

    assert not found["verdict"]["settled"]
    assert found["next"][0]["price"]["flops"] > found["money_left"] >= 0
