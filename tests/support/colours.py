"""How far apart two colours are for eyes of every kind, and against a page."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matrix(numbers: str) -> Array:
    """A matrix (3, 3) of nine numbers, row by row."""
    return np.array(numbers.split(), float).reshape(3, 3)


# Machado, Oliveira and Fernandes 2009, severity 1, on linear red, green and blue.
EYES: dict[str, Array] = {
    "normal": np.eye(3),
    "protanopia": matrix(
        "0.152286 1.052583 -0.204868  0.114503 0.786281 0.099216  -0.003882 -0.048116 1.051998"
    ),
    "deuteranopia": matrix(
        "0.367322 0.860646 -0.227968  0.280085 0.672501 0.047413  -0.011820 0.042940 0.968881"
    ),
    "tritanopia": matrix(
        "1.255528 -0.076749 -0.178779  -0.078411 0.930809 0.147602  0.004733 0.691367 0.303900"
    ),
}
TO_XYZ = matrix(
    "0.4124564 0.3575761 0.1804375  0.2126729 0.7151522 0.0721750  0.0193339 0.1191920 0.9503041"
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Array:
    """Linear red, green and blue of a colour such as `#0072b2`, from 0 to 1."""
    shares = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.asarray(
        np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    )


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, as WCAG defines it."""
    low, high = sorted(float(linear(colour) @ TO_XYZ[1]) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)


def distance(first: str, second: str, eye: str) -> float:
    """Distance of two colours by CIEDE2000, as an eye sees them; about 2 can just be told apart."""
    lab_first, lab_second = (
        lab(np.clip(EYES[eye] @ linear(colour), 0, 1)) for colour in (first, second)
    )
    (l1, a1, b1), (l2, a2, b2) = lab_first.tolist(), lab_second.tolist()
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180
    hue, chroma, light = (h1 + turn / 2) % 360, (c1 + c2) / 2, (l1 + l2) / 2
    wave = (
        1
        - 0.17 * np.cos(np.radians(hue - 30))
        + 0.24 * np.cos(np.radians(2 * hue))
        + 0.32 * np.cos(np.radians(3 * hue + 6))
        - 0.20 * np.cos(np.radians(4 * hue - 63))
    )
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * wave)
    bend = np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2))))
    mixed = -2 * bend * np.sqrt(chroma**7 / (chroma**7 + 25**7)) * dc * dh
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + mixed))


def lab(rgb: Array) -> Array:
    """CIE L*a*b* of linear red, green and blue."""
    xyz = TO_XYZ @ rgb / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
