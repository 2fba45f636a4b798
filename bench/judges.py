"""Judges of figures: what many repeats told of a number, held against the truth.

A figure has parts, such as coefficients. Of each part a judge is given what all repeats told: an array of a row for
each repeat, whose columns it knows, NaN where one told nothing. Its verdict has measures with goals.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
ENOUGH = 0.5
"""Share of repeats that tell of a part, from which on it is judged."""


@dataclass
class Measure:
    """One number of a cell, its standard error, and its goal."""

    name: str
    value: float
    error: float
    goal: float
    at_least: bool

    @property
    def is_met(self) -> bool:
        """True if the number meets its goal."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def is_near(self) -> bool:
        """True if it is within three standard errors of it."""
        return self.error > 0.0 and abs(self.value - self.goal) <= 3.0 * self.error

    def __str__(self) -> str:
        """Show them."""
        return f"{self.name} {self.value:.3f} ± {self.error:.3f} ({'≥' if self.at_least else '≤'} {self.goal:g})"


@dataclass
class Verdict:
    """Verdict on a cell."""

    measures: list[Measure] = field(default_factory=list)
    worst: str = ""
    told: float = 1.0
    length: float = math.nan
    repeats: int = 0

    def state(self, *, final: bool) -> str:
        """Return `met`, `near`, `missed`, or `untold` where no part is told often enough."""
        if not self.measures:
            return "untold"
        if any(not one.is_met and (final or not one.is_near) for one in self.measures):
            return "missed"
        return "met" if final or not any(one.is_near for one in self.measures) else "near"


Parts = Mapping[str, Floats]
"""By part: what all repeats told, of shape (repeats, numbers), NaN where one told nothing."""


def _share(values: Floats) -> tuple[float, float]:
    """Return a mean and its standard error; of shares that are all alike, one by the next possible value."""
    n = len(values)
    error = float(np.std(values)) / math.sqrt(n) or 1.0 / (n + 2)
    return float(np.mean(values)), error


