"""A study of one tiny budget whose trainings repeat their text 230 times, so that weight decay
decides the loss."""

import random
from pathlib import Path

from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig

LETTERS = "abcdefgh"
WORDS, LENGTH = 60, 250


def repeating_study(folder: Path, changes: str = "", *, length: int = LENGTH) -> StudyConfig:
    """The study, on a text of so many short words that it writes into the folder."""
    draws = random.Random(0)
    words = ["".join(draws.choices(LETTERS, k=draws.randint(2, 5))) for _ in range(WORDS)]
    corpus = folder / "corpus.txt"
    corpus.write_text(" ".join(draws.choices(words, k=length)))
    return parse(f"""
study: repeated
objective: {{name: language, corpus: {corpus}, context: 32, tokenizer: chars, eval_tokens: 512,
             validation_fraction: 0.2}}
budgets: [60k]
tokens: 200k
count: non_embedding
space: {{n_heads: 2}}
train: {{learning_rate: 3e-3, weight_decay: 1, batch_size: 16, diagnostics: false}}
{changes}
""")
