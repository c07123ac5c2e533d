"""What a shape is judged on; this package imports neither `models` nor `search`.

Reading order: `objective.py` (the contract), `token_loss.py` and `draws.py` (losses, randomness);
text: `download.py`, `corpus.py`, `tokenizer.py`, `encoding.py`, `language.py`; rows: `rows.py`,
`data_sets.py`, `arrays.py`, then `pairs.py` and `transduction.py`, or `listops.py`, `texts.py`,
`text_tokens.py` and `classification.py`; fresh data: `sizes.py`, `generated.py`, `hop.py` and its
like; `own.py`, `registry.py` and `vocabulary.py` (the choice by name).
What `vocabulary.py` uses needs no torch, so that planning does not wait for it.
"""