def judge_interval(parts: Parts) -> Verdict:
    """Count what intervals with two ends hold."""
    held, shares, lengths = {}, [], []
    for name, told in parts.items():
        low, high, truth, half = told.T
        ended = np.isfinite(low) & np.isfinite(high)
        shares.append(float(np.mean(ended)))
        if shares[-1] < ENOUGH:
            continue
        held[name] = np.where(ended, (low <= truth) & (truth <= high), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths.append(
                np.nanmedian((high - low)[ended] / 2.0 / half[ended]) if np.isfinite(half[ended]).any() else math.nan
            )
    found = Verdict(told=float(np.mean(shares)))
    if not held:
        return found
    found.length = float(np.nanmedian(lengths)) if np.isfinite(lengths).any() else math.nan
    each = {name: _share(of[~np.isnan(of)]) for name, of in held.items()}
    found.worst = min(each, key=lambda name: each[name][0])
    mean, error = _share(np.nanmean(_rows_told(np.array(list(held.values()))), axis=0))
    found.measures = [Measure("coverage", mean, error, 0.93, at_least=True)]
    if len(held) > 1:
        found.measures.append(Measure("worst", *each[found.worst], 0.90, at_least=True))
    return found


def _rows_told(held: Floats) -> Floats:
    return held[:, ~np.isnan(held).all(axis=0)]


def judge_size(parts: Parts) -> Verdict:
    """Count true hypotheses that are rejected."""
    rejected = {name: told[~np.isnan(told[:, 0]), 0] < 0.05 for name, told in parts.items()}
    return _worst_of("size", {name: _share(one) for name, one in rejected.items() if len(one)}, 0.06, parts)


def judge_point(parts: Parts) -> Verdict:
    """Take the mean error of estimates, in their stated errors."""
    found = {}
    for name, told in parts.items():
        z = (told[:, 0] - told[:, 1]) / told[:, 2]
        z = np.clip(z[np.isfinite(z)], -20.0, 20.0)
        if len(z) >= ENOUGH * len(told):
            mean, error = _share(z)
            found[name] = abs(mean), error
    return _worst_of("bias", found, 0.5, parts)


def judge_shrunk(parts: Parts) -> Verdict:
    """Compare the losses of predictions with shrunk coefficients and with the equations' solution."""
    (told,) = parts.values()
    shrunk, solved = told[np.isfinite(told).all(axis=1)].T
    ratio = float(np.median(shrunk) / np.median(solved))
    goal = Measure("excess over least squares'", ratio, 2.0 * ratio / math.sqrt(len(shrunk)), 1.2, at_least=False)
    return Verdict([goal], "excess")


def judge_error(parts: Parts) -> Verdict:
    """Compare the spread of estimates with their stated errors."""
    found = {}
    for name, told in parts.items():
        error, value = told[np.isfinite(told).all(axis=1)].T
        if len(value) >= ENOUGH * len(told):
            ratio = _spread(value) / float(np.median(error))
            found[name] = ratio, 1.17 * ratio / math.sqrt(len(value))
    return _worst_of("spread over stated", found, 1.2, parts)


def judge_near(parts: Parts, tolerance: float) -> Verdict:
    """Take the median of the printed over the true value."""
    found = {}
    for name, told in parts.items():
        off = np.abs(np.log(np.maximum(told[:, 0], 1e-12) / told[:, 1]))
        off, signed = off[np.isfinite(off)], np.log(np.maximum(told[:, 0], 1e-12) / told[:, 1])
        if len(off) >= ENOUGH * len(told):
            middle = float(np.nanmedian(signed))
            found[name] = abs(math.expm1(middle)), 1.25 * float(np.nanstd(np.clip(signed, -3, 3))) / math.sqrt(len(off))
    return _worst_of("median off by", found, tolerance, parts)


def judge_equal(parts: Parts) -> Verdict:
    """Count what is said and is not so."""
    wrong = {name: told[~np.isnan(told).any(axis=1)] for name, told in parts.items()}
    shares = {name: _share((one[:, 0] != one[:, 1]).astype(float)) for name, one in wrong.items() if len(one)}
    return _worst_of("wrong", {name: (value, 0.0) for name, (value, _) in shares.items()}, 0.0, parts)


def judge_share(parts: Parts) -> Verdict:
    """Compare a share of variance with what the spread of estimates around those without privacy says."""
    found = {}
    for name, told in parts.items():
        share, off, error = told[np.isfinite(told).all(axis=1)].T
        if len(share) >= max(ENOUGH * len(told), 3):
            noise, sampling = _spread(off) ** 2, float(np.median(error)) ** 2
            truth = noise / (noise + sampling)
            found[name] = abs(float(np.median(share)) - truth), 2.34 * truth * (1.0 - truth) / math.sqrt(len(share))
    return _worst_of("off by", found, 0.15, parts)


def _spread(values: Floats) -> float:
    """Return a standard deviation by quartiles: single estimates may be far off."""
    return float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34898


def judge_gain(parts: Parts) -> Verdict:
    """Compare the loss of predictions with that of the mean."""
    (told,) = parts.values()
    mean, error = _share((told[:, 0] / told[:, 1])[~np.isnan(told).any(axis=1)])
    return Verdict([Measure("loss over the mean's", mean, error * 2.0 / 3.0, 1.0, at_least=False)], "loss")


def _worst_of(name: str, found: Mapping[str, tuple[float, float]], goal: float, parts: Parts) -> Verdict:
    told = float(np.mean([np.mean(np.isfinite(one[:, 0])) for one in parts.values()])) if parts else 0.0
    if not found:
        return Verdict(told=told)
    worst = max(found, key=lambda part: found[part][0])
    return Verdict([Measure(name, *found[worst], goal, at_least=False)], worst, told)


def near(tolerance: float) -> Callable[[Parts], Verdict]:
    """Return the judge of numbers that have no stated error."""
    return partial(judge_near, tolerance=tolerance)
