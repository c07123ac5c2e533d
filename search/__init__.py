"""The search: a study file goes in, the optimal depth of every budget comes out.

Imported as `fathom.search`; `from fathom import Study, load, run` is the Python interface.
"""
