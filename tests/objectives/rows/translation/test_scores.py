"""BLEU and chrF are those of sacrebleu's own command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation import scores as module
from fathom.objectives.rows.translation.scores import bleu_tokenizer, check_sacrebleu, scores

OUTPUTS = ["The cat sat on the mat .", "Nothing like it", "", "He said: “no”, twice!"]
REFERENCES = ["The cat sat on a mat.", "It is alike", "Go!", "He said “no” twice!"]
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def test_they_are_what_the_command_says_of_the_same_files(tmp_path: Path) -> None:
    for name, lines in (("output", OUTPUTS), ("reference", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "output", "-m", "bleu", "chrf"]
    said = subprocess.run([*command, "-w", "8"], cwd=tmp_path, capture_output=True, check=True)

    found = scores(OUTPUTS, REFERENCES)

    for score, printed in zip(found.values(), json.loads(said.stdout), strict=True):
        assert score.value == pytest.approx(printed["score"], abs=1e-7)
        assert score.signature == printed["signature"]
    assert found["bleu"].signature == SIGNATURE


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("The cat sat.", "13a"),
        ("القط جلس على السجادة.", "13a"),
        ("बिल्ली चटाई पर बैठी।", "13a"),
        ("고양이가 앉았다.", "13a"),
        ("猫坐在垫子上。", "zh"),
        ("在 IBM 工作的人", "zh"),
        ("猫がマットの上に座った。", "char"),
        ("แมวนั่งบนเสื่อ", "char"),
        ("", "13a"),
    ],
)
def test_text_without_blanks_between_words_is_cut_otherwise(text: str, tokenizer: str) -> None:
    assert bleu_tokenizer([text]) == tokenizer
    assert f"tok:{tokenizer}" in scores([text], [text])["bleu"].signature


def test_without_sacrebleu_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)

    with pytest.raises(ObjectiveError, match=r"pip install 'fathom-depth\[translation\]'"):
        check_sacrebleu()
