"""A release and a quote as text: what leaves."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import AnyKind
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.privacy.mechanism import STEP_DENOMINATOR, NoisyStatistics, Output
from curator_service.releases.answers import Answer
from curator_service.releases.library import Block
from curator_service.releases.preparation import Prepared, members_text


def describe(prepared: Prepared, population: Population) -> dict[str, Any]:
    """Return what is known of a release before its noise is drawn: columns, noise and cost."""
    return {
        "kind": prepared.kind.name,
        "request": prepared.canonical,
        **prepared.listing.describe(),
        "noise": prepared.listing.noise,
        "cost": _describe_cost(prepared, population.limit, population.delta),
    }


def _describe_cost(prepared: Prepared, limit: int, delta: float) -> dict[str, Any]:
    stated, allocation = prepared.request.price.delta, prepared.plan.allocation
    amount = prepared.dataset.accountant.spent(prepared.cost, delta if stated is None else stated)
    cost = dict(AmountModel.of(amount))
    if allocation.pure_epsilon is not None:
        cost["pure_epsilon"] = float(allocation.pure_epsilon)
    return cost | {"share_of_budget": prepared.cost / limit}


@dataclass(frozen=True, slots=True)
class Outline:
    """Members of an answer beside its values, as JSON text without braces; of its noise the value.

    Every answer to one request states the same, but for its id and its moment: an outline is rendered once.
    """

    dataset: str
    kind: str
    request: str
    declared: str
    noise: str
    cost: str

    @classmethod
    def of(cls, prepared: Prepared, noise: Mapping[str, Any], cost: Mapping[str, Any]) -> "Outline":
        """Render what answers to a request state, with their noise and their cost."""
        return cls(
            dataset=prepared.dataset.name,
            kind=prepared.kind.name,
            request=prepared.request_text,
            declared=prepared.declared_text,
            noise=to_json(noise).decode(),
            cost=members_text({"cost": cost}),
        )

    def answer(self, release_id: str, moment: str, statistics: Mapping[str, Any], **more: str) -> str:
        """Return an answer as the text that is stored and sent, its receipt aside."""
        values = members_text({"statistics": statistics})
        rest = [members_text(more)] if more else []
        opening = render_opening(release_id, self.dataset, self.kind, moment)
        return _join(opening, self.request, self.declared, values, f'"noise":{self.noise}', self.cost, *rest)

    def summary(self, release_id: str, moment: str) -> str:
        """Return what a list of releases shows of an answer."""
        return _join(render_opening(release_id, self.dataset, self.kind, moment), self.request, self.cost)


def render_opening(release_id: str, dataset: str, kind: str, moment: str) -> str:
    """Return the members with which an answer begins: nothing in them needs an escape."""
    return f'"id":"{release_id}","dataset":"{dataset}","kind":"{kind}","created_at":"{moment}"'


def _join(*members: str) -> str:
    return f"{{{','.join(members)}}}"


def outline_of(prepared: Prepared, population: Population) -> Outline:
    """Return the outline of answers that are charged for."""
    return _outline(prepared, population.limit, population.delta)


@lru_cache(maxsize=64)
def _outline(prepared: Prepared, limit: int, delta: float) -> Outline:
    return Outline.of(prepared, prepared.listing.noise, _describe_cost(prepared, limit, delta))


def render_answer(release_id: str, prepared: Prepared, outline: Outline, noisy: NoisyStatistics, moment: str) -> str:
    """Return an answer as the text that is stored and sent, its receipt aside."""
    statistics = {name: {"values": noisy.scaled(name)} for name in noisy.values}
    return outline.answer(release_id, moment, _frame(prepared, statistics))


def outline_of_derived(prepared: Prepared, population: Population, block: Block) -> Outline:
    """Return the outline of an answer that is cut out of a stored one: it costs nothing."""
    noise = {"distribution": block.distribution, "sd": block.sd}
    return Outline.of(prepared, noise, render_free(population))


def render_derived(
    release_id: str, prepared: Prepared, outline: Outline, source_id: str, block: Block, moment: str
) -> str:
    """Return an answer that was cut out of a stored one, as text, its receipt aside."""
    return outline.answer(release_id, moment, _frame(prepared, block.statistics), derived_from=source_id)


def render_free(population: Population) -> dict[str, Any]:
    """Return the cost that an answer states which was cut out of another one."""
    return dict(AmountModel.of(population.view(0))) | {"share_of_budget": 0.0}


def _frame(prepared: Prepared, statistics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    frames = {output.statistic: _render_frame(output) for output in prepared.plan.outputs}
    return {name: {**frames[name], **members} for name, members in statistics.items()}


def _render_frame(output: Output) -> dict[str, Any]:
    """Return what an answer states of a statistic beside its values."""
    return {"shape": list(output.shape), "packing": output.packing, "step": 1 / STEP_DENOMINATOR}


class Form:
    """Form of every answer to a request, at any price and with any noise.

    Parameters
    ----------
    kind : ReleaseKind
    listing : Listing
        What the request asks for.
    """

    def __init__(self, kind: AnyKind, listing: Listing) -> None:
        self._declared = to_json(listing.describe()).decode()[len(f'{{"{kind.declared[0]}":') : -1]
        self._frames = {output.statistic: (_render_frame(output), output.size) for output in listing.outputs}
        self._extras = () if kind.library is None else kind.library.extras
        self._marks = {is_block: self._count_marks(is_block=is_block) for is_block in (False, True)}

    def fits(self, answer: Answer) -> bool:
        """Tell whether an answer has the columns and the numbers of the request, and nothing else.

        The name of a member has two quotation marks: with as many as there must be, none stands twice.
        """
        held, is_block = from_json(answer.statistics, allow_inf_nan=False), answer.derived_from is not None
        return (
            answer.declared == self._declared
            and answer.statistics.count('"') == self._marks[is_block]
            and held.keys() == self._frames.keys()
            and all(
                self._has_frame(held[name], frame, size, is_block=is_block)
                for name, (frame, size) in self._frames.items()
            )
        )

    def _has_frame(self, part: Mapping[str, Any], frame: Mapping[str, Any], size: int, *, is_block: bool) -> bool:
        lists = {name: part[name] for name in ("values", *(self._extras if is_block else ()))}
        return (
            part == {**frame, **lists}
            and all(len(numbers) == size for numbers in lists.values())
            and set(map(type, part["values"])) <= {float}
            and all(set(map(type, numbers)) <= {int} for name, numbers in lists.items() if name != "values")
        )

    def _count_marks(self, *, is_block: bool) -> int:
        lists: dict[str, Any] = {name: [] for name in ("values", *(self._extras if is_block else ()))}
        return to_json({name: frame | lists for name, (frame, _) in self._frames.items()}).count(b'"')


def answer_digest(answer: str) -> str:
    """Hash an answer; the ledger's entry holds it."""
    return hashlib.sha256(answer.encode()).hexdigest()
