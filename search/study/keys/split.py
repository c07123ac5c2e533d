"""The split of layers between encoder and decoder, as a study file gives it."""

SPLIT_PATTERN = r"^[1-9][0-9]{0,2}-[1-9][0-9]{0,2}$"
"""Layers of the encoder to those of the decoder."""


def encoder_layers(split: str, depth: int) -> int:
    """The number of encoder layers nearest to a split of so many layers; 0 if a stack would have
    none, or if two numbers are equally near.

    >>> [encoder_layers("1-1", depth) for depth in (1, 2, 3, 4)]
    [0, 1, 0, 2]
    >>> [encoder_layers("12-1", depth) for depth in (6, 7, 13, 20)]
    [0, 6, 12, 18]
    """
    encoder, decoder = map(int, split.split("-"))
    whole, rest = divmod(encoder * depth, encoder + decoder)
    if 2 * rest == encoder + decoder:
        return 0
    layers = whole + (2 * rest > encoder + decoder)
    return layers if layers < depth else 0
