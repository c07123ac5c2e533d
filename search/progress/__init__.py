"""What is known of a search while it runs; `search/terminal.py` shows it."""
