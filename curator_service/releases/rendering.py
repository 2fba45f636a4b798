"""A release, a quote and a charge as text: what leaves, and what the ledger keeps of it."""

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from curator_service.datasets.schemas import render_column
from curator_service.identity.repository import Principal
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import render_amount
from curator_service.privacy.accountant import GaussianPart, spent
from curator_service.privacy.design import Column, Term, TermKind
from curator_service.privacy.mechanisms import STEP_DENOMINATOR, NoisyStatistics
from curator_service.privacy.planning import Statistic
from curator_service.releases.preparation import Prepared


def describe(prepared: Prepared, population: Population) -> dict[str, Any]:
    """Return what is known of a release before its noise is drawn: terms, noise and cost."""
    design = prepared.plan.design
    cost = render_amount(spent(prepared.plan.cost, _view_delta(prepared, population)))
    return {
        "kind": "gram",
        "request": prepared.canonical,
        "features": [render_column(column) for column in prepared.features],
        "terms": [_render_term(term, prepared.features) for term in design.terms],
        "targets": [_render_term(term, ()) for term in design.targets],
        "noise": _render_noise(prepared.plan.parts),
        "cost": cost | {"share_of_budget": prepared.plan.cost / population.limit},
    }


def _view_delta(prepared: Prepared, population: Population) -> float:
    stated = prepared.request.price.delta
    return population.delta if stated is None else stated


def _render_term(term: Term, features: tuple[Column, ...]) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": term.name, "kind": term.kind}
    if term.column is not None:
        rendered["column"] = term.column
    if term.kind is TermKind.NUMERIC:
        rendered |= {"center": term.center, "scale": term.scale, "unit": term.unit}
    if term.level is not None:
        rendered["level"] = next(c for c in features if c.name == term.column).levels[term.level]
    return rendered


def _render_noise(parts: tuple[GaussianPart, ...]) -> dict[str, Any]:
    sd: dict[str, float] = {}
    for part in parts:
        if part.statistic == Statistic.XTX:
            sd["xtx_diagonal"] = part.sigma / STEP_DENOMINATOR
            sd["xtx_offdiagonal"] = (part.sigma_offdiagonal or part.sigma) / STEP_DENOMINATOR
        else:
            sd[part.statistic] = part.sigma / STEP_DENOMINATOR
    return {"distribution": "discrete_gaussian", "sd": sd}


def render_answer(
    release_id: str, prepared: Prepared, population: Population, noisy: NoisyStatistics, moment: str
) -> str:
    """Return the answer as the text that is stored and sent, its receipt aside."""
    d, t = len(prepared.plan.design.terms), len(prepared.plan.design.targets)
    shapes: Mapping[Statistic, tuple[list[int], str]] = {
        Statistic.XTX: ([d, d], "upper"),
        Statistic.XTY: ([d, t], "full"),
        Statistic.YTY: ([t], "full"),
        Statistic.LAMBDA_MIN: ([], "full"),
    }
    description = describe(prepared, population)
    answer = {
        "id": release_id,
        "dataset": prepared.dataset.name,
        "kind": description.pop("kind"),
        "created_at": moment,
        **{name: description[name] for name in ("request", "features", "terms", "targets")},
        "statistics": {
            statistic.value: {
                "shape": shapes[statistic][0],
                "packing": shapes[statistic][1],
                "step": 1 / STEP_DENOMINATOR,
                "values": noisy.scaled(statistic),
            }
            for statistic in noisy.values
        },
        **{name: description[name] for name in ("noise", "cost")},
    }
    return to_json(answer).decode()


def answer_digest(answer: str) -> str:
    """Hash an answer; the ledger's entry holds it."""
    return hashlib.sha256(answer.encode()).hexdigest()


def charge_facts(release_id: str, prepared: Prepared, analyst: Principal, answer: str, moment: str) -> dict[str, Any]:
    """Return what a charge's entry says: enough to account for it again from its integers."""
    return {
        "actor": analyst.id,
        "dataset": prepared.dataset.name,
        "release": release_id,
        "request_digest": prepared.request_digest,
        "answer_digest": answer_digest(answer),
        "snapshot": prepared.dataset.commitment,
        "mechanism": [
            {
                "statistic": part.statistic,
                "sensitivity_squared": str(part.sensitivity_squared),
                "sigma": [str(s) for s in (part.sigma, part.sigma_offdiagonal) if s is not None],
                "copies": part.copies,
            }
            for part in prepared.plan.parts
        ],
        "time": moment,
    }
