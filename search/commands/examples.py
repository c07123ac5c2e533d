"""Examples of each command, shown at the end of its help."""


def _block(*lines: str) -> str:
    """Returns lines as a block of code in Markdown, which a terminal shows as they are."""
    return "\n\n" + "\n".join(f"    {line}" for line in lines)


def _examples(*pairs: tuple[str, str]) -> str:
    """Returns commands, each below a line on what it does; short enough for 50 columns."""
    lines = [line for does, command in pairs for line in (f"# {does}", f"fathom {command}")]
    return "Examples:" + _block(*lines)


START = (
    "Start here:"
    + _block("fathom run quickstart", "fathom init my.yaml --data my.txt")
    + "\n\nTab completes commands and options after:"
    + _block("fathom --install-completion")
)
"""Text at the end of `fathom --help`."""

EXAMPLES = {
    "init": _examples(
        ("A search of an hour on your text", "init my.yaml --data my.txt"),
        ("On many files, for a night", "init my.yaml --data 'texts/*.txt' --hours 8"),
    ),
    "plan": _examples(
        ("What the search takes", "plan my.yaml"),
        ("What it costs on rented GPUs", "plan my.yaml --gpu H100 --price 2.5"),
    ),
    "check": _examples(
        ("Does the rate suit every shape?", "check my.yaml"),
        ("With longer trainings", "check my.yaml --steps 1000"),
    ),
    "doctor": _examples(
        ("This machine or cluster", "doctor"),
        ("And what a study needs", "doctor my.yaml"),
    ),
    "tokenize": _examples(
        ("Learn 32k tokens, cut the text", "tokenize my.jsonl --tokenizer bpe:32000 --out tokens"),
        (
            "Shards of a column of token ids",
            "tokenize a.parquet --tokenizer ids --field ids --vocabulary 50257 --out tokens",
        ),
    ),
    "schema": _examples(
        ("What an editor reads", "schema"),
        ("As a file", "schema --out study.schema.json"),
    ),
    "run": _examples(
        ("A study that Fathom brings", "run quickstart"),
        ("Your own study, for a night at most", "run my.yaml --max-hours 8"),
    ),
    "status": _examples(
        ("Every run below runs/", "status"),
        ("One run, for a program", "status runs/my --json"),
    ),
    "ui": _examples(
        ("The runs below runs/", "ui"),
        ("Runs in another folder, at another port", "ui --runs old --port 5001"),
    ),
    "compare": _examples(
        ("Two splits of the layers", "compare runs/mt-1-1 runs/mt-12-1"),
        ("For a program", "compare runs/one runs/two --json"),
    ),
    "latency": _examples(
        ("What each depth takes to answer, here", "latency runs/my"),
        ("By a data sheet, at most 20 ms a token", "latency runs/my --gpu H100 --max-token-ms 20"),
    ),
    "report": _examples(
        ("The answer again, also while it runs", "report runs/my"),
        ("On a page, with a picture, for a paper", "report runs/my --card --out paper/depth"),
    ),
    "analyse": _examples(
        ("Runs that you already have", "analyse runs.csv"),
        ("A folder of logs, with a page and its figures", "analyse logs --report page"),
    ),
    "predict": _examples(
        ("By the law of a run", "predict --params 1B --law runs/my"),
        ("Of Hugging Face's models", "predict models/*/config.json --doubling 0.02"),
    ),
    "ask": _examples(
        ("How deep at 1B? A day of searching", "ask --params 1B --data my.txt --hours 24"),
        ("Only show what would be searched", "ask --params 1B --hours 24 --plan"),
    ),
    "export": _examples(
        ("The best shape at 10M", "export runs/my --params 10M --out best.yaml"),
        ("For Hugging Face", "export runs/my --params 10M --format hf --out model"),
    ),
    "train": _examples(
        ("The exported shape", "train best.yaml"),
        ("On more tokens, straight from a run", "train runs/my --params 10M --tokens 1B"),
    ),
}  # fmt: skip
"""Command -> text at the end of its help."""
