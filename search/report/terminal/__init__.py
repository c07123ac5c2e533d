"""What is known of a search while it runs; `search/report/terminal/progress.py` shows it."""
