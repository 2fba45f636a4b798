"""What the ledger keeps of a charge: enough to account for it again, and to derive its sensitivities again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import NoneType
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.kinds.registry import AnyKind, KindRegistry
from curator_service.kit.caches import cache_short
from curator_service.privacy.accountant import Accountant, JointBound
from curator_service.privacy.allocation import Bound
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part
from curator_service.privacy.samplers import Distribution
from curator_service.releases.answers import Answer, read_member
from curator_service.releases.preparation import Prepared
from curator_service.releases.rendering import answer_digest

_COST = {"units", "mu", "rho", "epsilon", "delta", "share_of_budget"}
_NUMBER = {float, int, NoneType}


def derive_payload(release_id: str, prepared: Prepared, source_id: str, answer: str, moment: str) -> dict[str, Any]:
    """Return what the entry of a derived answer says."""
    return _payload(release_id, prepared, answer, moment) | {"source": source_id}


def charge_payload(release_id: str, prepared: Prepared, answer: str, moment: str) -> dict[str, Any]:
    """Return what a charge's entry says: enough to account for it again from its integers."""
    return {
        **_payload(release_id, prepared, answer, moment),
        "mechanism": [_part_payload(part) for part in prepared.plan.parts],
        **prepared.kind.state_joint(prepared.plan.joint),
    }


def _payload(release_id: str, prepared: Prepared, answer: str, moment: str) -> dict[str, Any]:
    return {
        "release_kind": prepared.kind.name,
        "dataset": prepared.dataset.name,
        "release": release_id,
        "request_digest": prepared.request_digest,
        "answer_digest": answer_digest(answer),
        "snapshot": prepared.dataset.commitment,
        "time": moment,
    }


def _part_payload(part: Part) -> dict[str, Any]:
    bound = part.sensitivity_squared if isinstance(part, GaussianPart) else part.sensitivity
    return {
        **_sensitivity_payload(part.statistic, part.distribution, bound, part.copies),
        "scales": [str(scale) for scale in part.scales],
    }


def _sensitivity_payload(
    statistic: str, distribution: Distribution, sensitivity: Fraction, copies: int
) -> dict[str, Any]:
    return {
        "statistic": statistic,
        "distribution": distribution,
        "sensitivity": str(sensitivity),
        "norm": "L2 squared" if distribution is Distribution.DISCRETE_GAUSSIAN else "L1",
        "copies": copies,
    }


def recompute_cost(kinds: KindRegistry, payload: Mapping[str, Any], accountant: Accountant) -> int:
    """Return what a charge's entry costs under an accountant, from the integers that it states.

    Raises
    ------
    ValueError, KeyError, TypeError
        If the entry states no mechanism, or one that the accountant does not count; or a kind that is not known.
    """
    return _account(accountant, to_json(payload["mechanism"]), kinds.of_entry(payload).read_joint(payload))


@cache_short(maxsize=1024)
def _account(accountant: Accountant, mechanism: bytes, joint: JointBound | None) -> int:
    return accountant.cost(_read_parts(mechanism), joint)


def agrees_with_charge(kind: AnyKind, answer: Answer, payload: Mapping[str, Any]) -> bool:
    """Tell whether an answer states the cost and the noise of the entry that charged it."""
    try:
        return _units_of(answer.cost) == payload["units"] and answer.noise == _render_noise(
            kind, to_json(payload["mechanism"])
        )
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False


@cache_short(maxsize=4096)
def _units_of(cost: str) -> str:
    """Read the units of a cost. Raise `ValueError` where it has more than one number for each view beside them."""
    stated = read_member(cost)
    is_cost = stated.keys() - {"pure_epsilon"} == _COST
    if not is_cost or not all(type(stated[name]) in _NUMBER for name in stated if name != "units"):
        raise ValueError("a cost has other members")
    return str(stated["units"])


@cache_short(maxsize=1024)
def _render_noise(kind: AnyKind, mechanism: bytes) -> str:
    parts = _read_parts(mechanism)
    return to_json({"distribution": parts[0].distribution, "sd": kind.state_noise(parts)}).decode()


@dataclass(frozen=True, slots=True)
class Stated:
    """What a charge's entry says of its sensitivities, its scales aside."""

    parts: list[dict[str, Any]]
    has_pairs: list[bool]
    joint: JointBound | None

    @classmethod
    def of(cls, bounds: Sequence[Bound], joint: JointBound | None) -> "Stated":
        """Return what it says where they are these."""
        return cls(
            [
                {**_sensitivity_payload(b.statistic, b.distribution, b.sensitivity, b.copies), "scales": None}
                for b in bounds
            ],
            [bound.has_pairs for bound in bounds],
            joint,
        )

    def agrees(self, kind: AnyKind, payload: Mapping[str, Any]) -> bool:
        """Tell whether an entry, whose mechanism was accounted for, states these sensitivities and no others.

        Where pairs do not weigh more than the diagonal in a sensitivity, they must not have less noise either.
        """
        stated_joint = kind.state_joint(self.joint)
        mechanism = payload["mechanism"]
        return (
            kind.read_joint(payload) == self.joint
            and all(payload.get(name) == text for name, text in stated_joint.items())
            and [{**part, "scales": None} for part in mechanism] == self.parts
            and all(
                has_pairs or len(set(part["scales"])) == 1
                for part, has_pairs in zip(mechanism, self.has_pairs, strict=True)
            )
        )


@cache_short(maxsize=1024)
def _read_parts(mechanism: bytes) -> tuple[Part, ...]:
    parts: list[Part] = []
    for stated in from_json(mechanism):
        statistic, bound = stated["statistic"], _read_bound(stated["sensitivity"])
        diagonal, offdiagonal = (int(scale) for scale in stated["scales"])
        copies = int(stated["copies"])
        if Distribution(stated["distribution"]) is Distribution.DISCRETE_GAUSSIAN:
            parts.append(GaussianPart(statistic, bound, diagonal, offdiagonal, copies))
        else:
            parts.append(LaplacePart(statistic, bound, diagonal, copies))
        if _part_payload(parts[-1]) != stated:
            raise ValueError("the entry states something else than what it was read as")
    if not parts:
        raise ValueError("the entry states no mechanism")
    return tuple(parts)


_read_bound = lru_cache(maxsize=1024)(Fraction)
