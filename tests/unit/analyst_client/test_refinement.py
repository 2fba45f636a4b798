"""Releases as measurements of one pair XᵀX, Xᵀy, and coefficients of what is known of it."""

from dataclasses import replace

import numpy as np
import pytest

from analyst_client import Column, RefinementRules, Term
from analyst_client.kinds.marginals.items import Marginal
from analyst_client.refinement.belief import TERMS_MAX, Belief
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.places import Place, count_rows, places_by_moments
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


def terms():
    return (
        Term("(constant)", "constant"),
        Term("age", "numeric", "age", 75.0, 25.0),
        Term("sex[M]", "level", "sex", level="M"),
        Term("dose", "numeric", "dose", 0.0, 10.0),
    )


class TestFrame:
    FRAME = Frame.of(
        terms(),
        Term("y", "numeric", "y", 3.0, 3.0),
        {"age": Place(60.0, 5.0, 50.0, 70.0), "dose": Place(2.0, 4.0, -8.0, 10.0)},
        Place(2.0, 0.5, 0.0, 6.0),
    )

    def test_numbers_are_centred_and_scaled_and_other_terms_are_as_they_are(self):
        raw = np.array([[60.0, 1.0, 2.0], [65.0, 0.0, 6.0]])
        z = np.column_stack([np.ones(2), (raw[:, 0] - 75.0) / 25.0, raw[:, 1], raw[:, 2] / 10.0])
        assert z @ self.FRAME.matrix == pytest.approx(np.array([[1, 0, 1, 0], [1, 1, 0, 1]]))
        assert self.FRAME.known.tolist() == [True, True, False, True]

    def test_the_origin_predicts_the_mean_of_the_target(self):
        scaled = self.FRAME.to_terms(self.FRAME.origin)
        assert 3.0 + 3.0 * scaled[0] == pytest.approx(2.0)
        assert scaled[1:] == pytest.approx(0.0)

    def test_coefficients_and_directions_come_back(self):
        theta, P = np.array([0.5, -1.0, 2.0, 0.3]), np.random.default_rng(6).standard_normal((4, 2))
        assert self.FRAME.from_terms(self.FRAME.to_terms(theta)) == pytest.approx(theta)
        assert self.FRAME.directions_from_terms(self.FRAME.directions_to_terms(P)) == pytest.approx(P)

    def test_a_gradient_is_the_same_in_terms_and_in_coordinates(self):
        generator = np.random.default_rng(7)
        z, y = np.column_stack([np.ones(5), generator.uniform(-1, 1, (5, 3))]), generator.uniform(-1, 1, 5)
        theta, P = generator.standard_normal(4), generator.standard_normal((4, 3))
        v, unit = z @ self.FRAME.matrix, self.FRAME.target_scale
        in_coordinates = P.T @ (v.T @ (y / unit - v @ theta))
        in_terms = self.FRAME.directions_to_terms(P).T @ (z.T @ (y - z @ self.FRAME.to_terms(theta)))
        assert in_terms == pytest.approx(in_coordinates)


class TestRules:
    RULES = RefinementRules()

    def test_steps_spend_what_is_left_and_grow(self):
        costs = self.RULES.step_costs(0.02)
        assert sum(costs) == pytest.approx(0.02)
        assert np.all(np.diff(costs) > 0)

    def test_rows_are_weighted_less_where_there_are_many_and_not_released_where_there_are_few(self):
        found = [self.RULES.radius_squared(5, n, 0.02) for n in (1e2, 1e3, 1e5)]
        assert found == [None, 0.7 * 5, 2.0 * 5]

    def test_the_target_s_share_falls_with_the_budget_within_its_range(self):
        assert [self.RULES.target_share(n_mu) for n_mu in (10.0, 200.0, 1e4)] == [0.25, 0.1, 0.05]


def moments_of(columns, rows, sd=0.0, missing="complete"):
    """Return moments of values within ±1, exact or with noise."""
    generator = np.random.default_rng(8)
    listed = tuple(Column.numeric(name, -2.0, 6.0, missing=missing) for name in columns)
    values = np.array([[len(u) / 2, u.sum(), (u**2 - 0.5).sum()] for u in rows])
    return Marginal("m", "moments", listed, None, values + sd * generator.standard_normal(values.shape), sd, False)


class TestPlaces:
    def test_moments_place_a_column_in_its_own_unit_within_its_bounds(self):
        u = np.random.default_rng(9).normal(-0.5, 0.25, 4000).clip(-1, 1)
        marginal = moments_of(["x"], [u])
        (place,) = places_by_moments(marginal, count_rows(marginal), 2.5)
        assert (place.center, place.scale) == pytest.approx((2 + 4 * u.mean(), 4 * u.std()), rel=1e-6)
        assert place.low == -2.0
        assert place.high == pytest.approx(place.center + 2.5 * place.scale)

    def test_a_column_that_misses_values_has_its_own_count(self):
        u = np.random.default_rng(10).normal(0.1, 0.2, 1000).clip(-1, 1)
        marginal = moments_of(["x", "z"], [u, u[:700]], missing="omit")
        places = places_by_moments(marginal, 5000.0, 2.5)
        assert places[1].scale == pytest.approx(4 * u[:700].std(), rel=1e-6)

    def test_noise_never_makes_a_scale_of_nothing_or_a_range_of_nothing(self):
        for seed in range(50):
            marginal = moments_of(["x"], [np.zeros(20)], sd=40.0)
            marginal = replace(marginal, values=np.random.default_rng(seed).normal(0.0, 60.0, (1, 3)))
            (place,) = places_by_moments(marginal, count_rows(marginal), 2.5)
            assert place.scale > 0
            assert -2.0 <= place.low < place.high <= 6.0
            assert np.isfinite([place.center, place.scale]).all()
