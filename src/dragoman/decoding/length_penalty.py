"""The length penalty, by which hypotheses of different lengths compare."""


def length_penalty(length: int, exponent: float) -> float:
    """The length penalty of Wu et al. (2016, eq. 14), ((5 + length) / 6)^exponent; the end symbol counts.

    Log-probabilities are divided by it, so that a search does not favour short outputs.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** exponent
