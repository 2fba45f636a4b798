"""Parts that several pages share: prices of a form, and the parts of a budget that permits have."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from curator_service.dashboard.page import PageContext
from curator_service.entries.account import Share
from curator_service.identity.policy import Action, Objects
from curator_service.kit.clock import timestamp
from curator_service.ledger.repository import Population, find_share, list_shares
from curator_service.ledger.response_models import AmountModel
from curator_service.permits.repository import Permit
from curator_service.permits.service import PermitService

_DECIMAL_COMMA, _THOUSANDS = re.compile(r"[0-9]*,[0-9]+(e-?[0-9]+)?"), re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
NOTIONS = {"epsilon": "ε and δ", "mu": "µ", "rho": "ρ", "pure": "ε alone"}
"""In which a form states a price."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of one budget that a permit has, as it is shown.

    Attributes
    ----------
    permit : Permit
    population : Population
    state : str
        ``holds``, ``expired`` or ``ended``.
    limit, posted, pending : AmountModel or None
        No limit is the account's.
    """

    permit: Permit
    population: Population
    state: str
    limit: AmountModel | None
    posted: AmountModel
    pending: AmountModel


def read_price(context: PageContext) -> dict[str, Any] | None:
    """Return the price that a form states, to be read as a body of `/v1` is; None where it states none."""
    notion = context.text("notion")
    members = {"epsilon": ("epsilon", "delta"), "pure": ("epsilon",), "mu": ("mu",), "rho": ("rho",)}.get(notion, ())
    return {member: read_number(context.text(member), float) for member in members} or None


def read_number(text: str, kind: Callable[[str], float]) -> float | str:
    """Return a number that a form states; any other text as it is, for the model says what is wrong with it.

    A fraction may have a decimal comma, unless the comma could stand for thousands, as in 1,000.
    """
    is_fraction = kind is float and _DECIMAL_COMMA.fullmatch(text) and not _THOUSANDS.fullmatch(text)
    try:
        return kind(text.replace(",", ".") if is_fraction else text)
    except ValueError:
        return text


def state_of(permit: Permit, now: str) -> str:
    """Return what has become of a permit."""
    if permit.ended_at:
        return "ended"
    return "expired" if permit.terms.expires_at is not None and permit.terms.expires_at <= now else "holds"


def make_part(permit: Permit, population: Population, share: Share, now: str) -> Part:
    """Return what is shown of a permit's part of a budget."""
    limit = None if share.limit is None else AmountModel.of(population.view(share.limit))
    posted, pending = (AmountModel.of(population.view(units)) for units in (share.posted, share.pending))
    return Part(permit, population, state_of(permit, now), limit, posted, pending)


def list_parts(context: PageContext, population: Population, count: int) -> tuple[list[Part], int]:
    """Return the parts of a budget that the viewer may see, the newest permits first, and their number."""
    with context.services.database.read() as connection:
        shares = list_shares(connection, population.name)
    of = None if context.objects_of(Action.READ_PERMIT) is Objects.ALL else context.principal.id
    # Those of a person are the ones that still let them spend.
    permits = [one for one in context.get(PermitService).list_permits(of=of) if one.id in shares]
    now = moment_of(context)
    return [make_part(one, population, shares[one.id], now) for one in permits[:count]], len(permits)


def parts_of(context: PageContext, permit: Permit, populations: dict[str, Population]) -> list[Part]:
    """Return a permit's parts, one of each budget."""
    now = moment_of(context)
    with context.services.database.read() as connection:
        shares = {name: find_share(connection, name, permit.id) for name in permit.limits}
    return [make_part(permit, populations[name], share, now) for name, share in shares.items() if share is not None]


def moment_of(context: PageContext) -> str:
    """Return the moment of now, as the ledger writes it."""
    return timestamp(context.services.identity.now())
