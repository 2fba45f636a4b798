"""One value at least of every kind that shows itself, and other values that are printed."""

from typing import Any

import numpy as np
from test_client_notebook import HOSTILE, ORDINARY
from test_client_survival import table_of
from test_refined_posterior import MU, refinement_of

import analyst_client as ac
from analyst_client.admin.listing import Listing
from analyst_client.error_base import CuratorError
from analyst_client.kinds.gram.examples import QUOTE
from analyst_client.planning.refining import RefinementQuote
from analyst_client.refinement.practice import Step
from analyst_client.schema.administration import Person
from analyst_client.tutorial import REQUEST, exact_release, recorded_client

TERMS = {"people": ["ada", "bo"], "datasets": ["flchain"], "purpose": "kidneys", "expires_at": None}
GUESS = ac.Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})


def shown() -> dict[str, Any]:
    """Return values by name, those of the recorded tutorial first."""
    client, asked = recorded_client(), REQUEST | {"epsilon": 1.0}
    quote, release, exact = client.quote("flchain", **asked), client.release("flchain", **asked), exact_release()
    fit, refined = ac.AdaSSP().fit(release), ac.RefinedRegression().fit(refinement_of(1000, MU))
    square = ac.ContingencyTable([[32.0, 48.0], [14.0, 56.0]], 2.0)
    permit = (
        "prm_1",
        "µ-study",
        ("ada",),
        ("flchain",),
        "kidneys",
        "consent",
        "",
        {"olmsted": None},
        "now",
        None,
        None,
        1,
    )
    return {
        "tutorial dataset": client.dataset("flchain"),
        "tutorial quote": quote,
        "tutorial release": release,
        "tutorial summary": fit.summary(),
        "tutorial posterior": ac.BayesianRegression(chains=2, draws=50).fit(release).summary(),
        "tutorial caveats": fit.caveats(),
        "tutorial parameters": fit.params,
        "tutorial comparison": ac.compare(fit, refined),
        "tutorial test": fit.test("age = 0.01, sex"),
        "tutorial describe": ac.describe(release),
        "tutorial table one": ac.table_one(release, "sex"),
        "tutorial correlations": ac.correlations(release),
        "tutorial anova": fit.anova(),
        "tutorial t test": fit.t_test("age = 0.01"),
        "tutorial components": ac.analyses.principal_components(exact),
        "tutorial path": ac.analyses.lasso_path(exact),
        "tutorial accuracy": ac.expected_accuracy(QUOTE, GUESS),
        "tutorial sentence": ac.expected_accuracy(QUOTE, GUESS).describe("age"),
        "tutorial power": ac.planning.power_table("age", [0.002, 0.004], QUOTE, GUESS),
        "tutorial price": ac.epsilon_for(0.0005, "age", QUOTE, GUESS),
        "refined summary": refined.summary(),
        "refinement": refinement_of(1000, MU),
        "quote of a refinement": RefinementQuote(
            *(
                "flchain",
                "kappa",
                "gaussian",
                QUOTE.cost,
                True,
                6000.0,
                12.0,
                (Step("gram", 1.0, 1.5, 100, 10**6, False),),
            ),
            *(("age", "maximum(0.5, creatinine)"), np.array([0.05, np.inf]), np.array([0.04, 0.1])),
        ),
        "choice": recorded_client("one_call")
        .fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True, progress=False)
        .choice_,
        "discriminants": ac.analyses.linear_discriminants(exact, "sex"),
        "cells": square,
        "local comparison": ac.local.compare_with_central(10_000, 100, 1),
        "odds ratio": square.odds_ratio(),
        "independence": square.independence_test(),
        "survival": ac.analyses.kaplan_meier(table_of(2, 2.0, 1), "years", "dead", "arm"),
        "rates": ac.analyses.event_rates(table_of(2, 2.0, 1), "years", "dead", "arm"),
        "roc": ac.analyses.roc_curve(table_of(2, 2.0, 1), "years", "dead"),
        "identity": ac.schema.Identity(
            "ada", "Ada", ("analyst",), False, "token", "t_1", None, "2099-01-01T00:00:00Z", ()
        ),
        "permit": ac.schema.Permit(*permit),
        "proposal": ac.schema.Proposal(
            "prp_1", "open", "permit", "prm_1", "", "why", "", TERMS, "now", None, before={"people": []}
        ),
        "people": Listing("People – all", (Person("p_1", "ada", "Ada Ørsted", ("analyst",), None),)),
        "column": ac.Column.numeric("sérum", 0.0, 1.0, unit="µmol/l"),
        "error": CuratorError("ε must be ≤ 1 – 年"),
        "plain error": ValueError("power must be above 1 − level"),
        "matrix": np.eye(2),
        **ORDINARY,
        **{f"hostile {name}": value for name, value in HOSTILE.items()},
    }
