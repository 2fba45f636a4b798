"""Coefficients of several hospitals that were estimated one by one, each weighted by its own information."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.agreement import HeterogeneityTest
from analyst_client.inference.base import Points, Results, Solved, WaldResults
from analyst_client.inference.pooling import _widest
from analyst_client.inference.quantiles import chi2_tail
from analyst_client.schema.columns import Column, Term

LEVEL = 0.95
"""Of the intervals that a hospital's standard errors are read off."""
NORMAL = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)
ROUNDING = 1e-9


class Estimate(NamedTuple):
    """The parameters of one hospital in raw units, by its own rows.

    Attributes
    ----------
    params : ndarray of shape (P,)
    covariance : ndarray of shape (P, P)
        Infinite on its diagonal, and 0 beside it, where the hospital does not bound a parameter.
    """

    params: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, results: Results, names: Sequence[str]) -> "Estimate":
        r"""Read estimates, in an order of names.

        Parameters
        ----------
        results : Results
        names : sequence of str

        Raises
        ------
        EstimationError
            When nothing is told but points.

        Notes
        -----
        A standard error is half of the 95 % interval over 1.96. Of a linear model that interval inverts the score test,
        and is the longer the less sure XᵀX is, up to where it has no end. So a hospital that tells little weighs
        little.
        """
        sets = results.told.confidence_sets(LEVEL)
        order = [results.names.index(name) for name in names]
        halves = np.array([(sets[j].upper - sets[j].lower) / 2.0 if sets[j].is_bounded else math.inf for j in order])
        found = results.cov_params()[np.ix_(order, order)]
        told = np.flatnonzero(np.isfinite(halves))
        places = np.ix_(told, told)
        longer = halves[told] / NORMAL / np.sqrt(np.diag(found)[told])
        covariance = np.diag(np.where(np.isfinite(halves), 0.0, math.inf))
        covariance[places] = longer[:, np.newaxis] * found[places] * longer
        return cls(results.params[order], covariance)

    def shared(self, overlap: int) -> "Estimate":
        r"""Return the estimate as one of several refinements of the same people.

        Of m of them covariances are m times as large, whatever their errors have in common:
        :math:`\mathrm{Var}(\sum_k W_kx_k) \preceq m\sum_k W_kV_kW_k^\top`.
        """
        return Estimate(self.params, overlap * self.covariance)

    @property
    def told(self) -> NDArray[np.intp]:
        """Places of the parameters that the hospital bounds."""
        return np.flatnonzero(np.isfinite(np.diag(self.covariance)))

    @property
    def information(self) -> FloatArray:
        """The inverse covariance of what the hospital bounds, and 0 for the rest."""
        whole, places = np.zeros_like(self.covariance), np.ix_(self.told, self.told)
        whole[places] = _inverse(self.covariance[places])
        return whole


class CombinedResults(WaldResults):
    """Coefficients that several hospitals have in common.

    Parameters
    ----------
    solved : Solved
    covariance : ndarray of shape (P, P)
        Of the parameters in raw units; infinite on its diagonal, and 0 beside it, where no hospital bounds one.
    estimates : tuple of Estimate
    """

    def __init__(self, solved: Solved, covariance: FloatArray, estimates: Sequence[Estimate]) -> None:
        self._solved, self._covariance, self.estimates = solved, covariance, tuple(estimates)

    @property
    def solved(self) -> Solved:
        """The coefficients in scaled units."""
        return self._solved

    def covariance_of(self, contrasts: FloatArray) -> FloatArray:
        """Return the covariance of linear functions of the scaled coefficients; ∞ where no hospital bounds one."""
        inverse, count = np.linalg.inv(self.contrasts[:, : len(self.names)]), len(self.names)
        factors = contrasts[:, :count] @ inverse
        rounded = ROUNDING * (np.abs(contrasts[:, :count]) @ np.abs(inverse))
        told = np.flatnonzero(np.isfinite(np.diag(self._covariance)))
        hidden = np.delete(np.abs(factors) > rounded, told, axis=1).any(axis=1)
        found: FloatArray = factors[:, told] @ self._covariance[np.ix_(told, told)] @ factors[:, told].T
        found[hidden], found[:, hidden] = 0.0, 0.0
        found[hidden, hidden] = math.inf
        return found

    def heterogeneity_test(self) -> HeterogeneityTest:
        r"""Test that all hospitals have the same coefficients: Cochran's Q.

        Notes
        -----
        :math:`\sum_k(\hat\beta_k - \hat\beta)^\top V_k^{-1}(\hat\beta_k - \hat\beta)` is χ² if they have, with as many
        degrees of freedom as hospitals told parameters, less those that any told.
        """
        counts = [len(one.told) for one in self.estimates]
        dof = sum(counts) - int(np.isfinite(np.diag(self._covariance)).sum())
        if dof == 0:
            raise EstimationError("heterogeneity needs two hospitals that bound the same coefficient")
        off = [one.params - self.params for one in self.estimates]
        statistic = float(sum(d @ one.information @ d for d, one in zip(off, self.estimates, strict=True)))
        return HeterogeneityTest(statistic, dof, chi2_tail(statistic, dof))

    def _of_one(self) -> Any:
        raise EstimationError(
            "a fit of several refinements tells coefficients, with their intervals and tests. This is told of each "
            "hospital by itself: hospitals_ has their fits"
        )

    equations = law = solution = property(_of_one)
    privacy_share = vif = rsquared = rsquared_adj = rsquared_interval = scale = identification = property(_of_one)


