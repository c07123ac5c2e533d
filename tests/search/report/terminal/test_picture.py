"""Loss against depth in characters: `search/report/terminal/picture.py`."""

import io

import pytest
from rich.console import Console

from fathom.search.analysis.answer.interim import DepthLoss
from fathom.search.report.terminal.picture import (
    LEAST_HEIGHT,
    DepthPicture,
    draw,
    pictures,
    sparkline,
)

LOSSES = tuple(
    DepthLoss(depth, loss, 0.01, depth != 6)
    for depth, loss in ((1, 2.9), (2, 2.2), (3, 2.0), (4, 2.05), (6, 2.1))
)
TITLE = "80k: depth 3 [2-4]"
PICTURE = DepthPicture(TITLE, LOSSES, lambda depth: 2 + abs(depth - 3) / 10, (2, 4), 3)


def lines(picture: DepthPicture, width: int = 40, height: int = 9) -> list[str]:
    return draw(picture, width, height).plain.split("\n")


@pytest.mark.parametrize(("width", "height"), [(38, LEAST_HEIGHT), (48, 9), (60, 12)])
def test_a_picture_has_the_size_that_was_asked_for(width: int, height: int) -> None:
    drawn = lines(PICTURE, width, height)
    assert len(drawn) == height
    assert max(map(len, drawn)) <= width


def test_a_title_is_cut_between_words() -> None:
    long = DepthPicture(f"{TITLE}, identified", LOSSES, None, None, 3)
    assert lines(long, 25)[0].rstrip() == "80k: depth 3 [2-4]"


def test_every_depth_has_a_point_and_a_forecast_is_hollow() -> None:
    *rows, axis, depths = lines(PICTURE)[1:]
    body = "".join(rows)
    assert depths.split() == ["1", "2", "3", "4", "6"]
    assert (body.count("●"), body.count("○"), body.count("▲")) == (3, 1, 1), "depth 1 is far above"
    assert axis.count("┻") == 1
    place = axis.index("┻")
    assert depths[place] == "3"
    assert axis[depths.index("2")] == axis[depths.index("4")] == "━"
    assert axis[depths.index("1")] == axis[depths.index("6")] == "─"
    assert rows[-1][place] == "●", "the lowest loss stands at the bottom"


def test_two_depths_of_equal_loss_can_be_drawn() -> None:
    flat = tuple(DepthLoss(depth, 2.0, 0.0, True) for depth in (1, 2))
    assert "●" in "".join(lines(DepthPicture("flat", flat, None, None, None)))


@pytest.mark.parametrize(("width", "rows"), [(50, 3), (80, 2), (120, 1)])
def test_pictures_stand_side_by_side_as_far_as_there_is_room(width: int, rows: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(pictures([PICTURE] * 3, width))
    drawn = capture.get().splitlines()
    assert sum("80k" in line for line in drawn) == rows
    assert max(map(len, drawn)) <= width


def test_a_sparkline_goes_from_the_highest_to_the_lowest_loss() -> None:
    assert sparkline([3.0, 2.5, 2.0], 12) == "█▅▁"
    assert len(sparkline([3.0 - 0.1 * step for step in range(20)], 12)) == 12
    assert sparkline([3.0], 12) == "", "one evaluation shows nothing"
    assert sparkline([3.0, float("nan"), 2.0], 12) == "█▁"
