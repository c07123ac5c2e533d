"""Rows as runs, and runs as trials: sizes, losses, settings that vary."""
