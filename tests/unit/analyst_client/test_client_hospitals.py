"""Estimates of several hospitals combined in raw units, whatever the bounds and whichever parameters each tells."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from analyst_client import Column, EstimationError
from analyst_client.arrays import FloatArray
from analyst_client.inference.base import Points, Solved, WaldResults
from analyst_client.inference.combined import CombinedResults, Estimate, at_params, combine, common_columns
from analyst_client.schema.columns import CONSTANT, Term

TERMS = (
    Term(CONSTANT, "constant"),
    Term("age", "numeric", "age", 60.0, 20.0),
    Term("sex[M]", "level", "sex", level="M"),
)
TARGET = Term("kappa", "numeric", "kappa", 3.0, 3.0)
PARAMS = [np.array([1.0, 0.02, -0.5]), np.array([1.3, 0.015, -0.4])]
ROOT = np.array([[1.0, 0.0, 0.0], [-0.01, 0.004, 0.0], [0.1, 0.001, 0.2]])


class Told(WaldResults):
    """A hospital's results: parameters in raw units and their covariance; infinite where a place is hidden."""

    def __init__(self, params: FloatArray, covariance: FloatArray, hidden: tuple[int, ...] = ()) -> None:
        self._solved, self._raw, self._hidden = (
            at_params(Solved(TERMS, TARGET, np.zeros(3)), params),
            covariance,
            hidden,
        )

    @property
    def solved(self) -> Solved:
        return self._solved

    def covariance_of(self, contrasts: FloatArray) -> FloatArray:
        factors = contrasts @ np.linalg.inv(self.contrasts)
        return factors @ self._raw @ factors.T + np.diag([math.inf if k in self._hidden else 0.0 for k in range(3)])


def told(k: int, hidden: tuple[int, ...] = ()) -> Told:
    covariance = (k + 1) * ROOT @ ROOT.T + np.diag([0.0, 0.0, 0.1 * k])
    return Told(PARAMS[k], covariance, hidden)


def combined(*results: Told, overlap: int = 1, common: tuple[Term, ...] = TERMS) -> CombinedResults:
    names = [term.name for term in common]
    estimates = [Estimate.of(one, names).shared(overlap) for one in results]
    return combine(Solved(common, TARGET, np.zeros(3)), estimates, np.array([9.0, 9.0, 9.0]))


def stacked(*places: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return generalised least squares of what each hospital tells, by one stacked regression."""
    rows, values = [], []
    for k, kept in enumerate(places):
        covariance = told(k)._raw[np.ix_(kept, kept)]
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        rows.append(whiten @ np.eye(3)[list(kept)])
        values.append(whiten @ PARAMS[k][list(kept)])
    A, b = np.concatenate(rows), np.concatenate(values)
    return np.linalg.solve(A.T @ A, A.T @ b), np.linalg.inv(A.T @ A)


@pytest.mark.parametrize("hidden", [((), ()), ((0,), ()), ((0, 2), (1,)), ((), (0, 1))])
def test_a_hospital_tells_what_it_bounds(hidden: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    fit = combined(told(0, hidden[0]), told(1, hidden[1]))
    params, covariance = stacked(*(tuple(k for k in range(3) if k not in one) for one in hidden))
    assert fit.params == pytest.approx(params, rel=1e-9)
    assert fit.cov_params() == pytest.approx(covariance, rel=1e-9)
    assert fit.test(np.eye(3)[1:2], np.zeros(1)).pvalue == pytest.approx(fit.pvalues[1])


def test_what_nobody_bounds_has_no_end() -> None:
    fit = combined(told(0, (0,)), told(1, (0,)))
    assert fit.params[0] == pytest.approx(9.0)
    assert np.isinf(fit.std_errors).tolist() == [True, False, False]
    assert np.isinf(fit.conf_int()).any(axis=1).tolist() == [True, False, False]
    assert math.isnan(fit.pvalues[0])
    assert fit.f_test().pvalue < 1.0
    assert fit.heterogeneity_test().dof == 2
    mean = fit.contrast_sets(np.array([[1.0, 0.3, 0.0]]), np.zeros(1), 0.95)
    assert not mean[0].is_bounded


def test_one_hospital_with_others_that_tell_nothing_is_itself() -> None:
    fit = combined(told(1), told(0, (0, 1, 2)))
    assert fit.params == pytest.approx(PARAMS[1])
    assert fit.cov_params() == pytest.approx(told(1)._raw)
    with pytest.raises(EstimationError, match="needs two hospitals"):
        fit.heterogeneity_test()


def test_bounds_and_order_do_not_matter() -> None:
    wide = (TERMS[0], TERMS[2], replace(TERMS[1], center=50.0, scale=50.0))
    fit, other = combined(told(0), told(1)), combined(told(0), told(1), common=wide)
    assert other.params[[0, 2, 1]] == pytest.approx(fit.params)
    assert other.std_errors[[0, 2, 1]] == pytest.approx(fit.std_errors)
    assert other.heterogeneity_test().statistic == pytest.approx(fit.heterogeneity_test().statistic)


def test_the_same_people_twice_tell_as_much_as_once() -> None:
    once, twice = told(0), combined(told(0), told(0), overlap=2)
    assert twice.cov_params() == pytest.approx(once._raw)
    assert combined(told(0), told(0)).cov_params() == pytest.approx(once._raw / 2.0)


def test_an_offset_keeps_its_coefficient() -> None:
    offset = Term("log(years)", "numeric", "log(years)", 1.0, 2.0)
    common = Solved((*TERMS, offset), Term("n", "numeric", "index"), np.array([0.0, 0.0, 0.0, 2.0]), free=3)
    found = at_params(common, PARAMS[0])
    assert Points(found, "").params == pytest.approx(PARAMS[0])
    rows = np.array([1.0, (70.0 - 60.0) / 20.0, 1.0, (4.0 - 1.0) / 2.0])
    assert rows @ found.theta == pytest.approx(1.0 + 70.0 * 0.02 - 0.5 + 4.0)


def test_cochran_s_q_and_what_is_of_one_hospital() -> None:
    fit = combined(told(0), told(1))
    off = PARAMS[0] - PARAMS[1]
    assert fit.heterogeneity_test().statistic == pytest.approx(off @ np.linalg.solve(told(0)._raw + told(1)._raw, off))
    again = pickle.loads(pickle.dumps(fit))
    assert again.conf_int() == pytest.approx(fit.conf_int())
    with pytest.raises(EstimationError, match="hospitals_ has their fits"):
        _ = fit.rsquared
    with pytest.raises(EstimationError, match="of method 'delta'"):
        fit.conf_int(method="fieller")


def test_levels_stand_in_any_order() -> None:
    north, south = Column.categorical("ward", ["a", "b", "c"]), Column.categorical("ward", ["a", "c", "b"])
    assert common_columns([[north], [south]]) == (north,)
    for other in (Column.categorical("ward", ["a", "b"]), Column.boolean("ward")):
        with pytest.raises(ValueError, match="different levels of 'ward'"):
            common_columns([[north], [other]])
    with pytest.raises(ValueError, match="different levels of 'ill'"):
        common_columns([[Column.boolean("ill", ("no", "yes"))], [Column.boolean("ill", ("yes", "no"))]])
