"""A release, a quote and a charge as text: what leaves, and what the ledger keeps of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import NoneType
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.datasets.schemas import render_column
from curator_service.kinds.gram.listing import Listing
from curator_service.kinds.gram.plan import Bound
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import render_amount
from curator_service.privacy.accountant import Accountant
from curator_service.privacy.design import Column, Design, Term, TermKind
from curator_service.privacy.mechanism import STEP_DENOMINATOR, NoisyStatistics, value_counts
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part, Statistic
from curator_service.privacy.samplers import Distribution
from curator_service.releases.answers import Answer, read_member
from curator_service.releases.preparation import Prepared, stated_noise
from curator_service.releases.repository import StoredRelease

_COST = {"units", "mu", "rho", "epsilon", "delta", "share_of_budget"}
_NUMBER = {float, int, NoneType}


def describe(prepared: Prepared, population: Population) -> dict[str, Any]:
    """Return what is known of a release before its noise is drawn: terms, noise and cost."""
    return {
        "kind": "gram",
        "request": prepared.canonical,
        **_describe_columns(prepared),
        "noise": _render_noise(prepared.plan.parts),
        "cost": _describe_cost(prepared, population.limit, population.delta),
    }


def _describe_columns(prepared: Prepared) -> dict[str, Any]:
    return {
        "features": [render_column(column) for column in prepared.features],
        **_render_terms(prepared.plan.design, prepared.features),
    }


def _describe_cost(prepared: Prepared, limit: int, delta: float) -> dict[str, Any]:
    stated = prepared.request.price.delta
    cost = render_amount(prepared.dataset.accountant.spent(prepared.plan.cost, delta if stated is None else stated))
    if prepared.plan.pure_epsilon is not None:
        cost["pure_epsilon"] = float(prepared.plan.pure_epsilon)
    return cost | {"share_of_budget": prepared.plan.cost / limit}


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


@dataclass(frozen=True, slots=True)
class Outline:
    """What an answer states beside its values, as members of a JSON object, without braces.

    Every answer to one request states the same, but for its id and its moment: an outline is rendered once.
    """

    dataset: str
    request: str
    columns: str
    noise: str
    cost: str

    @classmethod
    def of(cls, prepared: Prepared, noise: Mapping[str, Any], cost: Mapping[str, Any]) -> "Outline":
        """Render what answers to a request state, with their noise and their cost."""
        return cls(
            dataset=prepared.dataset.name,
            request=_members({"request": prepared.canonical}),
            columns=_members(_describe_columns(prepared)),
            noise=_members({"noise": noise}),
            cost=_members({"cost": cost}),
        )

    def answer(self, release_id: str, moment: str, statistics: Mapping[str, Any], **more: str) -> str:
        """Return an answer as the text that is stored and sent, its receipt aside."""
        values = _members({"statistics": statistics})
        rest = [_members(more)] if more else []
        opening = render_opening(release_id, self.dataset, moment)
        return _join(opening, self.request, self.columns, values, self.noise, self.cost, *rest)

    def summary(self, release_id: str, moment: str) -> str:
        """Return what a list of releases shows of an answer."""
        return _join(render_opening(release_id, self.dataset, moment), self.request, self.cost)


def render_opening(release_id: str, dataset: str, moment: str) -> str:
    """Return the members with which an answer begins: nothing in them needs an escape."""
    return f'"id":"{release_id}","dataset":"{dataset}","kind":"gram","created_at":"{moment}"'


def _members(content: Mapping[str, Any]) -> str:
    return to_json(content).decode()[1:-1]


def _join(*members: str) -> str:
    return f"{{{','.join(members)}}}"


def outline_of(prepared: Prepared, population: Population) -> Outline:
    """Return the outline of answers that are charged for."""
    return _outline(prepared, population.limit, population.delta)


@lru_cache(maxsize=64)
def _outline(prepared: Prepared, limit: int, delta: float) -> Outline:
    return Outline.of(prepared, _render_noise(prepared.plan.parts), _describe_cost(prepared, limit, delta))


def render_answer(release_id: str, prepared: Prepared, outline: Outline, noisy: NoisyStatistics, moment: str) -> str:
    """Return an answer as the text that is stored and sent, its receipt aside."""
    values = {statistic.value: noisy.scaled(statistic) for statistic in noisy.values}
    return outline.answer(release_id, moment, _frame(prepared, values))


def _frame(prepared: Prepared, values: Mapping[str, list[float]]) -> dict[str, Any]:
    frames = _render_frames(prepared.plan.design)
    return {name: frames[name] | {"values": entries} for name, entries in values.items()}


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


class Form:
    """What every answer to a request holds, whatever was paid for it, and drawn.

    Parameters
    ----------
    listing : Listing
        What the request asks for. Its columns stand in its own order, which was not always the manifest's.
    """

    def __init__(self, listing: Listing) -> None:
        design, counts = listing.design, value_counts(listing.design)
        frames = _render_frames(design)
        features = [render_column(column) for column in listing.declared_features]
        terms = _render_terms(design, listing.declared_features)
        self._declared = to_json({"features": features, **terms}).decode()[len('{"features":') : -1]
        self._frames = {name: (frames[name], counts[name]) for name in listing.statistics}
        empty = {name: frame | {"values": []} for name, (frame, _) in self._frames.items()}
        self._marks = to_json(empty).count(b'"')

    def fits(self, answer: Answer) -> bool:
        """Tell whether an answer has the terms and the numbers of the request, and nothing else.

        The name of a member has two quotation marks: with as many as there must be, none stands twice.
        """
        held = from_json(answer.statistics, allow_inf_nan=False)
        return (
            answer.declared == self._declared
            and answer.statistics.count('"') == self._marks
            and held.keys() == self._frames.keys()
            and all(_has_frame(held[name], frame, count) for name, (frame, count) in self._frames.items())
        )


def _has_frame(part: Mapping[str, Any], frame: Mapping[str, Any], count: int) -> bool:
    values = part["values"]
    return part == {**frame, "values": values} and len(values) == count and set(map(type, values)) <= {float}


def answer_digest(answer: str) -> str:
    """Hash an answer; the ledger's entry holds it."""
    return hashlib.sha256(answer.encode()).hexdigest()


