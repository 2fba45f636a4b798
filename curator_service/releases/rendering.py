"""A release, a quote and a charge as text: what leaves, and what the ledger keeps of it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from curator_service.datasets.schemas import render_column
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import render_amount
from curator_service.privacy.accountant import Accountant
from curator_service.privacy.design import Column, Design, Term, TermKind
from curator_service.privacy.mechanisms import STEP_DENOMINATOR, NoisyStatistics
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part, Statistic
from curator_service.privacy.planning import Bound
from curator_service.privacy.samplers import Distribution
from curator_service.releases.listings import SUMMARY, Listing
from curator_service.releases.preparation import Prepared, stated_noise, value_counts
from curator_service.releases.repository import StoredRelease

_MEMBERS = {*SUMMARY, "features", "terms", "targets", "statistics", "noise"}
"""Of an answer; one that is cut out of another names that beside."""


def describe(prepared: Prepared, population: Population) -> dict[str, Any]:
    """Return what is known of a release before its noise is drawn: terms, noise and cost."""
    cost = render_amount(population.accountant.spent(prepared.plan.cost, _view_delta(prepared, population)))
    if prepared.plan.pure_epsilon is not None:
        cost["pure_epsilon"] = float(prepared.plan.pure_epsilon)
    return {
        "kind": "gram",
        "request": prepared.canonical,
        "features": [render_column(column) for column in prepared.features],
        **_render_terms(prepared.plan.design, prepared.features),
        "noise": _render_noise(prepared.plan.parts),
        "cost": cost | {"share_of_budget": prepared.plan.cost / population.limit},
    }


def _view_delta(prepared: Prepared, population: Population) -> float:
    stated = prepared.request.price.delta
    return population.delta if stated is None else stated


def _render_terms(design: Design, features: tuple[Column, ...]) -> dict[str, Any]:
    return {
        "terms": [_render_term(term, features) for term in design.terms],
        "targets": [_render_term(term, ()) for term in design.targets],
    }


def _render_term(term: Term, features: tuple[Column, ...]) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": term.name, "kind": term.kind}
    if term.column is not None:
        rendered["column"] = term.column
    if term.kind is TermKind.NUMERIC:
        rendered |= {"center": term.center, "scale": term.scale, "unit": term.unit}
    if term.level is not None:
        rendered["level"] = next(c for c in features if c.name == term.column).levels[term.level]
    return rendered


def _render_noise(parts: tuple[Part, ...]) -> dict[str, Any]:
    return {"distribution": parts[0].distribution, "sd": stated_noise(parts)}


def render_answer(
    release_id: str, prepared: Prepared, population: Population, noisy: NoisyStatistics, moment: str
) -> str:
    """Return the answer as the text that is stored and sent, its receipt aside."""
    values = {statistic.value: noisy.scaled(statistic) for statistic in noisy.values}
    return _render(release_id, prepared, describe(prepared, population), values, moment, {})


def _render(
    release_id: str,
    prepared: Prepared,
    description: dict[str, Any],
    values: Mapping[str, list[float]],
    moment: str,
    more: Mapping[str, str],
) -> str:
    frames = _render_frames(prepared.plan.design)
    answer = {
        "id": release_id,
        "dataset": prepared.dataset.name,
        "kind": description.pop("kind"),
        "created_at": moment,
        **{name: description[name] for name in ("request", "features", "terms", "targets")},
        "statistics": {name: frames[name] | {"values": entries} for name, entries in values.items()},
        **{name: description[name] for name in ("noise", "cost")},
        **more,
    }
    return to_json(answer).decode()


def _render_frames(design: Design) -> dict[str, dict[str, Any]]:
    """Return what an answer states of each statistic beside its values."""
    d, t = len(design.terms), len(design.targets)
    shapes: Mapping[str, tuple[list[int], str]] = {
        Statistic.XTX: ([d, d], "upper"),
        Statistic.XTY: ([d, t], "full"),
        Statistic.YTY: ([t], "full"),
        Statistic.LAMBDA_MIN: ([], "full"),
    }
    return {
        name: {"shape": shape, "packing": packing, "step": 1 / STEP_DENOMINATOR}
        for name, (shape, packing) in shapes.items()
    }


def holds_what_is_asked(answer: Mapping[str, Any], listing: Listing) -> bool:
    """Tell whether an answer has the terms and the numbers of the request that it states, and nothing else.

    Parameters
    ----------
    answer : mapping
        Read.
    listing : Listing
        What it states of itself. Its columns stand in the order of its own request, which was not always the
        manifest's.
    """
    frames, counts = _render_frames(listing.design), value_counts(listing.design)
    held = answer["statistics"]
    return (
        answer.keys() - {"derived_from"} == _MEMBERS
        and {name: answer[name] for name in ("terms", "targets")}
        == _render_terms(listing.design, listing.declared_features)
        and [column["name"] for column in answer["features"]] == [c.name for c in listing.declared_features]
        and held.keys() == listing.statistics
        and all(part == frames[name] | {"values": part["values"]} for name, part in held.items())
        and all(len(part["values"]) == counts[Statistic(name)] for name, part in held.items())
        and all(set(map(type, part["values"])) <= {float} for part in held.values())
    )


def answer_digest(answer: str) -> str:
    """Hash an answer; the ledger's entry holds it."""
    return hashlib.sha256(answer.encode()).hexdigest()


