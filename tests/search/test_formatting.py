"""Numbers are written as people write them, and commands as a shell reads them."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.objectives.keys import parse_count
from fathom.search.formatting import (
    exact_count,
    format_bytes,
    format_count,
    format_hours,
    format_seconds,
    ranges,
    rounded_count,
    shell_command,
    visible,
)


@given(st.integers(1, 999), st.sampled_from(["", "k", "M", "B", "T"]))
def test_short_counts_survive_a_round_trip(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert format_count(parse_count(text)) == text


@given(st.integers(1, 10**15 - 1))
def test_a_formatted_count_is_right_to_three_digits_after_the_point(number: int) -> None:
    text = format_count(number)
    assert parse_count(text) == pytest.approx(number, rel=0.0006)
    assert len(text) <= 8


@pytest.mark.parametrize(
    ("number", "text"),
    [(999, "999"), (1000, "1k"), (1_234_567, "1.235M"), (999_999, "999.999k"), (0.5, "0.5")],
)
def test_counts_are_written_short(number: float, text: str) -> None:
    assert format_count(number) == text


@given(st.integers(1, 10**15 - 1))
def test_an_exact_count_reads_back_as_the_same_number(number: int) -> None:
    assert parse_count(exact_count(number)) == number


def test_an_exact_count_is_short_where_that_is_exact() -> None:
    assert [exact_count(n) for n in (999, 1_234_000, 1_234_567)] == ["999", "1.234M", "1234567"]


def test_a_rounded_count_has_three_digits() -> None:
    numbers = (12, 1_234_567, 2_000_896, 1.5e17)
    assert [rounded_count(n) for n in numbers] == ["12", "1.23M", "2M", "1.5e+17"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(4, "4 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h"), (4.5e6, "1,250.0 h")],
)
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert format_seconds(seconds) == words


@pytest.mark.parametrize(("hours", "words"), [(0.0341, "0.034"), (1.25, "1.2"), (1234.0, "1200")])
def test_cost_has_two_digits(hours: float, words: str) -> None:
    assert format_hours(hours) == words


def test_bytes_have_the_unit_of_their_size() -> None:
    written = [format_bytes(count) for count in (250_000, 1.5e6, 9.99e8, 68e9, 1.45e13)]
    assert written == ["0.25 MB", "1.5 MB", "999 MB", "68 GB", "14.5 TB"]


def test_depths_are_listed_as_ranges() -> None:
    assert ranges((1, 2, 3, 4, 6, 8, 9)) == "1-4, 6, 8-9"
    assert ranges(()) == ""


@pytest.mark.parametrize(
    "word", ["a b", "a; b", "it's", "$(id)", "\\", "a\nb", "\x1b[2J\a it's \\", "größe\x85", ""]
)
def test_a_command_has_each_word_as_it_is_and_commands_no_terminal(word: str) -> None:
    command = shell_command("printf", "%s", word)
    assert command.isprintable()
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode() == word


def test_a_text_is_shown_in_its_lines_with_escapes_for_what_commands_a_terminal() -> None:
    assert visible("two  words\n\x1b[2J\r") == "two  words\n\\x1b[2J\\r"