def outline_of_derived(
    prepared: Prepared, population: Population, sd: Mapping[str, float], distribution: str
) -> Outline:
    """Return the outline of an answer that is cut out of a stored one: it costs nothing."""
    return Outline.of(prepared, {"distribution": distribution, "sd": dict(sd)}, render_free(population))


def render_derived(
    release_id: str,
    prepared: Prepared,
    outline: Outline,
    source_id: str,
    values: Mapping[str, list[float]],
    moment: str,
) -> str:
    """Return an answer that was cut out of a stored one, as text, its receipt aside."""
    return outline.answer(release_id, moment, _frame(prepared, values), derived_from=source_id)


def render_free(population: Population) -> dict[str, Any]:
    """Return the cost that an answer states which was cut out of another one."""
    return render_amount(population.view(0)) | {"share_of_budget": 0.0}


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
        **({} if prepared.plan.joint_constant is None else {"curvature": str(prepared.plan.joint_constant)}),
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


def recompute_cost(facts: Mapping[str, Any], accountant: Accountant) -> int:
    """Return what a charge's entry costs under an accountant, from the integers that it states.

    Raises
    ------
    ValueError, KeyError, TypeError
        If the entry states no mechanism, or one that the accountant does not sell.
    """
    return _account(accountant, to_json(facts["mechanism"]), facts.get("curvature"))


@lru_cache(maxsize=1024)
def _account(accountant: Accountant, mechanism: bytes, joint_constant: str | None) -> int:
    return accountant.cost(_read_parts(mechanism), None if joint_constant is None else Fraction(joint_constant))


def agrees_with_charge(answer: Answer, facts: Mapping[str, Any]) -> bool:
    """Tell whether an answer states the cost and the noise of the entry that charged it."""
    try:
        return _units_of(answer.cost) == facts["units"] and answer.noise == _render_stated_noise(
            to_json(facts["mechanism"])
        )
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False


@lru_cache(maxsize=4096)
def _units_of(cost: str) -> str:
    """Read the units of a cost. Raise `ValueError` where it has more than one number for each view beside them."""
    stated = read_member(cost)
    is_cost = stated.keys() - {"pure_epsilon"} == _COST
    if not is_cost or not all(type(stated[name]) in _NUMBER for name in stated if name != "units"):
        raise ValueError("a cost has other members")
    return str(stated["units"])


@lru_cache(maxsize=1024)
def _render_stated_noise(mechanism: bytes) -> str:
    return to_json(_render_noise(_read_parts(mechanism))).decode()


@dataclass(frozen=True, slots=True)
class Stated:
    """What a charge's entry says of its sensitivities, its scales aside."""

    parts: list[dict[str, Any]]
    has_pairs: list[bool]
    joint_constant: str | None

    @classmethod
    def of(cls, bounds: Sequence[Bound], joint_constant: Fraction | None) -> "Stated":
        """Return what it says where they are these."""
        return cls(
            [
                {**_sensitivity_facts(b.statistic, b.distribution, b.sensitivity, b.copies), "scales": None}
                for b in bounds
            ],
            [bound.has_pairs for bound in bounds],
            None if joint_constant is None else str(joint_constant),
        )

    def agrees(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether an entry, whose mechanism was accounted for, states these sensitivities and no others.

        Where pairs do not weigh more than the diagonal in a sensitivity, they must not have less noise either.
        """
        mechanism = facts["mechanism"]
        return (
            facts.get("curvature") == self.joint_constant
            and [{**part, "scales": None} for part in mechanism] == self.parts
            and all(
                has_pairs or len(set(part["scales"])) == 1
                for part, has_pairs in zip(mechanism, self.has_pairs, strict=True)
            )
        )


@lru_cache(maxsize=1024)
def _read_parts(mechanism: bytes) -> tuple[Part, ...]:
    parts: list[Part] = []
    for stated in from_json(mechanism):
        statistic, bound = Statistic(stated["statistic"]), _read_bound(stated["sensitivity"])
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


_read_bound = lru_cache(maxsize=1024)(Fraction)
