"""What a proposal is about, for whoever decides it: what it takes of a budget, what it would tell, what a person risks.

Amounts are those that were asked; a guess is bounded by the same function as in evidence. Nothing here looks at a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curator_service.approvals.repository import ACCOUNT, OPENING, Proposal
from curator_service.approvals.service import is_replacement
from curator_service.approvals.terms import PermitTerms, PopulationTerms
from curator_service.dashboard.page import PageContext
from curator_service.dashboard.pages.parts import Part, moment_of, parts_of, state_of
from curator_service.dashboard.precision import Lengths, expected_lengths
from curator_service.dashboard.rendering import write_percent
from curator_service.datasets.service import DatasetService
from curator_service.entries.terms import PERMIT
from curator_service.evidence.words import PROTECTED
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import LedgerService, PopulationError, plan_population, units_of_limit
from curator_service.permits.service import PermitService
from curator_service.privacy.guessing import best_guess, percent_up

ROWS = (2_000, 10_000, 50_000)
HELD = 20
"""Parts of budgets that people hold, of which a page shows so many."""


@dataclass(frozen=True, slots=True)
class Stake:
    """What a proposal takes of one budget.

    Attributes
    ----------
    population : Population
    asked : AmountModel or None
        None is all that is left.
    share : float or None
        The part of what is left; None where the limit itself is to change.
    left, after : AmountModel
        What is left now, and with it: with all of a permit spent, or under another limit.
    lengths : list of Lengths
        What one request for all that is asked would tell.
    guess, now : str
        Right guesses about a person, of 100, with it, and today; the latter is empty where it is not the limit.
    protected : str
        What is guessed.
    """

    population: Population
    asked: AmountModel | None
    share: float | None
    left: AmountModel
    after: AmountModel
    lengths: list[Lengths]
    guess: str
    now: str
    protected: str


def list_stakes(context: PageContext, proposal: Proposal, terms: PermitTerms | PopulationTerms | None) -> list[Stake]:
    """Return what a proposal takes of each budget; nothing of one that cannot be read, and of rows."""
    match proposal.scope, terms:
        case (scope, _) if scope == ACCOUNT:
            accounts = _accounts(context)
            account = accounts.get(proposal.population)
            return [] if account is None else [_of_limit(account, proposal.limit, replaces=is_replacement(proposal))]
        case (scope, PopulationTerms()) if scope == OPENING:
            try:
                planned = plan_population(
                    proposal.population, terms.adjacency, terms.accountant, terms.limit.price, terms.delta, ""
                )
            except PopulationError:
                return []
            return [_of_limit(planned, planned.limit, replaces=True)]
        case (scope, PermitTerms()) if scope == PERMIT:
            return [stake for one in populations_of(context, terms) if (stake := _of_permit(one, terms)) is not None]
    return []


def populations_of(context: PageContext, terms: PermitTerms) -> list[Population]:
    """Return the accounts of the datasets that a permit names."""
    accounts = _accounts(context)
    names = {one.population for one in context.get(DatasetService).list_all() if one.name in terms.datasets}
    return [accounts[name] for name in sorted(names) if name in accounts]


def list_held(context: PageContext, proposal: Proposal, terms: PermitTerms) -> list[tuple[list[str], Part]]:
    """Return what people of a permit hold of the same budgets already: their names, and the other permit's part."""
    accounts, names = _accounts(context), {one.name for one in populations_of(context, terms)}
    now, people, found = moment_of(context), set(terms.people), list[tuple[list[str], Part]]()
    for permit in context.get(PermitService).list_permits():
        shared = sorted(people & {*permit.people.values()})
        if not shared or permit.id == proposal.label or state_of(permit, now) != "holds":
            continue
        found += [(shared, part) for part in parts_of(context, permit, accounts) if part.population.name in names]
        if len(found) >= HELD:
            break
    return found[:HELD]


def describe_consequence(proposal: Proposal, stakes: Sequence[Stake], outcome: str) -> list[str]:
    """Say what follows from a decision, for whoever is about to take it."""
    if outcome == "withdraw":
        return ["Nothing changes. Nobody decides it any more; it can be asked for anew."]
    if outcome == "reject":
        return ["Nothing changes. Whoever asked reads your reason, and may ask anew."]
    said = []
    for stake in stakes:
        name = stake.population.name
        if proposal.scope == PERMIT:
            whole = stake.share is None or stake.share >= 1.0
            part = "All that is left" if whole else f"Up to {write_percent(stake.share or 0.0)} of what is left"
            said.append(f"{name}: {part.lower()} may be spent under it.")
        elif proposal.scope == ACCOUNT:
            said.append(f"{name}: the guarantee becomes that of the new limit, for good.")
        if stake.now:
            said.append(
                f"{name}: up to {stake.guess} of 100 guesses about a person may be right, {stake.now} as it is."
            )
        else:
            said.append(f"{name}: up to {stake.guess} of 100 guesses about a person may be right by it alone.")
    if proposal.scope == PERMIT:
        said.append("What is released under it cannot be taken back; the permit can be ended.")
    if not stakes and proposal.scope not in {ACCOUNT, PERMIT}:
        said.append(
            "These rows count as other people's, with a budget of their own. If they are the same people, each is "
            "protected less."
        )
    return [*said, "It holds at once, and the ledger names both of you."]


def _accounts(context: PageContext) -> dict[str, Population]:
    return {one.name: one for one in context.get(LedgerService).list_populations()}


def _of_limit(account: Population, units: int, *, replaces: bool) -> Stake:
    """Return what another limit of an account means; of a new or replaced one nothing holds beside it."""
    highest = units if replaces else max(units, account.highest_limit)
    return Stake(
        account,
        AmountModel.of(account.view(units)),
        None,
        AmountModel.of(account.view_left(account.remaining)),
        AmountModel.of(account.view_left(max(units - account.posted - account.pending, 0))),
        expected_lengths(account, ROWS, units=max(units - account.posted - account.pending, 0)),
        guess_by(account, highest),
        "" if replaces else guess_by(account, account.highest_limit),
        PROTECTED[account.adjacency],
    )


def _of_permit(account: Population, terms: PermitTerms) -> Stake | None:
    """Return what a permit may spend of an account; None where its limit is no amount of it."""
    units = account.remaining
    if terms.limit is not None:
        try:
            units = units_of_limit(account.accountant, terms.limit.price)
        except PopulationError:
            return None
    return Stake(
        account,
        None if terms.limit is None else AmountModel.of(account.view(units)),
        None if terms.limit is None else units / max(account.remaining, 1),
        AmountModel.of(account.view_left(account.remaining)),
        AmountModel.of(account.view_left(max(account.remaining - units, 0))),
        expected_lengths(account, ROWS, units=min(units, account.remaining)),
        guess_by(account, units),
        "",
        PROTECTED[account.adjacency],
    )


def guess_by(account: Population, units: int) -> str:
    """Return how many of 100 guesses about a person may be right by an amount that no answer has decided."""
    return percent_up(best_guess([(account.accountant, max(units, 0))]))
