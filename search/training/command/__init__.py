"""A trial that a command of the user's own trains: its process, its lines, its reports."""
