"""Releases as measurements of one pair XᵀX, Xᵀy, and coefficients of what is known of it."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from analyst_client import RefinedRegression
from analyst_client.kinds.score.release import NORM_EDGES, ScoreRelease
from analyst_client.refinement import Refinement, RefinementRules
from analyst_client.refinement.belief import TERMS_MAX, Belief
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.looks import Looked, _learn, look
from analyst_client.refinement.places import Place
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.questions import Coding
from analyst_client.refinement.requests import measured, share_kept
from analyst_client.refinement.rules import FIRST_RULES
from analyst_client.refinement.solution import shrunk_coefficients
from analyst_client.schema import Term
from analyst_client.terms import col
from bench.ideal import IdealCurator

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

    def test_columns_that_go_together_may_have_large_coefficients_of_opposite_signs(self):
        n, generator = 20_000, np.random.default_rng(8)
        x = generator.standard_normal((n, 2))
        x = np.column_stack([np.ones(n), x[:, 0], x[:, 0] + 0.2 * x[:, 1], generator.standard_normal((n, 9))])
        y = 1.5 * (x[:, 2] - x[:, 1]) + 0.3 * generator.standard_normal(n)
        xtx, xty = noisy(x.T @ x, x.T @ y, generator, (100.0, 70.0, 100.0))
        belief = believe_standard_terms(12, float(n))
        see_gram(belief, xtx, xty, (100.0, 70.0, 100.0))
        found = shrunk_coefficients(belief, n, np.zeros(12))
        assert found[2] - found[1] > 1.5


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
    RULES = RefinementRules.for_predictions()

    def test_steps_spend_what_is_left_and_grow(self):
        costs = self.RULES.step_costs(0.02)
        assert sum(costs) == pytest.approx(0.02)
        assert np.all(np.diff(costs) > 0)

    def test_rows_are_weighted_less_where_there_are_many_and_not_released_where_there_are_few(self):
        found = [self.RULES.radius_squared(5, n, 0.02) for n in (40.0, 300.0, 1e5)]
        assert found == [None, self.RULES.radius * 5, self.RULES.wide_radius * 5]

    def test_xtx_costs_less_where_it_has_little_noise_all_the_same(self):
        rules = RefinementRules()
        found = [rules.gram_cost(5, n, 0.04) / 0.04 for n in (2000.0, 12_000.0, 1e5)]
        assert found[0] == pytest.approx(rules.gram)
        assert rules.gram_least < found[1] < rules.gram
        assert found[2] == pytest.approx(rules.gram_least)

    def test_the_norm_of_a_gradient_is_wider_where_sampling_matters_beside_noise(self):
        costs = self.RULES.step_costs(0.024)
        found = [self.RULES.first_norm(5, n, costs) for n in (50.0, 2000.0, 20_000.0, 320_000.0)]
        assert found[0] == self.RULES.norm
        assert np.all(np.diff(found) > 0)
        assert found[3] == pytest.approx(2.0 * found[2])  # by the fourth root of the rows

    def test_later_scores_have_their_squares_where_the_norm_is_wide(self):
        found = [self.RULES.score_shares(14, 0.0, meat=meat).get("meat", 0.0) for meat in (False, True)]
        assert found == [0.0, self.RULES.meat]
        assert "meat" not in self.RULES.score_shares(0, 0.0, meat=True)


class TestGuessOfTheRows:
    """A default guess is a fourth of the capacity, which may be a hundred times the rows."""

    @staticmethod
    def errors(guess, mu, wide=1.0, rules=None, repeats=12):
        """Return mean squared errors over the target's variance, and how often slopes were told."""
        found = []
        for seed in range(repeats):
            generator = np.random.default_rng([41, seed])
            x = generator.standard_normal((400, 4))
            y = 2.0 + x @ [0.6, -0.5, 0.4, 0.2] + 0.4 * generator.standard_normal(400)
            bounds = [(-4.0 * wide, 5.0 * wide)] * 4 + [(-3.0 * wide, 7.0 * wide)]
            curator = IdealCurator.of_rows(np.column_stack([x, y]), bounds, generator)
            refinement = curator.refine(mu, rules, guess=guess)
            fit = RefinedRegression().fit(refinement)
            found.append((np.mean((y - fit.predict(x)) ** 2) / y.var(), refinement.found.theta is not None))
        return np.mean(found, axis=0)

    def test_one_that_is_a_hundred_times_too_large_costs_little(self):
        (error, slopes), (known, _) = (self.errors(guess, 0.1, 4.0) for guess in (40_000.0, None))
        assert slopes == 1.0
        assert error < known + 0.1

    def test_slopes_are_hardly_worse_than_the_mean_alone_where_rows_are_few(self):
        rules = RefinementRules()
        error, slopes = self.errors(40_000.0, 0.03, 4.0, rules)
        mean, _ = self.errors(40_000.0, 0.03, 4.0, replace(rules, needed=1e9))
        assert slopes > 0.2
        assert error < mean + 0.5

    def test_rows_that_looks_find_too_few_buy_the_mean_alone(self):
        rules = RefinementRules(needed_told=100.0)
        assert self.errors(40_000.0, 0.06, rules=rules, repeats=2)[1] == 0.0

    def test_a_look_finds_no_fewer_rows_than_its_noise_tells_apart(self):
        fields, rules = [Field(col("x"), "x", -1.0, 1.0)], RefinementRules()
        before = Looked.before(fields, 50_000.0, rules)
        noise = 400.0 * np.array([-1.5, 0.8, 0.1])
        after = _learn(before, fields, noise, 400.0, np.ones(1), 0.0, rules)
        assert 390.0 < after.rows < 410.0  # and not a tenth of the guess, by which every mean is near the middle
        assert after.mean_sd[0] * after.scale[0] / before.scale[0] > 0.6

    @pytest.mark.parametrize(
        ("rows", "told"), [(1000.0, "slopes"), (390.0, "slopes"), (370.0, "mean"), (101.0, "mean"), (99.0, "nothing")]
    )
    def test_public_numbers_say_what_a_price_tells(self, rows, told):
        assert RefinementRules(needed=2.0).expected_to_tell(rows, 0.1, 19) == told

    def test_rules_that_were_saved_before_are_followed_as_they_were(self, tmp_path):
        generator = np.random.default_rng(43)
        curator = IdealCurator.of_rows(generator.standard_normal((300, 3)), [(-5.0, 5.0)] * 3, generator)
        refinement = curator.refine(0.1, RefinementRules(**FIRST_RULES, lost=0.5, means=(0.3, 0.3, 0.4)))
        path = tmp_path / "before.json"
        replace(refinement, releases=()).save(path)
        body = json.loads(path.read_text())
        body["rules"] = {name: value for name, value in body["rules"].items() if name not in FIRST_RULES}
        path.write_text(json.dumps(body))
        assert json.dumps(asdict(Refinement.load(path).rules)) == json.dumps(asdict(refinement.rules))


