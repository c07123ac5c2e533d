"""Objectives: the tasks that a shape is judged on. Imports neither `models` nor `search`.

`contract.py` says what an objective is. Each has a folder with its keys (`keys.py`, which imports
no torch) and itself (`objective.py`), and a line in `registry.py`: `text/language`,
`rows/transduction`, `rows/classification`, and so on; those of papers are in `papers/tasks/`. A
user's own class is loaded by `user_objective.py`; `prepare.py` turns the keys of any of them into
an objective.
"""
