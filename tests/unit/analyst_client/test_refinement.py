"""Releases as measurements of one pair XᵀX, Xᵀy, and coefficients of what is known of it."""

import numpy as np
import pytest

from analyst_client.refinement.belief import TERMS_MAX, Belief
from analyst_client.refinement.solution import shrunk_coefficients

SDS = (9.0, 9.0 / np.sqrt(2), 4.0)


def draw_rows(n=2000, d=4, seed=0):
    generator = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), generator.standard_normal((n, d - 1))])
    x[:, 2] = 0.8 * x[:, 1] + 0.6 * x[:, 2]
    y = x @ np.array([0.1, 0.5, -0.3, 0.0]) + 0.5 * generator.standard_normal(n)
    return x.T @ x, x.T @ y


def noisy(A, b, generator, sds=SDS):
    d = len(b)
    beside = np.triu(sds[1] * generator.standard_normal((d, d)), 1)
    return (
        A + beside + beside.T + np.diag(sds[0] * generator.standard_normal(d)),
        b + sds[2] * generator.standard_normal(d),
    )


def believe_gram(A, b, sds=SDS):
    """Return what a Gram alone tells: what was known before is as good as nothing."""
    d = len(b)
    count = d * (d + 3) // 2
    belief = Belief(np.zeros(count), 1e12 * np.eye(count), d)
    see_gram(belief, A, b, sds)
    return belief


def see_gram(belief, A, b, sds=SDS):
    belief.see_xtx(A, *sds[:2])
    belief.see_score(np.eye(len(b)), np.zeros(len(b)), b, sds[2])


def believe_standard_terms(d, n):
    return Belief.of_standard_terms(n, 0.25, np.ones(d, dtype=bool))


class TestBelief:
    def test_of_a_gram_alone_is_the_gram_with_its_noise(self):
        A, b = draw_rows()
        belief = believe_gram(A, b)
        assert np.allclose(belief.xtx, A)
        assert np.allclose(belief.xty, b)
        theta = np.array([0.0, 1.0, 0.0, -2.0])
        # (b − Aθ)_j has the noise of b_j, of A_j1 and of A_j3.
        expected = [4**2 + 5 * 40.5, 4**2 + 81 + 4 * 40.5, 4**2 + 5 * 40.5, 4**2 + 40.5 + 4 * 81]
        assert np.allclose(np.diag(belief.score_covariance(theta)), expected)

    def test_two_grams_are_as_good_as_their_mean(self):
        A, b = draw_rows()
        generator = np.random.default_rng(1)
        one, other = noisy(A, b, generator), noisy(A, b, generator)
        belief = believe_gram(*one)
        see_gram(belief, *other)
        assert np.allclose(belief.xtx, (one[0] + other[0]) / 2)
        assert np.allclose(belief.xty, (one[1] + other[1]) / 2)
        assert np.allclose(belief.covariance, believe_gram(*one).covariance / 2)

    def test_a_score_is_seen_as_generalised_least_squares_does(self):
        A, b = draw_rows()
        generator = np.random.default_rng(2)
        xtx, xty = noisy(A, b, generator)
        P, theta = generator.standard_normal((4, 3)), generator.standard_normal(4)
        score = P.T @ (b - A @ theta) + 2.0 * generator.standard_normal(3)
        belief = believe_gram(xtx, xty)
        belief.see_score(P, theta, score, 2.0)

        start = believe_gram(xtx, xty)
        rows = []  # the score as a function of the entries, by differences
        for k in range(len(start.mean)):
            entries = np.zeros(len(start.mean))
            entries[k] = 1.0
            one = Belief(entries, start.covariance, 4)
            rows.append(P.T @ (one.xty - one.xtx @ theta))
        form = np.array(rows).T
        precision = np.linalg.inv(start.covariance) + form.T @ form / 4
        mean = np.linalg.solve(precision, np.linalg.solve(start.covariance, start.mean) + form.T @ score / 4)
        assert np.allclose(belief.mean, mean)
        assert np.allclose(belief.covariance, np.linalg.inv(precision))

    def test_its_covariance_is_that_of_its_errors(self):
        A, b = draw_rows()
        generator = np.random.default_rng(3)
        P, theta, at = generator.standard_normal((4, 4)), generator.standard_normal(4), generator.standard_normal(4)
        squares = []
        repeats = 4000
        for _ in range(repeats):
            belief = believe_gram(*noisy(A, b, generator))
            belief.see_score(P, theta, P.T @ (b - A @ theta) + 3.0 * generator.standard_normal(4), 3.0)
            errors = (belief.xty - belief.xtx @ at) - (b - A @ at)
            squares.append(errors @ np.linalg.solve(belief.score_covariance(at), errors))
        # χ² of 4 degrees has mean 4 and variance 8.
        assert abs(np.mean(squares) - 4) < 3 * np.sqrt(8 / repeats)

    def test_too_many_terms_are_refused(self):
        with pytest.raises(ValueError, match="at most 64"):
            Belief(np.zeros(3), np.eye(3), TERMS_MAX + 1)


class TestShrunkCoefficients:
    def test_without_noise_they_are_least_squares(self):
        A, b = draw_rows()
        belief = believe_gram(A, b, (1e-3, 1e-3, 1e-3))
        assert np.allclose(shrunk_coefficients(belief, 2000, np.zeros(4)), np.linalg.solve(A, b), atol=1e-5)

    def test_with_much_noise_they_are_near_nothing(self):
        A, b = draw_rows()
        belief = believe_standard_terms(4, 2000.0)
        see_gram(belief, *noisy(A, b, np.random.default_rng(4), (1e5, 1e5, 1e5)), (1e5, 1e5, 1e5))
        assert np.linalg.norm(shrunk_coefficients(belief, 2000, np.zeros(4))[1:]) < 0.1

    def test_they_are_nearer_than_least_squares_where_noise_is_large(self):
        A, b = draw_rows()
        exact = np.linalg.solve(A, b)
        generator = np.random.default_rng(5)
        sds, plain, shrunk = (150.0, 106.0, 150.0), [], []
        for _ in range(50):
            xtx, xty = noisy(A, b, generator, sds)
            belief = believe_standard_terms(4, 2000.0)
            see_gram(belief, xtx, xty, sds)
            for errors, found in (
                (plain, np.linalg.solve(xtx, xty)),
                (shrunk, shrunk_coefficients(belief, 2000, np.zeros(4))),
            ):
                errors.append((found - exact) @ A @ (found - exact))
        assert np.mean(shrunk) < 0.8 * np.mean(plain)
