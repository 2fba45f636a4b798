"""Refusals for lack of budget: the request, the remaining budget, and the largest price that would pass."""

from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import BudgetExceeded, Headroom
from curator_service.privacy.accountant import PURE, Amount, Price
from curator_service.privacy.allocation import Allocation
from curator_service.privacy.calibration import Calibration, PlanError
from curator_service.privacy.conversions import UNITS_PER_ONE, exact, round_down
from curator_service.releases.preparation import Prepared


def budget_exceeded(prepared: Prepared, population: Population, room: Headroom) -> BudgetExceeded:
    """Build the refusal of a request whose cost does not fit into the tightest limit that binds it."""
    remaining, asked = population.view_left(room.left), population.view(prepared.cost)
    largest = _largest_plan(prepared, population, room, remaining)
    members = None
    if largest is None:
        way_out = "What is left is too little for it: read a stored release, or ask an admin about the budget."
    else:
        members = AmountModel.of(remaining).model_dump(exclude={"units"})
        if _is_formula(prepared):  # which reads epsilon and delta alone
            members |= {"mu": None, "rho": None}
        shown = []
        if remaining.epsilon > 0:
            beside = "" if population.accountant is PURE else f" at delta = {remaining.delta!r}"
            shown.append(f"epsilon = {round_down(exact(remaining.epsilon), 6):g}{beside}")
        if members["rho"] is not None:
            shown.append(f"rho = {round_down(exact(members['rho']), 6):g}")
        if largest.pure_epsilon is not None and population.accountant is not PURE:
            members["pure_epsilon"] = round_down(largest.pure_epsilon, 9)
            shown.append(f"epsilon = {round_down(largest.pure_epsilon, 6):g} alone")
        way_out = (
            f"The largest price that would pass now is {', or '.join(shown)}. "
            "A stored release costs nothing to read again."
        )
    return BudgetExceeded(
        f"The request{_pure_price(prepared)} costs {prepared.cost / UNITS_PER_ONE:.6g} of "
        f"{population.accountant.symbol} (epsilon = {asked.epsilon:g} at delta = {asked.delta!r}), and "
        f"{room.left / UNITS_PER_ONE:.6g} of {room.limit / UNITS_PER_ONE:.6g} remain for {room.owner}. {way_out}",
        requested=AmountModel.of(asked).model_dump(),
        remaining=AmountModel.of(remaining).model_dump(),
        largest=members,
    )


def _pure_price(prepared: Prepared) -> str:
    price = prepared.request.price.price
    return f" of epsilon = {price.epsilon!r} alone" if price.is_pure else ""


def _is_formula(prepared: Prepared) -> bool:
    return prepared.request.calibration in {Calibration.CLASSICAL, Calibration.WANG2018}


def reservation_exceeded(units: int, population: Population, room: Headroom) -> BudgetExceeded:
    """Build the refusal of a reservation that does not fit."""
    way_out = "Reserve less: `remaining` is the largest that would pass."
    return _exceeded("reservation holds", units, population, room, way_out)


def session_exceeded(units: int, population: Population, room: Headroom) -> BudgetExceeded:
    """Build the refusal of a threshold session that does not fit."""
    way_out = "Offer less epsilon: `remaining` is the largest that would pass, as a cost."
    return _exceeded("session costs", units, population, room, way_out)


def _exceeded(holds: str, units: int, population: Population, room: Headroom, way_out: str) -> BudgetExceeded:
    asked, remaining = population.view(units), population.view_left(room.left)
    return BudgetExceeded(
        f"The {holds} {units / UNITS_PER_ONE:.6g} of {population.accountant.symbol}, and "
        f"{room.left / UNITS_PER_ONE:.6g} of {room.limit / UNITS_PER_ONE:.6g} remain for {room.owner}. {way_out}",
        requested=AmountModel.of(asked).model_dump(),
        remaining=AmountModel.of(remaining).model_dump(),
        largest=None,
    )


def _largest_plan(prepared: Prepared, population: Population, room: Headroom, remaining: Amount) -> Allocation | None:
    """Plan the same request at the price of all that remains; None if that is too little."""
    try:
        if _is_formula(prepared) or remaining.rho is None:
            price = Price(remaining.epsilon, None if population.accountant is PURE else remaining.delta)
        else:
            price = Price(rho=remaining.rho)
        found = prepared.kind.plan_at(prepared.dataset, prepared.request, prepared.plan, price).allocation
    except (PlanError, ValueError):
        return None
    return found if found.cost <= room.left else None
