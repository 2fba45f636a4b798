"""From a share of a price to an integer scale: the least that affords, and the published formulas to the letter."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_service.kinds.gram.sensitivity import nieminen_sensitivity
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant
from curator_service.privacy.calibration import (
    CALIBRATIONS,
    Calibration,
    PlanError,
    scale_for,
    sigma_for,
    sigma_of_formula,
)
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.parts import GaussianPart
from curator_service.privacy.samplers import SCALE_MAX, SCALE_MIN

QUICK = settings(deadline=None)
SENSITIVITIES_SQUARED = st.fractions(min_value=Fraction(2**20), max_value=Fraction(2**80))
NUMBERS = st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1))
every_curved = pytest.mark.parametrize("accountant", [GDP, ZCDP], ids=lambda a: a.name)


def test_which_calibrations_each_mechanism_has() -> None:
    assert {m.value: [c.value for c in known] for m, known in CALIBRATIONS.items()} == {
        "gaussian": ["analytic", "classical", "wang2018"],
        "laplace": ["analytic", "nieminen2017"],
    }


# --- the account's own arithmetic -------------------------------------------------------------------------------------


@QUICK
@given(SENSITIVITIES_SQUARED, NUMBERS, st.sampled_from([GDP, ZCDP]))
def test_sigma_is_the_least_integer_that_affords(squared: Fraction, number: Fraction, accountant: Accountant) -> None:
    try:
        sigma = sigma_for(accountant, squared, number)
    except PlanError:
        return
    assert SCALE_MIN <= sigma <= SCALE_MAX
    assert accountant.gaussian(GaussianPart(Statistic.YTY, squared, sigma)) <= number
    assert accountant.gaussian(GaussianPart(Statistic.YTY, squared, sigma - 1)) > number


def test_sigma_of_an_exact_square_is_not_rounded_up() -> None:
    assert sigma_for(GDP, Fraction(2**20 - 9), Fraction(1)) == 2**10
    assert sigma_for(GDP, Fraction(2**20 - 9) + Fraction(1, 10**9), Fraction(1)) == 2**10 + 1
    assert sigma_for(ZCDP, Fraction(2**20), Fraction(1, 2)) == 2**10
    assert sigma_for(ZCDP, Fraction(2**20) + Fraction(1, 10**9), Fraction(1, 2)) == 2**10 + 1


@pytest.mark.parametrize(("accountant", "loss", "number"), [(GDP, 9, 1), (ZCDP, 0, "1/2")])
def test_the_ends_of_the_sigma_range_are_allowed_and_no_more(accountant: Accountant, loss: int, number: str) -> None:
    price = Fraction(number)
    assert sigma_for(accountant, Fraction(SCALE_MAX**2 - loss), price) == SCALE_MAX
    assert sigma_for(accountant, Fraction(SCALE_MIN**2 - loss), price) == SCALE_MIN
    with pytest.raises(PlanError, match="too small"):
        sigma_for(accountant, Fraction(SCALE_MAX**2 - loss + 1), price)
    with pytest.raises(PlanError, match="too large"):
        sigma_for(accountant, Fraction((SCALE_MIN - 1) ** 2 - loss), price)


@every_curved
@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_nothing_buys_no_sigma(accountant: Accountant, number: int) -> None:
    with pytest.raises(PlanError, match="smallest unit") as refusal:
        sigma_for(accountant, Fraction(10**12), Fraction(number))
    assert refusal.value.field == "price"


@QUICK
@given(
    st.fractions(min_value=Fraction(1), max_value=Fraction(2**60)),
    st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(1000)),
)
def test_a_laplace_scale_is_the_least_integer_that_affords(sensitivity: Fraction, epsilon: Fraction) -> None:
    try:
        scale = scale_for(sensitivity, epsilon)
    except PlanError:
        assert not SCALE_MIN <= math.ceil(sensitivity / epsilon) <= SCALE_MAX
        return
    assert SCALE_MIN <= scale <= SCALE_MAX
    assert sensitivity / scale <= epsilon < sensitivity / (scale - 1)


def test_a_laplace_scale_of_an_exact_quotient_is_not_rounded_up() -> None:
    assert scale_for(Fraction(10**6), Fraction(1, 10)) == 10**7
    assert scale_for(Fraction(10**6) + Fraction(1, 10**9), Fraction(1, 10)) == 10**7 + 1


def test_the_ends_of_the_laplace_range_are_allowed_and_no_more() -> None:
    assert scale_for(Fraction(SCALE_MAX), Fraction(1)) == SCALE_MAX
    assert scale_for(Fraction(SCALE_MIN), Fraction(1)) == SCALE_MIN
    with pytest.raises(PlanError, match="too small") as small:
        scale_for(Fraction(SCALE_MAX + 1), Fraction(1))
    with pytest.raises(PlanError, match="too large") as large:
        scale_for(Fraction(SCALE_MIN - 1), Fraction(1))
    assert small.value.field == large.value.field == "price"


# --- published formulas -----------------------------------------------------------------------------------------------


def formula(calibration: Calibration, squared: Fraction, epsilon: Fraction, delta: Fraction) -> int:
    """Evaluate σ of the formula with 60 digits, and round it up.

    The code rounds its logarithm up by 1e-30: so does this, or a value within 1e-20 of an integer would differ.
    """
    context = mpmath.MPContext()
    context.dps = 60
    d = context.mpf(delta.numerator) / delta.denominator
    root = 2 * context.log(context.mpf(5) / 4 / d) if calibration is Calibration.CLASSICAL else context.log(2 / d)
    length = context.sqrt(context.mpf(squared.numerator) / squared.denominator * root)
    return int(context.ceil(length * epsilon.denominator / epsilon.numerator * (1 + context.mpf(10) ** -30)))


@QUICK
@given(
    st.sampled_from([Calibration.CLASSICAL, Calibration.WANG2018]),
    st.integers(2**30, 2**70).map(Fraction),
    st.floats(-3, -0.01).map(lambda p: Fraction(10**p)),
    st.floats(-14, -0.1).map(lambda p: Fraction(10**p)),
)
@example(Calibration.CLASSICAL, Fraction(2**60), Fraction(1, 3), Fraction(1, 3 * 10**6))
@example(Calibration.WANG2018, Fraction(2**60), Fraction(1, 3), Fraction(1, 3 * 10**6))
def test_sigma_of_a_formula_is_rounded_up_to_the_next_integer(
    calibration: Calibration, squared: Fraction, epsilon: Fraction, delta: Fraction
) -> None:
    assert sigma_of_formula(calibration, squared, epsilon, delta) == formula(calibration, squared, epsilon, delta)


def test_wang_s_three_equal_parts_have_his_formula() -> None:
    # Algorithm 2: each of the three has sigma = sensitivity * sqrt(ln(6/delta)) / (epsilon/3).
    third = Fraction(1, 3)
    sigma = sigma_of_formula(Calibration.WANG2018, Fraction(2**80), third, third / 10**6)
    assert sigma / 2**40 == pytest.approx(math.sqrt(math.log(6e6)) * 3, rel=1e-10)


def test_kalaja_s_parts_have_dwork_and_roth_s_formula() -> None:
    third = Fraction(1, 3)
    sigma = sigma_of_formula(Calibration.CLASSICAL, Fraction(2**80), third, third / 10**6)
    assert sigma / 2**40 == pytest.approx(math.sqrt(2 * math.log(1.25 * 3e6)) * 3, rel=1e-10)


@pytest.mark.parametrize("calibration", [Calibration.CLASSICAL, Calibration.WANG2018])
def test_a_formula_outside_of_the_lattice_is_refused(calibration: Calibration) -> None:
    with pytest.raises(PlanError, match="too small"):
        sigma_of_formula(calibration, Fraction(2**110), Fraction(1, 10), Fraction(1, 10**6))
    with pytest.raises(PlanError, match="too large"):
        sigma_of_formula(calibration, Fraction(100), Fraction(1, 10), Fraction(1, 10**6))


@pytest.mark.parametrize("d", [1, 2, 7, 50])
def test_nieminen_s_sensitivities_are_those_of_the_thesis(d: int) -> None:
    bound = UNIT  # of a feature and of a target alike
    assert nieminen_sensitivity(Statistic.XTX, d) == d * (d + 1) * bound**2
    assert nieminen_sensitivity(Statistic.XTY, d) == 2 * d * bound * bound
    assert nieminen_sensitivity(Statistic.YTY, d) == bound**2


def test_a_refusal_is_a_value_error_that_names_its_field() -> None:
    error = PlanError("price", "too small")
    assert isinstance(error, ValueError)
    assert (error.field, str(error)) == ("price", "too small")


def test_a_pure_account_has_no_sigma() -> None:
    with pytest.raises(ValueError, match="Gaussian"):
        sigma_for(PURE, Fraction(10**12), Fraction(1))
