"""Coefficients of one target in raw units, and what is told of them whatever the fit: errors, intervals, tests."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import View, facts
from analyst_client.errors import EstimationError
from analyst_client.inference.multiplicity import FAMILIES, Family, holm
from analyst_client.inference.quantiles import chi2_tail
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import number, p_text
from analyst_client.inference.units import raw_units
from analyst_client.schema.columns import Term

IntervalMethod = Literal["fieller", "delta", "bootstrap", "posterior", "random-effects"]
INTERVAL_METHODS = get_args(IntervalMethod)
Bound = float | Mapping[str, float]
"""The size of all coefficients beside the intercept together, or of each named one, in raw units."""
SLOPES_MAX = 1e12
"""Largest family whose level is told apart from 1."""


@dataclass(frozen=True, repr=False)
class TestResult(Displayable):
    """A test of a hypothesis.

    Attributes
    ----------
    statistic : float
        The score statistic, or Wald's, over the number of constraints: F without noise.
    constraints : int
    dof : float
        Residual degrees of freedom; infinite of a generalised fit.
    pvalue : float
    hypothesis : str
        The constraints in words, as they were asked.
    """

    statistic: float
    constraints: int
    dof: float
    pvalue: float
    hypothesis: str = field(default="", compare=False)

    def _view(self) -> View:
        dof = f"{self.dof:,.0f}" if math.isfinite(self.dof) else "∞"
        rows = [(f"F({self.constraints}, {dof})", number(self.statistic)), ("p", p_text(self.pvalue))]
        return (facts(self.hypothesis or "Test", rows),)

    __repr__ = Displayable.__str__


class Solved(NamedTuple):
    """Coefficients as they were solved.

    Attributes
    ----------
    terms : tuple of Term
        D of them, the constant first if there is one.
    target : Term
    theta : ndarray of shape (D,)
        Scaled coefficients.
    row_map : str or None
        See `raw_units`.
    free : int or None
        Number of terms with a coefficient: an offset, which stands last, has none. Default all.
    """

    terms: tuple[Term, ...]
    target: Term
    theta: FloatArray
    row_map: str | None = None
    free: int | None = None


class Results(ABC):
    """Coefficients of one target, and inference about them. Contrasts are factors of the scaled coefficients."""

    inverts: ClassVar[str] = "Wald"
    """Whose test confidence sets invert."""

    @property
    @abstractmethod
    def solved(self) -> Solved:
        """The coefficients in scaled units."""

    @property
    def method(self) -> IntervalMethod:
        """The method of intervals where none is stated."""
        return "delta"

    @property
    def told(self) -> "Results":
        """These results. Raise `EstimationError` where nothing is told but points."""
        return self

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the P parameters: all, but for an offset."""
        return self.solved.terms[: self.solved.free]

    @property
    def target(self) -> Term:
        """The target."""
        return self.solved.target

    @property
    def combined(self) -> tuple[Term, ...]:
        """The terms that those of the fit are combinations of; else none."""
        return ()

    @property
    def combinations(self) -> FloatArray | None:
        """The weights of these in the combinations, of shape (D', D)."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the P parameters: the constant, if there is one, and the terms."""
        return tuple(term.name for term in self.terms)

    @property
    def first(self) -> int:
        """Place of the first slope: 1 with a constant."""
        return int(self.terms[0].kind == "constant")

    @cached_property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        L, constant = raw_units(self.solved.terms, self.target, self.solved.row_map)
        count = len(self.terms) + 1 - self.first
        return L[:count], constant[:count]

    @property
    def contrasts(self) -> FloatArray:
        """Factors of the scaled coefficients in the parameters, of shape (P, D)."""
        return self._units[0][1 - self.first :]  # without a constant the intercept is no parameter

    @property
    def offsets(self) -> FloatArray:
        """Shifts that are added to them, of shape (P,)."""
        return self._units[1][1 - self.first :]

    @property
    def raw(self) -> FloatArray:
        """The intercept, which may be no parameter, and the slopes in raw units."""
        L, constant = self._units
        raw: FloatArray = L @ self.solved.theta + constant
        return raw

    @property
    def params(self) -> FloatArray:
        """The P parameters in raw units."""
        return self.raw[1 - self.first :]

    @property
    def slopes(self) -> FloatArray:
        """Contrasts of all coefficients beside the constant."""
        return np.eye(len(self.solved.theta))[self.first : len(self.terms)]

    @abstractmethod
    def covariance_of(self, contrasts: FloatArray) -> FloatArray:
        """Return the covariance of linear functions of the scaled coefficients, of shape (q, q)."""

    @abstractmethod
    def contrast_sets(self, contrasts: FloatArray, offsets: FloatArray, level: float) -> list[ConfidenceSet]:
        """Return the confidence sets of linear functions of the scaled coefficients."""

    @abstractmethod
    def test(self, contrasts: FloatArray, values: FloatArray) -> TestResult:
        r"""Test :math:`C\theta = r` in scaled units, for C of shape (q, D)."""

    @abstractmethod
    def quantile(self, level: float) -> float:
        """Return by how many standard errors an interval of the delta method reaches to each side."""

    def cov_params(self) -> FloatArray:
        """Return the covariance of the estimates, of shape (P, P)."""
        return self.covariance_of(self.contrasts)

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors of the estimates, sampling and privacy noise together, of shape (P,)."""
        return np.sqrt(np.diag(self.cov_params()))

    def confidence_sets(self, level: float = 0.95) -> list[ConfidenceSet]:
        """Return the P confidence sets, in raw units; a set may be unbounded."""
        return self.contrast_sets(self.contrasts, self.offsets, level)

    @cached_property
    def tests(self) -> tuple[TestResult, ...]:
        """Tests of each parameter being 0."""
        pairs = zip(self.contrasts, self.offsets, strict=True)
        return tuple(self.test(contrast[np.newaxis], np.array([-offset])) for contrast, offset in pairs)

    @property
    def statistics(self) -> FloatArray:
        """Roots of the statistics of these tests, with the signs of the estimates, of shape (P,)."""
        return np.sign(self.params) * np.sqrt([test.statistic for test in self.tests])

    @property
    def pvalues(self) -> FloatArray:
        """P-values of each parameter being 0, of shape (P,)."""
        return np.array([test.pvalue for test in self.tests])

    def family_size(self, family: Family = "fit") -> int:
        """Return how many slopes are tested together. Raise `ValueError` for an unknown family."""
        if family not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {family!r}")
        return len(self.terms) - self.first

    def adjusted_pvalues(self, family: Family = "fit") -> FloatArray:
        """Return p-values adjusted for a family of slopes, of shape (P,); see `Fit.adjusted_pvalues`."""
        first, adjusted = self.first, self.pvalues
        if (size := self.family_size(family)) == len(adjusted) - first:
            adjusted[first:] = holm(adjusted[first:])
        else:  # what the other fits would tell is not at hand
            adjusted[first:] = np.minimum(size * adjusted[first:], 1.0)
        return adjusted

    def f_test(self) -> TestResult:
        """Test that no term beside the constant matters."""
        if not len(self.slopes):
            _ = self.told  # says so where points are all there is
            raise EstimationError("there is no term beside the constant to test")
        found = self.test(self.slopes, np.zeros(len(self.slopes)))
        return replace(found, hypothesis="no term beside the constant matters")

    def method_of(self, method: IntervalMethod | None, bound: Bound | None) -> IntervalMethod:
        """Return the method that is meant where none is stated. Raise `ValueError` where a bound does not go with it.

        A bound is for the score test alone.
        """
        method = method or (self.method if bound is None else "fieller")
        if method not in INTERVAL_METHODS:
            raise ValueError(f"method must be one of {', '.join(INTERVAL_METHODS)}, not {method!r}")
        if bound is not None and method != "fieller":
            raise ValueError(f"a bound goes with method 'fieller' alone, not {method!r}")
        return method

    def conf_int(
        self,
        level: float = 0.95,
        method: IntervalMethod | None = None,
        bound: Bound | None = None,
        simultaneous: bool | Family = False,
    ) -> FloatArray:
        """Return the P confidence intervals, of shape (P, 2), in raw units; see `Fit.conf_int`."""
        _ = self.told  # says so where points are all there is
        method = self.method_of(method, bound)
        if not simultaneous:
            return self._conf_int(level, method, bound)
        if method in {"bootstrap", "posterior"}:
            raise ValueError(f"simultaneous intervals are not read off draws: take 'fieller', not {method!r}")
        size = max(self.family_size("fit" if simultaneous is True else simultaneous), 1)
        if size > SLOPES_MAX:
            raise EstimationError(f"the columns allow {size:.2g} slopes: too many for intervals that hold together")
        together = self._conf_int(1.0 - (1.0 - level) / size, method, bound)
        together[: self.first] = self._conf_int(level, method, bound)[: self.first]
        return together

    def _conf_int(self, level: float, method: IntervalMethod, bound: Bound | None) -> FloatArray:
        """Return the P confidence intervals, each by itself."""
        if method != "delta":
            raise EstimationError(
                f"intervals of this fit are those of method 'delta', not {method!r}: a quantile of the "
                "standard error to each side of the estimate"
            )
        half = self.quantile(level) * self.std_errors
        return np.column_stack([self.params - half, self.params + half])


class WaldResults(Results):
    """Coefficients with a covariance and a normal law: infinite on the diagonal where a number is not bounded."""

    def quantile(self, level: float) -> float:
        """Return that of the normal law."""
        return -NormalDist().inv_cdf((1.0 - level) / 2.0)

    def contrast_sets(self, contrasts: FloatArray, offsets: FloatArray, level: float) -> list[ConfidenceSet]:
        """Return Wald's intervals of contrasts; the whole line where nothing bounds one."""
        centers = contrasts @ self.solved.theta + offsets
        halves = self.quantile(level) * np.sqrt(np.diag(self.covariance_of(contrasts)))
        return [
            ConfidenceSet("interval" if math.isfinite(half) else "line", center - half, center + half)
            for center, half in zip(centers.tolist(), halves.tolist(), strict=True)
        ]

    def test(self, contrasts: FloatArray, values: FloatArray) -> TestResult:
        r"""Test :math:`C\theta = r` by Wald's statistic; NaN where nothing bounds a part of it."""
        covariance, q = self.covariance_of(contrasts), len(contrasts)
        if not np.isfinite(covariance).all():
            return TestResult(math.nan, q, math.inf, math.nan)
        off = contrasts @ self.solved.theta - values
        statistic = float(off @ np.linalg.solve(covariance, off))
        return TestResult(statistic / q, q, math.inf, chi2_tail(statistic, q))


class Points(Results):
    """Coefficients of which nothing else is told.

    Parameters
    ----------
    solved : Solved
    untold : str
        The reason, and what would tell more.
    """

    def __init__(self, solved: Solved, untold: str) -> None:
        self._solved, self.untold = solved, untold

    @property
    def solved(self) -> Solved:
        """The coefficients in scaled units."""
        return self._solved

    @property
    def told(self) -> Any:
        """Raise `EstimationError` with the reason."""
        return self._untold()

    def _untold(self, *args: Any, **options: Any) -> Any:
        raise EstimationError(self.untold)

    covariance_of = contrast_sets = test = quantile = _untold


def shifted(sets: Iterable[ConfidenceSet], offsets: Iterable[float]) -> list[ConfidenceSet]:
    """Return confidence sets that are moved."""
    return [
        ConfidenceSet(found.kind, found.lower + float(shift), found.upper + float(shift))
        for found, shift in zip(sets, offsets, strict=True)
    ]
