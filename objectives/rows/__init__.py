"""Objectives whose data are rows: pairs of texts, or texts with labels."""
