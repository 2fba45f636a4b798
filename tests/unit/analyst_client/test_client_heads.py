"""The head of a summary, and the names of its terms: n, what was spent, baselines, columns as they were asked."""

import re
from dataclasses import replace

import numpy as np
import pytest
from client_examples import release_of_rows

from analyst_client import OLS, AdaSSP, Column, EstimationError, LogisticRegression, RefinedRegression, Release
from analyst_client.inference.heads import baseline_text, spent_text
from analyst_client.inference.multiplicity import holm
from analyst_client.refinement import GeneralizedRules, RefinementRules
from analyst_client.refinement.refinement import CUT
from analyst_client.schema import Cost
from analyst_client.tutorial import recorded_client
from bench.ideal import IdealCurator

PRICE = Cost(0.16738, None, 0.68, 1e-6)


def facts_of(release: Release) -> dict[str, str]:
    return dict(OLS().fit(release).summary().facts)


def test_a_summary_says_what_was_spent_and_of_which_levels_the_baseline_is() -> None:
    rows = (np.random.default_rng(0).random((50, 3)) < 0.5).astype(float)
    columns = [Column.boolean("mgus", ("no", "yes")), Column.boolean("ill"), Column.categorical("sex", ["F", "M"])]
    y = rows @ [0.2, 0.1, 0.0] + np.linspace(-0.1, 0.1, 50)
    release = release_of_rows(rows, y, features=columns)
    found = facts_of(release)
    assert found["baseline"] == "mgus no, sex F"
    assert found["n"] == "50 rows, noisy"
    assert "privacy charged" not in found
    assert facts_of(replace(release, cost=Cost(None, None, 1.0, 1e-6)))["privacy charged"] == "ε = 1 at δ = 1e-06"
    assert baseline_text([*columns, *columns], release.terms) == "mgus no, sex F"  # as asked, and as cut


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ([("north", PRICE), ("north", PRICE)], "ε = 1 at δ = 1e-06"),
        ([("north", PRICE), ("south", PRICE)], "ε = 0.68 at δ = 1e-06"),
        ([("north", PRICE), ("south", Cost(None, None, 2.0, 0.0))], "ε = 0.68 at δ = 1e-06; ε = 2 at δ = 0"),
        ([("north", Cost(None, None, 2.0, 0.0)), ("north", Cost(None, None, 1.0, 0.0))], "ε = 3 at δ = 0"),
        ([("north", Cost(None, 0.014, 0.8, 1e-6)), ("north", Cost(None, 0.014, 0.8, 1e-6))], "ε = 1.078 at δ = 1e-06"),
        ([("north", None)], ""),
    ],
)
def test_prices_of_one_budget_add_up_and_budgets_stand_apart(costs: list[tuple[str, Cost | None]], said: str) -> None:
    assert spent_text(costs) == said


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("minimum(chronic, 5.463)", True),
        ("maximum(minimum(chronic, 4.896), -3.866)", True),
        ("maximum(-1e-05, minimum(4.896, chronic))", True),
        ("chronic", False),
        ("minimum(chronic, other)", False),
        ("minimum(chronic2, 5.463)", False),
    ],
)
def test_a_cut_column_is_known_by_its_name(name: str, cut: bool) -> None:
    assert bool(re.fullmatch(CUT.format("chronic"), name)) == cut


def test_terms_of_a_refined_fit_are_named_as_they_were_asked() -> None:
    generator = np.random.default_rng(3)
    x = generator.exponential(1.0, (6000, 2))
    y = x @ [0.6, -0.4] + generator.standard_normal(6000)
    bounds = [(0.0, 30.0), (0.0, 30.0), (-30.0, 40.0)]
    curator = IdealCurator.of_rows(np.column_stack([x, y]), bounds, generator)
    cut = RefinedRegression().fit(curator.refine(0.7, RefinementRules(cut=True)))
    assert any("minimum(" in name for name in cut.refined_.frame.terms[1].columns)
    assert cut.term_names_.tolist() == ["x1", "x2"]
    refinement = curator.refine(0.7)
    refinement = replace(refinement, releases=tuple(replace(one, cost=PRICE) for one in refinement.releases))
    fit = RefinedRegression().fit(refinement)
    summary = fit.summary()
    assert [row[0] for row in summary.rows] == ["(constant)", "x1", "x2"]
    assert fit.param_names_.tolist() == ["(constant)", *fit.term_names_] == ["(constant)", "x1", "x2"]
    assert summary.title.startswith("y by")
    assert fit.t_test("x1 - 2 * x2 = 0").estimates
    assert dict(summary.facts)["privacy charged"] == spent_text([("", PRICE)] * len(refinement.releases))
    assert float(re.findall(r"[\d,]+", dict(summary.facts)["n"])[0].replace(",", "")) == pytest.approx(6000, rel=0.05)


def test_a_refined_logistic_fit_says_and_adjusts_the_same() -> None:
    generator = np.random.default_rng(4)
    x = generator.exponential(1.0, (6000, 2))
    y = (generator.random(6000) < 1.0 / (1.0 + np.exp(-x @ [0.8, -0.6]))).astype(float)
    curator = IdealCurator.of_rows(np.column_stack([x, y]), [(0.0, 30.0), (0.0, 30.0), None], generator)
    cut = LogisticRegression().fit(curator.refine(0.8, GeneralizedRules.for_predictions(), family="binomial"))
    assert any(note.startswith("Columns were cut to what was found: x1 is ") for note in cut.summary().notes)
    with pytest.raises(EstimationError, match="columns were cut"):
        cut.conf_int()
    fit = LogisticRegression().fit(curator.refine(0.8, family="binomial"))
    summary = fit.summary()
    assert [row[0] for row in summary.rows] == ["(constant)", "x1", "x2"]
    assert "p Holm" in summary.heads
    assert fit.adjusted_pvalues()[1:] == pytest.approx(holm(fit.pvalues_[1:]))
    together = fit.conf_int(simultaneous=True)
    assert together[1:] == pytest.approx(fit.conf_int(0.975)[1:])
    assert together[0] == pytest.approx(fit.conf_int()[0])


def test_a_shrunk_coefficient_that_is_outside_of_its_interval_is_named() -> None:
    asked = {"features": ["age", "sex", "creatinine", "lambda"], "target": "kappa", "epsilon": 1.0, "delta": 1e-6}
    release = recorded_client().release("flchain", rows="box", **asked)
    notes, plain = (" ".join(fit.fit(release).summary().notes) for fit in (AdaSSP(), OLS()))
    assert "lambda: the coefficient is outside of its own interval" in notes
    assert "outside of its own interval" not in plain
