"""Lines that were changed, repeated, moved or lost are refused: `search/json_lines.py`."""

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.json_lines import (
    append_line,
    read_as,
    read_lines,
    truncate_torn_line,
)
from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.scheduling.journal import Past, read_past, read_run
from fathom.search.study.file.study_file import dump
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.logs import lines_of, write_sealed

CONFIG = study(budgets=(20_000,))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The folder of a search that has ended."""
    folder = RunFolder(tmp_path_factory.mktemp("whole") / CONFIG.study)
    folder.create()
    write_fingerprint(folder, fingerprint_of(CONFIG, data=""))
    Simulation(search := scheduler(CONFIG, folder.path)).run()
    assert search.done
    folder.config.write_text(dump(CONFIG))
    return folder


@pytest.fixture
def folder(whole: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(whole.path, tmp_path / CONFIG.study))


def answer_of(folder: RunFolder) -> Conclusion:
    return conclude_run(folder, CONFIG, read_run(folder, CONFIG))


Damage = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def _of_lines(change: Callable[[list[bytes], random.Random], object]) -> Damage:
    def damage(content: bytes, rng: random.Random) -> bytes:
        lines = content.splitlines(keepends=True)
        change(lines, rng)
        return b"".join(lines)

    damage.__name__ = change.__name__
    return damage


def repeated(lines: list[bytes], rng: random.Random) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def reordered(lines: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(lines) - 1)
    to = rng.randrange(at + 1, len(lines))
    lines[at], lines[to] = lines[to], lines[at]


def turned_round(lines: list[bytes], rng: random.Random) -> None:
    lines.reverse()


def lost(lines: list[bytes], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def cut_out(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.randint(1, 600) :]


def zeroed(content: bytes, rng: random.Random) -> bytes:
    """A block that a disk has lost."""
    at = rng.randrange(len(content)) // 512 * 512
    return content[:at] + bytes(len(content[at : at + 512])) + content[at + 512 :]


def other_ends(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\n", b"")))


DAMAGES: Sequence[Damage] = (
    *(flipped, truncated, cut_out, zeroed, other_ends),
    *map(_of_lines, (repeated, reordered, turned_round, lost)),
)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "seeds",
    [
        range(60),
        pytest.param(range(60, 1000), marks=pytest.mark.drill),
        pytest.param(range(1000, 6000), marks=pytest.mark.siege),
    ],
    ids=len,
)
def test_damaged_lines_are_refused_in_one_line_or_those_before_them_are_read(
    folder: RunFolder, seeds: range
) -> None:
    """What is cut off at its end is as if the search had been killed earlier: none of its answers
    is called finished. What is read is the same or less, and so is the answer."""
    before = read_run(folder, CONFIG)
    found = Counter[str]()
    for seed in seeds:
        rng, damage = random.Random(seed), DAMAGES[seed % len(DAMAGES)]
        path = (folder.records, folder.journal)[seed // len(DAMAGES) % 2]
        content = path.read_bytes()
        changed = damage(content, rng)
        path.write_bytes(changed)
        try:
            after = read_run(folder, CONFIG)
        except DamagedFileError as error:
            refusal = str(error)
            assert is_refusal(refusal, path), (seed, refusal)
            found[f"{damage.__name__}: refused"] += 1
        else:
            assert content.startswith(changed.rstrip(b"\0")), (seed, damage.__name__)
            is_same = come_to(after) == come_to(before)
            assert is_same or after.unfinished(CONFIG.budgets), (seed, damage.__name__)
            found[f"{damage.__name__}: {'the same' if is_same else 'cut off'}"] += 1
        path.write_bytes(content)
    print(f"{len(seeds)} damages: {dict(sorted(found.items()))}")
    assert {key.split(":")[0] for key in found} == {damage.__name__ for damage in DAMAGES}
    assert sum(times for key, times in found.items() if "refused" in key) > len(seeds) / 2


def is_refusal(text: str, path: Path) -> bool:
    """True for one line that names the file, the line and the remedy."""
    return bool(re.fullmatch(rf"{re.escape(str(path))}:\d+: .+; restore the file, or .+", text))


def come_to(past: Past) -> tuple[object, ...]:
    """What the answer follows from."""
    return past.attempts, past.confirmations, past.running.records


def test_a_flipped_bit_of_any_byte_of_a_line_is_refused(folder: RunFolder) -> None:
    lines = folder.records.read_bytes().splitlines(keepends=True)
    for at in range(len(lines[1])):
        changed = bytearray(lines[1])
        changed[at] ^= 1 << at % 8
        folder.records.write_bytes(lines[0] + changed + lines[2])
        with pytest.raises(DamagedFileError, match=r"records\.jsonl:[234]: "):
            read_records(folder.records)


def test_a_line_says_which_line_it_follows_and_readers_see_neither(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(3):
        append_line(path, {"number": number})
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["follows"] for line in kept] == ["00000000", kept[0]["crc32"], kept[1]["crc32"]]
    assert list(read_lines(path)) == [{"number": number} for number in range(3)]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_mended_and_the_next_follows_what_is_left(
    tmp_path: Path, cut: int
) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(2):
        append_line(path, {"number": number})
    content = path.read_bytes()
    for left in (content[:-cut], content[:-cut] + b"\0" * cut):
        path.write_bytes(left)
        truncate_torn_line(path)
        append_line(path, {"number": 2})
        numbers = [line["number"] for line in read_lines(path)]
        assert numbers == ([0, 1, 2] if cut == 1 else [0, 2])


def test_a_line_without_a_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(2):
        append_line(path, {"number": number})
    path.write_bytes(path.read_bytes() + b'{"number": 2}\n')
    with pytest.raises(DamagedFileError, match=r":3: it has no checksum that can be read"):
        list(read_lines(path))
    path.write_bytes(b'{"number": 0}\n')
    with pytest.raises(DamagedFileError, match=r":1: it has no checksum .*; .* or delete it"):
        list(read_lines(path))


def test_a_refusal_says_what_may_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(3):
        append_line(path, {"number": number})
    lines = path.read_bytes().splitlines(keepends=True)
    kept = ("delete it", "keep its first 1 line:", "keep its first 2 lines:")
    for at, wrong in enumerate((b"no JSON", b"[1, 2]", b"\xff" + lines[2])):
        path.write_bytes(b"".join([*lines[:at], wrong, b"\n", *lines[at + 1 :]]))
        with pytest.raises(DamagedFileError, match=rf":{at + 1}: it is not .*; .*{kept[at]}"):
            list(read_as(path, lambda line: line))


def test_no_trial_goes_back(folder: RunFolder) -> None:
    """Not even by a forger, whose checksums are right."""
    lines = lines_of(folder.records)
    ends = [line["outcome"] for line in lines]
    finished, stopped = (ends.index(outcome) for outcome in ("finished", "stopped"))
    back = lines[finished] | {"outcome": "stopped", "rungs": {"16000": 3.0}}
    write_sealed(folder.records, [*lines, back])
    with pytest.raises(DamagedFileError, match="had ended as `finished` already"):
        read_records(folder.records)
    write_sealed(folder.records, [*lines[: stopped + 1], lines[stopped]])
    with pytest.raises(DamagedFileError, match="does not continue where it had stopped"):
        read_records(folder.records)


def test_every_reader_calls_records_cut_short_unfinished_and_a_search_asks_for_what_followed_them(
    folder: RunFolder,
) -> None:
    lines = folder.records.read_bytes().splitlines(keepends=True)
    folder.records.write_bytes(b"".join(lines[:-5]))
    assert answer_of(folder).unfinished == (20_000,)
    assert read_run(folder, CONFIG).unfinished(CONFIG.budgets) == {20_000}
    lacks = r"journal\.jsonl:(\d+): trial 20k-\S+ has ended before, but `records\.jsonl` lacks "
    with pytest.raises(DamagedFileError, match=lacks) as refusal:
        read_past(folder)
    journal = folder.journal.read_bytes().splitlines(keepends=True)
    refused = re.search(lacks, str(refusal.value))
    assert refused
    folder.journal.write_bytes(b"".join(journal[: int(refused[1]) - 1]))
    assert read_past(folder).running.records
    folder.records.unlink()
    assert answer_of(folder).unfinished == (20_000,)
    assert not answer_of(folder).optima


def test_a_search_is_not_resumed_by_a_journal_that_lacks_how_its_records_came_about(
    folder: RunFolder,
) -> None:
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert answer_of(folder).unfinished == (20_000,), "who only looks is told this much"
    with pytest.raises(DamagedFileError, match=r"records\.jsonl:\d+: the journal beside it lacks "):
        read_past(folder)
