"""The law of a refined fit's noise is that of its draws."""

import numpy as np
import pytest

from analyst_client.inference.noise import CorrectedLaw

D, DRAWS = 3, 40_000
CENTER, BETA, GAMMA = np.array([0.4, -0.6, 0.2]), np.array([0.7, -0.1, 0.3]), np.array([0.2, -0.9, 0.5])
ROOT = np.array([[2.0, 0.0, 0.0], [0.5, 1.5, 0.0], [-0.3, 0.2, 1.0]])
YTY = 4.0


@pytest.fixture(scope="module")
def law() -> CorrectedLaw:
    variances = np.full((D, D), 2.0) + 2.0 * np.eye(D)
    return CorrectedLaw(variances, np.zeros(D), YTY, 0.0, CENTER, ROOT @ ROOT.T)


@pytest.fixture(scope="module")
def draws(law: CorrectedLaw) -> tuple[np.ndarray, np.ndarray]:
    return law.draw(np.random.default_rng(11), DRAWS)


def agree(products: np.ndarray, expected: float) -> bool:
    """Return whether a mean is within four standard errors of what is expected."""
    return abs(products.mean() - expected) < 4.0 * products.std() / np.sqrt(len(products))


@pytest.mark.parametrize("beta", [BETA, CENTER, np.zeros(D)], ids=["away", "at the center", "at 0"])
def test_its_covariance_is_that_of_the_equations(law, draws, beta) -> None:
    E, e = draws
    off = e - E @ beta
    expected = law.covariance(beta)
    for i in range(D):
        for j in range(D):
            assert agree(off[:, i] * off[:, j], expected[i, j])


def test_at_the_center_the_noise_is_that_of_the_score(law) -> None:
    assert law.covariance(CENTER) == pytest.approx(law.score)


def test_its_quadratic_form_is_the_trace_up_to_a_constant(law) -> None:
    Z = np.array([[2.0, 0.3, -0.1], [0.3, 1.0, 0.2], [-0.1, 0.2, 0.5]])
    N, linear = law.quadratic_form(Z)

    def trace(beta: np.ndarray) -> float:
        return float(np.sum(Z * law.covariance(beta)))

    for beta in (BETA, GAMMA, CENTER):
        assert beta @ N @ beta + 2.0 * linear @ beta == pytest.approx(trace(beta) - trace(np.zeros(D)))


def test_residual_sums_vary_together_as_it_says(law, draws) -> None:
    E, e = draws
    f = np.sqrt(YTY) * np.random.default_rng(12).standard_normal(DRAWS)

    def residual_sum(beta: np.ndarray) -> np.ndarray:
        return f - 2.0 * e @ beta + np.einsum("kij,i,j->k", E, beta, beta)

    for one, other in ((BETA, BETA), (BETA, GAMMA), (CENTER, GAMMA)):
        assert agree(residual_sum(one) * residual_sum(other), law.residual_sum_covariance(one, other))
