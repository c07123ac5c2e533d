"""What a shape is judged on; this package imports neither `models` nor `search`.

Reading order: `objective.py` (the contract), `download.py` and `corpus.py` (text), `tokenizer.py`
and `encoding.py` (text to ids), `language.py` (the objective), `registry.py` (the choice by name).
`corpus.py`, `download.py` and `tokenizer.py` need the standard library only.
"""
