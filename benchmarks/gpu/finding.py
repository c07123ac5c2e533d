"""The set-up of a stage, its findings with their pass marks, and the file that keeps them."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from fathom.search.run_folder import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The device and the sizes of a run."""

    device: torch.device
    tiny: bool
    """True for sizes that a CPU trains in a moment, to run every stage without a GPU."""
    nanogpt: Path | None = None
    """A checkout of nanoGPT."""

    @property
    def on_gpu(self) -> bool:
        """True if the marks that only a GPU can reach hold."""
        return self.device.type == "cuda"

    @property
    def name(self) -> str:
        """The device, the sizes and the version of PyTorch, as text."""
        device = torch.cuda.get_device_name() if self.on_gpu else "CPU"
        return f"{device}{', tiny' if self.tiny else ''}, torch {torch.__version__}"


@dataclass(frozen=True, slots=True)
class StageFinding:
    """A figure, with its pass mark if it has one."""

    what: str
    value: float | None
    mark: str = ""
    """The pass mark as text, or the reason why there is no figure."""
    passed: bool | None = None
    """None without a mark."""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What was measured, its value, its mark and whether it passes, as text."""
        value = "-" if self.value is None else f"{self.value:.4g}"
        passed = {None: "", True: "yes", False: "**no**"}[self.passed]
        return self.what, value, self.mark, passed


def measured(what: str, value: float) -> StageFinding:
    """A figure without a mark."""
    return StageFinding(what, value)


def left_out(what: str, reason: str) -> StageFinding:
    """A figure that can't be had here."""
    return StageFinding(what, None, f"left out: {reason}")


def at_least(what: str, value: float, bound: float) -> StageFinding:
    """A figure that must not be lower."""
    return StageFinding(what, value, f"at least {bound:g}", value >= bound)


def at_most(what: str, value: float, bound: float) -> StageFinding:
    """A figure that must not be higher."""
    return StageFinding(what, value, f"at most {bound:g}", value <= bound)


def within(what: str, ratio: float, factor: float) -> StageFinding:
    """A ratio that must lie within a factor of 1."""
    passed = 1 / factor <= ratio <= factor
    return StageFinding(what, ratio, f"within a factor of {factor:g} of 1", passed)


def holds(what: str, true: bool, else_: str = "") -> StageFinding:
    """A statement that must be true, with the reason if it is not."""
    return StageFinding(what, float(true), "true" if true else f"true; {else_}", true)


Case = Callable[[Setup], Iterable[StageFinding]]
Cases = Iterator[tuple[str, Case]]
"""Name of each case of a stage -> what measures it, most valuable first."""


@dataclass(slots=True)
class StageFindings:
    """The findings of a run by case, kept in a file beside those of other set-ups."""

    file: Path
    setup: str
    by_case: dict[str, list[StageFinding]]
    begun: list[str]
    """Cases that were begun and have no findings: a limit of time ended the command in them."""
    others: dict[str, Any]
    """What the file holds of other set-ups."""

    @classmethod
    def open(cls, file: Path, setup: Setup) -> "StageFindings":
        """The findings of a set-up in a file, or none if it has none.

        Raises:
            ValueError: if it is a file of something else.
            OSError: if it can't be read or written.
        """
        try:
            setups = json.loads(file.read_text(encoding="utf-8"))["setups"] if file.exists() else {}
            others = {name: values for name, values in setups.items() if name != setup.name}
            values = setups.get(setup.name, {"cases": {}, "begun": []})
            cases = {
                case: [StageFinding(**finding) for finding in found]
                for case, found in values["cases"].items()
            }
            findings = cls(file, setup.name, cases, [*values["begun"]], others)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{file} is no file of findings; name another one with --out"
            ) from error
        findings._write()
        return findings

    def begin(self, case: str) -> None:
        """Notes in the file that a case is begun."""
        self.begun.append(case)
        self._write()

    def add(self, case: str, found: Iterable[StageFinding]) -> None:
        """Adds the findings of a case that was begun, and writes the file."""
        self.begun = [other for other in self.begun if other != case]
        self.by_case[case] = list(found)
        self._write()

    def _write(self) -> None:
        cases = {
            name: [asdict(finding) for finding in findings]
            for name, findings in self.by_case.items()
        }
        setups = self.others | {self.setup: {"cases": cases, "begun": self.begun}}
        write_atomically(self.file, json.dumps({"setups": setups}, indent=1) + "\n")

    @property
    def failed(self) -> list[str]:
        """Cases with a finding that does not pass."""
        failing = (
            name
            for name, findings in self.by_case.items()
            if any(f.passed is False for f in findings)
        )
        return list(failing)

    def table(self) -> Iterator[str]:
        """Lines of a table of all findings."""
        yield "| case | figure | value | pass mark | passed |"
        yield "|---|---|---|---|---|"
        for case, found in self.by_case.items():
            for finding in found:
                yield f"| {case} | {' | '.join(finding.cells)} |"
