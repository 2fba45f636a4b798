"""Entry of a charge in the ledger: enough to account for it again, and to derive its sensitivities again."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import NoneType

from pydantic_core import to_json

from curator_service.entries.amounts import Charge, Derive, PartModel
from curator_service.kinds.registry import AnyKind, KindRegistry
from curator_service.kit.caches import cache_short
from curator_service.ledger.accounts.unit_of_work import Payer
from curator_service.privacy.accountant import Accountant, JointBound
from curator_service.privacy.allocation import Bound
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part
from curator_service.privacy.samplers import Distribution
from curator_service.releases.answers import Answer, read_member
from curator_service.releases.preparation import Prepared
from curator_service.releases.rendering import answer_digest
from curator_service.releases.repository import StoredRelease

_COST = {"units", "mu", "rho", "epsilon", "delta", "share_of_budget"}
_NUMBER = {float, int, NoneType}


def state_derived(
    release_id: str, prepared: Prepared, answer: str, moment: str, payer: Payer, source: StoredRelease
) -> Derive:
    """Return what the entry of a derived answer says."""
    said = _state_answer(release_id, prepared, answer, moment)
    return Derive(**payer.stated, **said | {"snapshot": source.read_entry().said.snapshot}, source=source.id)


def state_charge(
    release_id: str, prepared: Prepared, answer: str, moment: str, payer: Payer, reservation_id: str | None
) -> Charge:
    """Return what a charge's entry says: enough to account for it again from its integers."""
    return Charge(
        **payer.stated,
        **_state_answer(release_id, prepared, answer, moment),
        mechanism=tuple(_state_part(part) for part in prepared.plan.parts),
        curvature=prepared.kind.state_joint(prepared.plan.joint),
        reservation=reservation_id,
    )


def _state_answer(release_id: str, prepared: Prepared, answer: str, moment: str) -> dict[str, str]:
    return {
        "release_kind": prepared.kind.name,
        "dataset": prepared.dataset.name,
        "release": release_id,
        "request_digest": prepared.request_digest,
        "answer_digest": answer_digest(answer),
        "snapshot": prepared.dataset.commitment,
        "time": moment,
    }


def _state_part(part: Part) -> PartModel:
    bound = part.sensitivity_squared if isinstance(part, GaussianPart) else part.sensitivity
    scales = tuple(str(scale) for scale in part.scales)
    return _state_sensitivity(part.statistic, part.distribution, bound, part.copies, scales)


def _state_sensitivity(
    statistic: str, distribution: Distribution, sensitivity: Fraction, copies: int, scales: tuple[str, ...] = ()
) -> PartModel:
    return PartModel(
        statistic=statistic,
        distribution=distribution,
        sensitivity=str(sensitivity),
        norm="L2 squared" if distribution is Distribution.DISCRETE_GAUSSIAN else "L1",
        copies=copies,
        scales=scales,
    )


def recompute_cost(kinds: KindRegistry, charge: Charge, accountant: Accountant) -> int:
    """Return what a charge's entry costs under an accountant, from the integers that it states.

    Raises
    ------
    ValueError, KeyError, TypeError
        If the entry states no mechanism, or one that the accountant does not count; or a kind that is not known.
    """
    return _account(accountant, charge.mechanism, kinds[charge.release_kind].read_joint(charge.curvature))


@cache_short(maxsize=1024)
def _account(accountant: Accountant, mechanism: tuple[PartModel, ...], joint: JointBound | None) -> int:
    return accountant.cost(_read_parts(mechanism), joint)


def agrees_with_charge(kind: AnyKind, answer: Answer, charge: Charge, units: str) -> bool:
    """Tell whether an answer states the cost and the noise of the entry that charged it."""
    try:
        return _units_of(answer.cost) == units and answer.noise == _render_noise(kind, charge.mechanism)
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
def _render_noise(kind: AnyKind, mechanism: tuple[PartModel, ...]) -> str:
    parts = _read_parts(mechanism)
    return to_json({"distribution": parts[0].distribution, "sd": kind.state_noise(parts)}).decode()


@dataclass(frozen=True, slots=True)
class Stated:
    """Sensitivities that a charge's entry states, its scales aside."""

    parts: list[PartModel]
    has_pairs: list[bool]
    joint: JointBound | None

    @classmethod
    def of(cls, bounds: Sequence[Bound], joint: JointBound | None) -> "Stated":
        """Return what it says where they are these."""
        return cls(
            [_state_sensitivity(b.statistic, b.distribution, b.sensitivity, b.copies) for b in bounds],
            [bound.has_pairs for bound in bounds],
            joint,
        )

    def agrees(self, kind: AnyKind, charge: Charge) -> bool:
        """Tell whether an accounted entry states these sensitivities and no others.

        Where pairs do not weigh more than the diagonal in a sensitivity, they must not have less noise either.
        """
        mechanism = charge.mechanism
        return (
            charge.curvature == kind.state_joint(self.joint)
            and [part.model_copy(update={"scales": ()}) for part in mechanism] == self.parts
            and all(
                has_pairs or len(set(part.scales)) == 1
                for part, has_pairs in zip(mechanism, self.has_pairs, strict=True)
            )
        )


@cache_short(maxsize=1024)
def _read_parts(mechanism: tuple[PartModel, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for stated in mechanism:
        statistic, bound = stated.statistic, _read_bound(stated.sensitivity)
        diagonal, offdiagonal = (int(scale) for scale in stated.scales)
        if stated.distribution is Distribution.DISCRETE_GAUSSIAN:
            parts.append(GaussianPart(statistic, bound, diagonal, offdiagonal, stated.copies))
        else:
            parts.append(LaplacePart(statistic, bound, diagonal, stated.copies))
        if _state_part(parts[-1]) != stated:
            raise ValueError("the entry states something else than what it was read as")
    if not parts:
        raise ValueError("the entry states no mechanism")
    return tuple(parts)


_read_bound = lru_cache(maxsize=1024)(Fraction)
