"""Opens a folder of logs, of TensorBoard's event files or of tables as one table of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec

from fathom.search.formatting import printable, shell_command
from fathom.search.study.file.errors import ConfigError
from fathom.search.tables.folders.finding import LOGS, Found, find_files
from fathom.search.tables.folders.logged import Keep, Logged, keeper, table_of
from fathom.search.tables.folders.run_tables import read_tables
from fathom.search.tables.folders.settings_files import Parse, SettingsFiles
from fathom.search.tables.folders.text_logs import read_logs
from fathom.search.tables.folders.wandb_chart import PAGE
from fathom.search.tables.open_table import OpenTable

WANDB = ".wandb"
ALONE = (".parquet", ".pq", ".db")
"""Ends of the names of files that can be analysed alone, which a message suggests."""


def open_folder(
    source: str, told: Mapping[str, str], asked: Sequence[str], lines: Sequence[str]
) -> OpenTable:
    """The table of the runs of a folder or pattern of files: one run for each folder of event
    files, each log, or each of several tables.

    `told` is the mapping of `--map`, `asked` are columns that other flags name, and `lines` the
    patterns of `--line`.

    Raises:
        ValueError: when the folder has no runs that can be read, or lacks what a table needs.
    """
    found, keep = find_files(source), keeper(told, asked)
    files = SettingsFiles(found.root, _yaml_parser())
    if found.events and not lines:
        return table_of(_events(found, keep, files), told)
    if len(found.tables) > max(1, len(found.logs)) and not lines:
        return table_of(read_tables(found, keep, files), told)
    if lines and not found.logs:
        found = replace(found, logs=found.tables)
    if not found.logs:
        raise ConfigError(_no_logs(found))
    logged = read_logs(found, lines, keep, files)
    if any(path.suffix == WANDB for path in found.others):
        page = {ours: text + PAGE for ours, text in logged.lacking.items()}
        logged = replace(logged, lacking=page)
    return table_of(logged, told)


def _events(found: Found, keep: Keep, files: SettingsFiles) -> Logged:
    if find_spec("tensorboard") is None:
        logs = ", or read its logs with --line" if found.logs else ""
        raise ConfigError(
            f"{found.label} has event files of TensorBoard, whose reader is not installed; "
            f'run `pip install "fathom-depth[tensorboard]"` first{logs}'
        )
    from fathom.search.tables.folders.events import read_events

    return read_events(found, keep, files)


def _yaml_parser() -> Parse | None:
    """PyYAML's parser; None where PyYAML is not installed, since tables need none."""
    if find_spec("yaml") is None:
        return None
    from fathom.search.study.file.safe_yaml import parse_yaml

    return parse_yaml


def _no_logs(found: Found) -> str:
    """The message that a folder has neither logs nor event files, with a suggestion."""
    first = f"{found.label} must have a log for each run ({', '.join(LOGS)}) or TensorBoard's event"
    wandb = [path for path in found.others if path.suffix == WANDB]
    if wandb:
        return (
            f"{first} files, got W&B's own ({printable(wandb[0].name)}), which only W&B reads; "
            "export the table of runs as CSV from its page, and analyse that"
        )
    tables = [*found.tables, *(path for path in found.others if path.suffix.lower() in ALONE)]
    if tables:
        again = shell_command("fathom", "analyse", tables[0])
        return f"{first} files, got tables; analyse one: `{again}`"
    got = f"{len(found.others)} other files" if found.others else "no file"
    return f"{first} files, got {got}; name the logs by a pattern, such as 'runs/*/train.log'"