def combine(common: Solved, estimates: Sequence[Estimate], untold: FloatArray) -> CombinedResults:
    r"""Combine what hospitals estimated of the same coefficients: generalised least squares.

    Parameters
    ----------
    common : Solved
        Terms within the bounds of all hospitals, and the coefficient of an offset.
    estimates : sequence of Estimate
    untold : ndarray of shape (P,)
        Points in place of parameters that no hospital bounds.

    Notes
    -----
    With estimates :math:`\hat\beta_k` of covariance :math:`V_k`, and no information on what a hospital does not bound,
    :math:`\hat\beta = (\sum_k V_k^{-1})^{-1}\sum_k V_k^{-1}\hat\beta_k`, of covariance
    :math:`(\sum_k V_k^{-1})^{-1}`: multivariate meta-analysis with fixed effects [1]_.

    References
    ----------
    .. [1] D. Jackson, R. Riley, I. White, "Multivariate meta-analysis: potential and promise", Statistics in Medicine
       30, 2011.
    """
    information = np.sum([one.information for one in estimates], axis=0)
    told = np.flatnonzero(np.diag(information))
    covariance = np.diag(np.full(len(information), math.inf))
    covariance[np.ix_(told, told)] = _inverse(information[np.ix_(told, told)])
    params, moment = untold.copy(), np.sum([one.information @ one.params for one in estimates], axis=0)
    params[told] = covariance[np.ix_(told, told)] @ moment[told]
    return CombinedResults(at_params(common, params), covariance, estimates)


def common_terms(listed: Sequence[Sequence[Term]]) -> tuple[Term, ...]:
    """Return the terms of the first hospital, numbers within the bounds of all. Raise `ValueError` for other terms."""
    names = [{term.name for term in terms} for terms in listed]
    for found in names:
        if odd := found ^ names[0]:
            raise ValueError(
                f"releases have different terms: {', '.join(sorted(odd))}. Ask the same features of every curator"
            )
    by_name = [{term.name: term for term in terms} for terms in listed]
    return tuple(_widest([named[term.name] for named in by_name]) for term in listed[0])


def common_columns(listed: Iterable[Iterable[Column]]) -> tuple[Column, ...]:
    """Return the columns of the first hospital, numbers within the bounds of all, levels in any order.

    Raises
    ------
    ValueError
        When levels are other ones.
    """
    by_name = [{column.name: column for column in columns} for columns in listed]
    columns = []
    for column in by_name[0].values():
        same = [named[column.name] for named in by_name if column.name in named]
        lower = [c.lower for c in same if c.lower is not None]
        upper = [c.upper for c in same if c.upper is not None]
        if any(_levels(c) != _levels(column) or c.type != column.type for c in same):
            raise ValueError(f"releases declare different levels of {column.name!r}")
        bounded = len(lower) == len(same)
        columns.append(replace(column, lower=min(lower) if bounded else None, upper=max(upper) if bounded else None))
    return tuple(columns)


def _levels(column: Column) -> tuple[str, ...]:
    """Return levels in an order of their own, as terms name those that are coded; of a boolean false and true."""
    return tuple(sorted(column.levels)) if column.type == "categorical" else column.levels


def at_params(common: Solved, params: FloatArray) -> Solved:
    """Return scaled coefficients with these parameters in raw units; that of an offset stays."""
    units, count = Points(common, ""), len(params)
    left = params - units.offsets - units.contrasts[:, count:] @ common.theta[count:]
    theta = np.linalg.solve(units.contrasts[:, :count], left)
    return common._replace(theta=np.concatenate([theta, common.theta[count:]]))


def _inverse(A: FloatArray) -> FloatArray:
    """Return the inverse of a covariance, whatever the units of its rows."""
    roots = np.sqrt(np.diag(A))
    inverse: FloatArray = np.linalg.inv(A / np.outer(roots, roots)) / np.outer(roots, roots)
    return inverse