class TestShareKept:
    """Beside the derivative of clipped scores of rows that are drawn."""

    @pytest.mark.parametrize("told", [True, False])
    @pytest.mark.parametrize(("d", "ratio"), [(3, 0.6), (12, 0.6), (4, 1.3), (4, 4.0)])
    def test_it_is_how_a_clipped_score_moves(self, d, ratio, told):
        generator, sd, n = np.random.default_rng(31), 0.7, 100_000
        v, r = generator.standard_normal((n, d)), sd * generator.standard_normal(n)
        norm = ratio * sd * np.sqrt(d)

        def score(moved):
            g = v * (r - moved * v[:, 0])[:, None]
            return (g[:, 0] * np.minimum(1.0, norm / np.linalg.norm(g, axis=1))).sum()

        derivative = (score(-0.02) - score(0.02)) / 0.04
        lengths = np.linalg.norm(v, axis=1) * np.abs(r) / norm
        counts = np.histogram(lengths, [0.0, *NORM_EDGES, np.inf])[0].astype(float) if told else None
        release = SimpleNamespace(norms=counts, norm_edges=np.array(NORM_EDGES))
        assert share_kept(release, norm, float(n), d, sd**2) == pytest.approx(derivative / n, abs=0.03)


class TestMeasured:
    def test_a_score_its_noise_and_its_squares_are_all_made_up_for_what_clipping_took(self):
        generator = np.random.default_rng(32)
        score, half = generator.standard_normal(4), generator.standard_normal((4, 4))
        release = SimpleNamespace(
            score=score,
            meat=half @ half.T,
            noise=SimpleNamespace(score=3.0, meat_diagonal=5.0, meat_offdiagonal=4.0),
            terms=TestFrame.FRAME.terms,
            coefficients=np.zeros(4),
            directions=np.eye(4),
        )
        seen = measured(TestFrame.FRAME, release, 0.4)
        assert 0.4 * seen.score == pytest.approx(score)
        assert 0.4 * seen.sd == pytest.approx(3.0)
        assert 0.4**2 * seen.meat == pytest.approx(half @ half.T)  # of gradients in units of the score
        assert 0.4**2 * np.array([seen.meat_sd, seen.meat_sd_beside]) == pytest.approx([5.0, 4.0])

    def test_a_plan_makes_them_up_for_the_part_of_gradients_that_is_within_its_norm(self):
        generator, n = np.random.default_rng(33), 1000
        x = generator.standard_normal((n, 3))
        rows = np.column_stack([x, x @ [0.8, -0.5, 0.3] + 0.8 * generator.standard_normal(n)])
        refinement = IdealCurator.of_rows(rows, [(-6.0, 6.0)] * 4, generator).refine(
            0.1, RefinementRules.for_predictions()
        )
        found, last = refinement.found, refinement.releases[-1]
        assert isinstance(found, Refined)
        assert found.frame is not None
        assert isinstance(last, ScoreRelease)
        seen = found.measurements[-1]
        center, scale = np.array([(term.center, term.scale) for term in (*last.terms[1:], last.target)]).T
        z = np.clip((rows - center) / scale, -1.0, 1.0)
        v = np.column_stack([np.ones(n), z[:, :-1]]) @ found.frame.matrix
        r = z[:, -1] / found.frame.target_scale - v @ seen.theta
        squares = np.sum((v @ seen.P) ** 2, axis=1)
        kept = squares[squares * r**2 <= 1.0].sum() / squares.sum()
        assert kept < 0.8
        assert last.score / seen.score == pytest.approx(kept, abs=0.1)


