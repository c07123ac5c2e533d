"""How every table on the terminal looks; what is in them: `plan_tables.py`, `answer_tables.py`."""

from rich.table import Table


def empty_table(title: str, headings: tuple[str, ...]) -> Table:
    """An empty one; words to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for heading in headings:
        words = heading in ("depths", "plateau", "verdict")
        # Of the words, a list of depths may wrap; a verdict may not.
        table.add_column(
            heading,
            justify="left" if words else "right",
            no_wrap=heading not in ("depths", "plateau"),
        )
    return table
