"""Guesses at the encoding of text that is not UTF-8, by charset-normalizer."""

from charset_normalizer import from_bytes


def likely_encoding(sample: bytes, encodings: list[str]) -> str:
    """Name of the likeliest of `encodings`; empty if none fits."""
    best = from_bytes(sample, cp_isolation=encodings).best()
    return best.encoding if best else ""