class TestLooks:
    """Looks with a generator's answers: of rows that are drawn, with noise that is chosen."""

    FIELDS = (Field(col("x"), "x", -500.0, 700.0), Field(col("y"), "y", -40.0, 60.0))
    ROWS = np.random.default_rng(12).normal([90.0, 4.0], [7.0, 2.0], (5000, 2))

    def follow(self, noise, rows=5000.0, seed=1):
        """Look five times; answer with normal noise of `noise` times what a look at µ = 1 has."""
        generator = np.random.default_rng(seed)
        problem = Problem(self.FIELDS[:1], self.FIELDS[1], rows, 1.0)
        rules = RefinementRules()
        steps = look(problem, self.FIELDS, Looked.before(self.FIELDS, rows, rules), [0.2] * 5, rules, first=True)
        question = next(steps)
        while True:
            request = question.request
            answer = self.code(request) if question.is_quote else self.answer(request, noise, generator)
            try:
                question = steps.send(answer)
            except StopIteration as end:
                return end.value

    def ranges(self, request):
        """Return the range to which each feature is cut, and where a square is centred."""
        found = []
        for feature, name in zip(request.features[::2], "xy", strict=True):
            json, ends = feature.to_json(), {"maximum": -np.inf, "minimum": np.inf}
            while not isinstance(json, str):
                ((word, (json, number)),) = json.items()
                ends[word] = number
            field = next(one for one in self.FIELDS if one.name == name)
            found.append((max(ends["maximum"], field.low), min(ends["minimum"], field.high)))
        return found

    def code(self, request):
        terms = [Term("(constant)", "constant")]
        for name, (low, high) in zip("xy", self.ranges(request), strict=True):
            terms.append(Term(name, "numeric", name, (low + high) / 2, (high - low) / 2))
            terms.append(Term(f"{name}²", "numeric", f"{name}²", 1000.0, 1000.0))
        return Coding(tuple(terms), (), tuple(term.name for term in terms[1:]))

    def answer(self, request, noise, generator):
        coding, columns = self.code(request), [np.ones(len(self.ROWS))]
        for values, feature, (low, high) in zip(self.ROWS.T, request.features[1::2], self.ranges(request), strict=True):
            cut = np.clip(values, low, high)
            center = feature.to_json()["power"][0]["subtract"][1]
            columns += [(cut - (low + high) / 2) / ((high - low) / 2), ((cut - center) ** 2 - 1000.0) / 1000.0]
        z = np.column_stack(columns)
        P = np.array([request.posted_directions.get(term.name, np.zeros(5)) for term in coding.terms])
        g = z @ P
        norms = np.linalg.norm(g, axis=1)
        total = (g / np.maximum(norms, 1.0)[:, None]).sum(axis=0)
        counts = np.histogram(norms, [0.0, *NORM_EDGES, np.inf])[0].astype(float)
        sd = noise / request.mu
        return SimpleNamespace(
            score=total + sd * generator.standard_normal(5),
            norms=counts if "norms" in request.statistics else None,
            norm_edges=np.array(NORM_EDGES),
            noise=SimpleNamespace(score=sd, norms=0.0),
        )

    def test_they_find_where_columns_are_within_bounds_that_are_a_hundred_times_too_wide(self):
        found = self.follow(noise=1.0)
        assert found.center == pytest.approx(self.ROWS.mean(axis=0), abs=1.0)
        assert found.scale == pytest.approx(self.ROWS.std(axis=0), rel=0.2)
        assert found.rows == pytest.approx(5000.0, rel=0.15)

    def test_ranges_that_are_all_too_wide_are_told_by_all_columns_together(self):
        fields = [Field(col(name), name, -1.0, 1.0) for name in "abcdefghi"]
        before, d = Looked.before(fields, 1000.0, rules := RefinementRules()), 9
        errors = []
        for seed in range(200):
            noise = np.random.default_rng(seed).standard_normal(1 + 2 * d) * 0.5
            total = (
                np.concatenate([[1.0], np.zeros(d), np.full(d, 0.1)]) + noise
            )  # squares are a fifth of what is taken
            after = _learn(before, fields, 1000.0 * total, 500.0, np.ones(d), 0.0, rules)
            errors.append(np.mean((after.scale / before.scale) ** 2))
        assert np.mean(errors) == pytest.approx(0.4, abs=0.12)

    def test_a_guess_of_the_rows_that_is_wrong_is_put_right(self):
        for rows in (1000.0, 25_000.0):
            found = self.follow(noise=1.0, rows=rows)
            assert found.rows == pytest.approx(5000.0, rel=0.15)
            assert found.center == pytest.approx(self.ROWS.mean(axis=0), abs=1.5)

    def test_whatever_the_noise_is_places_are_within_bounds_and_scales_are_positive(self):
        for seed in range(20):
            found = self.follow(noise=3000.0, seed=seed)
            assert np.isfinite([found.center, found.scale, found.mean_sd, found.square_sd]).all()
            for place, field in zip(found.places(self.FIELDS, [3.0, 3.0]), self.FIELDS, strict=True):
                assert field.low <= place.low < place.high <= field.high
                assert place.scale > 0
            assert found.rows > 0
