"""Estimate of the people that two populations share, by identifiers: told with noise, at the machine alone.

A sketch keeps the smallest pseudonyms of a dataset's persons. Below the last one that both could have, each has every
person of its dataset, so that what they have in common there is a sample of all that they have in common.

Of each population the largest score counts, and noise selects among the populations and a constant [1]_. So what is
told, the name of one population or nothing, is `EPSILON`-differentially private for a person, on either side or both.

References
----------
.. [1] C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, section 3.3: report noisy max.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from curator_service.datasets.sketch import Part
from curator_service.privacy.samplers import Distribution, NoiseSource

EPSILON = Fraction(1)
"""What one comparison tells at most of a person who is there or not."""
PERSONS_PER_COMMON = 5
"""Of so many compared persons one in common is no more than is let pass: a share of a fifth."""
PERSONS_MIN = 100
"""As if so many were compared, where there are fewer."""
SENSITIVITY = PERSONS_PER_COMMON
"""How far one person moves a score."""
SCALE = math.ceil(2 * SENSITIVITY / EPSILON)
"""Of discrete Laplace noise: a score may rise while another falls, so that twice the sensitivity counts."""
TRIES_MAX = 10
"""Comparisons within a day."""


def score(one: Part, other: Part) -> int:
    """Return by how much persons in common are more than a fifth of those compared, in fifths of a person.

    One person more or less, in either sketch or in both, moves it by at most `SENSITIVITY`.

    Notes
    -----
    Let a(x) and b(x) be how many tokens below x the sketches have, and c(x) how many in common. The score is the
    largest 5 c(x) − max(min(a(x), b(x)), 100) of any x; behind the last token of a full sketch it does not rise.

    A person who comes brings one token. Below the largest one that the sketch then has to give up, a(x) rises by at
    most 1 and c(x) by at most 1, and if c does not rise the score falls by at most 1. Behind it a(x) is what it was,
    and c(x) rises by 1, stays, or falls by 1 for the token that was given up. Where both sketches get the person, c
    rises by 1 for it, and falls by at most 1: of two different tokens that are given up, the one sketch never has the
    larger one of the other, as it is full below that.
    """
    ours, theirs = one[1], other[1]
    places = np.searchsorted(theirs, ours)
    common = np.append(theirs, np.uint64(0))[places] == ours  # no token is 0
    # Behind each of ours in turn, and not of those in common alone: as much is done, whoever they are.
    compared = np.minimum(np.arange(1, len(ours) + 1), places + common)
    scores = PERSONS_PER_COMMON * np.cumsum(common) - np.maximum(compared, PERSONS_MIN)
    return int(np.max(scores, initial=-PERSONS_MIN))


def choose(mine: Part, others: Mapping[str, Sequence[Part]], noise: NoiseSource) -> str | None:
    """Return the population that people seem to be in too, or None: whichever is largest under noise."""
    names = sorted(others)
    scores = [0, *(max(score(mine, one) for one in others[name]) for name in names)]
    drawn = np.asarray(noise.sample(Distribution.DISCRETE_LAPLACE, [SCALE] * len(scores)))
    place = int(np.argmax(np.asarray(scores) + drawn))
    return names[place - 1] if place else None