def render_derived(
    release_id: str,
    prepared: Prepared,
    population: Population,
    source_id: str,
    values: Mapping[str, list[float]],
    sd: Mapping[str, float],
    distribution: str,
    moment: str,
) -> str:
    """Return an answer that was cut out of a stored one, as text, its receipt aside: it costs nothing."""
    description = describe(prepared, population)
    description["noise"] = {"distribution": distribution, "sd": dict(sd)}
    description["cost"] = render_amount(population.view(0)) | {"share_of_budget": 0.0}
    return _render(release_id, prepared, description, values, moment, {"derived_from": source_id})


def derive_facts(
    release_id: str, prepared: Prepared, source: StoredRelease, answer: str, moment: str
) -> dict[str, Any]:
    """Return what the entry of a derived answer says."""
    return _facts(release_id, prepared, answer, moment) | {"source": source.id}


def charge_facts(release_id: str, prepared: Prepared, answer: str, moment: str) -> dict[str, Any]:
    """Return what a charge's entry says: enough to account for it again from its integers."""
    return {
        **_facts(release_id, prepared, answer, moment),
        "mechanism": [_part_facts(part) for part in prepared.plan.parts],
        **({} if prepared.plan.curvature is None else {"curvature": str(prepared.plan.curvature)}),
    }


def _facts(release_id: str, prepared: Prepared, answer: str, moment: str) -> dict[str, Any]:
    return {
        "dataset": prepared.dataset.name,
        "release": release_id,
        "request_digest": prepared.request_digest,
        "answer_digest": answer_digest(answer),
        "snapshot": prepared.dataset.commitment,
        "time": moment,
    }


def _part_facts(part: Part) -> dict[str, Any]:
    bound = part.sensitivity_squared if isinstance(part, GaussianPart) else part.sensitivity
    return {
        **_sensitivity_facts(part.statistic, part.distribution, bound, part.copies),
        "scales": [str(scale) for scale in part.scales],
    }


def _sensitivity_facts(
    statistic: Statistic, distribution: Distribution, sensitivity: Fraction, copies: int
) -> dict[str, Any]:
    return {
        "statistic": statistic,
        "distribution": distribution,
        "sensitivity": str(sensitivity),
        "norm": "L2 squared" if distribution is Distribution.DISCRETE_GAUSSIAN else "L1",
        "copies": copies,
    }


def account_again(facts: Mapping[str, Any], accountant: Accountant) -> int:
    """Return what a charge's entry costs under an accountant, from the integers that it states.

    Raises
    ------
    ValueError, KeyError, TypeError
        If the entry states no mechanism, or one that the accountant does not sell.
    """
    return _account(accountant, _stated_parts(facts), _stated_curvature(facts))


@lru_cache(maxsize=1024)
def _account(accountant: Accountant, parts: tuple[Part, ...], curvature: Fraction | None) -> int:
    return accountant.cost(parts, curvature)


def agrees_with_charge(answer: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Tell whether an answer states the cost and the noise of the entry that charged it."""
    try:
        return bool(
            answer["cost"]["units"] == facts["units"] and answer["noise"] == _render_noise(_stated_parts(facts))
        )
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False


@dataclass(frozen=True, slots=True)
class Stated:
    """What a charge's entry says of its sensitivities, its scales aside."""

    parts: list[dict[str, Any]]
    has_pairs: list[bool]
    curvature: str | None

    @classmethod
    def of(cls, bounds: Sequence[Bound], curvature: Fraction | None) -> "Stated":
        """Return what it says where they are these."""
        return cls(
            [_sensitivity_facts(b.statistic, b.distribution, b.sensitivity, b.copies) for b in bounds],
            [bound.has_pairs for bound in bounds],
            None if curvature is None else str(curvature),
        )

    def agrees(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether an entry, whose mechanism was accounted for, states these sensitivities and no others.

        Where pairs do not weigh more than the diagonal in a sensitivity, they must not have less noise either.
        """
        mechanism = facts["mechanism"]
        return (
            facts.get("curvature") == self.curvature
            and [{name: part[name] for name in part if name != "scales"} for part in mechanism] == self.parts
            and all(
                has_pairs or len(set(part["scales"])) == 1
                for part, has_pairs in zip(mechanism, self.has_pairs, strict=True)
            )
        )


def _stated_curvature(facts: Mapping[str, Any]) -> Fraction | None:
    return Fraction(facts["curvature"]) if "curvature" in facts else None


def _stated_parts(facts: Mapping[str, Any]) -> tuple[Part, ...]:
    return _read_parts(json.dumps(facts["mechanism"]))


@lru_cache(maxsize=1024)
def _read_parts(mechanism: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for stated in json.loads(mechanism):
        statistic, bound = Statistic(stated["statistic"]), Fraction(stated["sensitivity"])
        diagonal, offdiagonal = (int(scale) for scale in stated["scales"])
        copies = int(stated["copies"])
        if Distribution(stated["distribution"]) is Distribution.DISCRETE_GAUSSIAN:
            parts.append(GaussianPart(statistic, bound, diagonal, offdiagonal, copies))
        else:
            parts.append(LaplacePart(statistic, bound, diagonal, copies))
        if _part_facts(parts[-1]) != stated:
            raise ValueError("the entry states something else than what it was read as")
    if not parts:
        raise ValueError("the entry states no mechanism")
    return tuple(parts)
