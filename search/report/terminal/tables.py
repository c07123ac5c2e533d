"""The layout of the tables on a terminal: titles, and columns of text and of numbers."""

from rich.table import Table


def empty_table(title: str, headings: tuple[str, ...]) -> Table:
    """Returns a table without rows, with text aligned to the left and numbers to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for heading in headings:
        is_text = heading in ("depths", "plateau", "verdict")
        # A list of depths may wrap; a verdict may not.
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            no_wrap=heading not in ("depths", "plateau"),
        )
    return table
