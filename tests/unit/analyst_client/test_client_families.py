"""Several slopes and several models at once: adjusted p-values, intervals that hold together, and who is told so."""

import math

import numpy as np
import pytest
from client_examples import release_of_rows
from statsmodels.stats.multitest import multipletests

from analyst_client import OLS, Column, Release, correlations
from analyst_client.inference.multiplicity import count_models, count_slopes, holm

ROWS = np.random.default_rng(5).uniform(-1.0, 1.0, (400, 4))
COLUMNS: list[str | Column] = [
    *(Column.numeric(name, -1, 1) for name in ("a", "b", "c")),
    Column.categorical("site", ["N", "S"]),
]
ROWS[:, 3] = ROWS[:, 3] > 0.0
Y = 0.2 * ROWS[:, 0] + np.random.default_rng(6).normal(0.0, 0.3, 400)


def release(seed: int = 0) -> Release:
    noise = np.random.default_rng(seed).normal(0.0, 1e-6)  # another text
    return release_of_rows(ROWS, Y + noise, features=COLUMNS, targets=[Column.numeric("y", -2, 2)])


@pytest.mark.parametrize("m", [1, 2, 7])
def test_holm_is_that_of_statsmodels(m: int) -> None:
    for pvalues in np.random.default_rng(m).random((4, m)) ** 3:
        assert holm(pvalues) == pytest.approx(multipletests(pvalues, method="holm")[1])


def test_slopes_are_adjusted_together_and_the_constant_is_not() -> None:
    fit = OLS().fit(release())
    adjusted, plain = fit.adjusted_pvalues(), fit.pvalues_
    assert adjusted[1:] == pytest.approx(multipletests(plain[1:], method="holm")[1])
    assert adjusted[0] == plain[0]
    assert fit.tidy()["p_holm"].tolist() == pytest.approx(adjusted.tolist())
    size = count_slopes(release())
    assert fit.adjusted_pvalues("release")[1:] == pytest.approx(np.minimum(size * plain[1:], 1.0))


def test_simultaneous_intervals_are_those_of_a_smaller_error() -> None:
    fit = OLS().fit(release())
    for family, size in ((True, 4), ("fit", 4), ("release", count_slopes(release()))):
        found = fit.conf_int(simultaneous=family)  # type: ignore[arg-type]
        assert found[1:] == pytest.approx(fit.conf_int(1.0 - 0.05 / size)[1:])
        assert found[0] == pytest.approx(fit.conf_int()[0])


@pytest.mark.parametrize("method", ["bootstrap", "posterior"])
def test_intervals_of_draws_do_not_hold_together(method: str) -> None:
    with pytest.raises(ValueError, match="not read off draws"):
        OLS().fit(release()).conf_int(method=method, simultaneous=True)  # type: ignore[arg-type]
    assert np.isfinite(OLS().fit(release()).conf_int(method="delta", simultaneous=True)).all()


@pytest.mark.parametrize("ask", [lambda fit: fit.adjusted_pvalues("all"), lambda fit: fit.conf_int(simultaneous="all")])
def test_an_unknown_family_is_refused(ask: object) -> None:
    with pytest.raises(ValueError, match="family must be one of fit, release"):
        ask(OLS().fit(release()))  # type: ignore[operator]


def test_slopes_of_all_fits_are_counted() -> None:
    """Each of four terms is in 8 models of y; with a, b or c as the target the other three are in 4 models each."""
    assert count_slopes(release()) == 4 * 8 + 3 * 3 * 4
    assert count_slopes(release().select(["a"])) == count_slopes(release())
    weighted = Release.from_arrays(release().xtx, release().xty, release().yty, features=COLUMNS, norm=1.0)
    assert count_slopes(weighted) == 4 * 8


def test_the_second_model_of_a_release_says_that_there_were_two() -> None:
    whole = release(seed=1)
    first = OLS().fit(whole)
    OLS().fit(whole, features=["site", "c", "b", "a"])  # the same one
    assert count_models(whole) == 1
    assert "models were fitted" not in str(first.summary())
    second = OLS().fit(whole, features=["a", "b"])
    assert count_models(whole) == count_models(whole.select(["c"])) == 2
    for fit in (first, second):
        (said,) = (text for text in fit.caveats() if "models were fitted" in text)
        assert said.startswith("2 models were fitted on this release in this session")
        assert "for all 68 slopes of all fits" in said
    assert count_models(release(seed=2)) == 0


def test_tables_of_several_tests_adjust_them() -> None:
    fit = OLS().fit(release(seed=3))
    table = fit.t_test(["a", "b", "(constant)"])
    plain = [one.pvalue for one in table.estimates]
    assert table.adjusted_pvalues[:2] == pytest.approx(multipletests(plain[:2], method="holm")[1])
    assert math.isnan(table.adjusted_pvalues[2])
    assert table.tidy()["p_holm"].tolist()[:2] == pytest.approx(table.adjusted_pvalues[:2])
    for shown in (table, fit.anova(), correlations(release()), fit.summary()):
        assert "p Holm" in str(shown)
    for alone in (fit.t_test("a"), OLS().fit(release(), features=["a"]).summary()):
        assert "p Holm" not in str(alone)
