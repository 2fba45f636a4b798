"""Populations: all of them with what is left of their budgets, and one with its account."""

from dataclasses import dataclass

from fastapi import APIRouter, Response
from markupsafe import Markup

from curator_service.approvals.acts import set_limit
from curator_service.approvals.repository import OPEN
from curator_service.approvals.service import ApprovalService
from curator_service.dashboard import charts, repository
from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.dashboard.pages.parts import list_parts, read_price
from curator_service.dashboard.precision import ROWS, expected_lengths
from curator_service.dashboard.rendering import write_brief
from curator_service.datasets.service import DatasetService
from curator_service.identity.policy import Action, Objects
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound, Problem
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AccountModel
from curator_service.ledger.schemas import describe_spent
from curator_service.ledger.service import LedgerService
from curator_service.permits.response_models import SpentAnswer
from curator_service.permits.spending import By, Spent, list_spent

router = APIRouter(prefix="/admin")
PAGE, PARTS = 20, 20
SORTS = {"spent": "what is nearly spent", "name": "name", "left": "what has most left"}


@dataclass(frozen=True, slots=True)
class Account:
    """A population as it is shown.

    Attributes
    ----------
    budget : AccountModel
    bar, chart : Markup
        Figures; of what was left month by month only where spending may be read.
    since : str
        The chart's first month.
    outlook : str
        What is left, in studies; empty where spending may not be read, and before the first one.
    """

    budget: AccountModel
    bar: Markup
    chart: Markup
    since: str
    outlook: str


@router.get("")
@page(Action.READ_KEYS)
def show_overview(context: PageContext) -> Response:
    """Show the populations that the viewer may see, and the proposals that wait."""
    asked, sort = context.browser.query.get("q", "").strip(), context.browser.query.get("sort", "spent")
    visible = list_visible(context)
    found = [one for one in visible if asked.lower() in one.name.lower()]
    found.sort(key=lambda one: one.name)
    if sort != "name":
        found.sort(key=share_of, reverse=sort != "left")
    start = context.count("start", 0)
    reason, since = context.get(LedgerService).guard.status()
    proposals = context.get(ApprovalService).list_proposals() if context.may(Action.READ_PROPOSALS) else []
    return context.render(
        "overview.html",
        accounts=[make_account(context, one) for one in found[start : start + PAGE]],
        asked=asked,
        sort=sort if sort in SORTS else "spent",
        sorts=SORTS,
        start=start,
        page_size=PAGE,
        found=len(found),
        total=len(visible),
        nearly_spent=sum(share_of(one) >= 0.9 for one in visible),
        is_sealed=bool(reason),
        reason=reason,
        since=since,
        waiting=sum(proposal.state == OPEN for proposal in proposals),
    )


@router.get("/populations/{name}")
@page(Action.READ_BUDGET)
def show_population(context: PageContext, name: str) -> Response:
    """Show one account: what is left, what that can still tell, who may spend it, and on what."""
    return _show(context, get_visible(context, name))


add_form(
    router,
    "/populations/{population}/limit",
    set_limit,
    words="Change the limit of {population}",
    read=lambda context: {"limit": read_price(context), "reason": context.text("reason")},
    done=lambda answer: (
        f"/admin/populations/{answer.population}?done={'asked' if answer.state == OPEN else 'restricted'}"
    ),
    again=lambda context, problem, population: _show(context, get_visible(context, population), problem),
)


def _show(context: PageContext, population: Population, problem: Problem | None = None) -> Response:
    rows = context.count("rows", 0, 10**9)
    months: list[Spent] = []
    if context.may(Action.READ_SPENDING):
        months = list_spent(context.services.database, [By.MONTH], population.name)
    objects = context.objects_of(Action.READ_DATASET)
    datasets = [] if objects is None else context.get(DatasetService).list_visible(context.principal, objects)
    parts, parts_found = list_parts(context, population, PARTS) if context.may(Action.READ_PERMIT) else ([], 0)
    return context.render(
        "population.html",
        200 if problem is None else int(problem.status),
        population=population,
        account=make_account(context, population),
        lengths=expected_lengths(population, sorted({*ROWS, rows} - {0})),
        rows=rows,
        spent_says=describe_spent(population.accountant),
        months=[SpentAnswer.of(month) for month in months],
        parts=parts,
        parts_found=parts_found,
        datasets=[dataset for dataset in datasets if dataset.population == population.name],
        entered=context.entered,
        faults=[] if problem is None else list_faults(problem),
    )


def list_visible(context: PageContext) -> list[Population]:
    """Return the populations with accounts that the viewer may read: an analyst's are those of granted datasets."""
    objects = context.objects_of(Action.READ_BUDGET)
    if objects is None:
        return []
    populations = context.get(LedgerService).list_populations()
    if objects is Objects.ALL:
        return populations
    granted = context.get(DatasetService).list_visible(context.principal, objects)
    names = {dataset.population for dataset in granted}
    return [one for one in populations if one.name in names]


def get_visible(context: PageContext, name: str) -> Population:
    """Return a population with an account that the viewer may read.

    Raises
    ------
    NotFound
    """
    absent = NotFound("There is no population of this name among those that you may see.")
    if not NAME.fullmatch(name):
        raise absent
    if context.objects_of(Action.READ_BUDGET) is Objects.ALL:
        return context.get(LedgerService).get_population(name)
    found = [one for one in list_visible(context) if one.name == name]
    if not found:
        raise absent
    return found[0]


def share_of(population: Population) -> float:
    """Return which share of a limit is spent or held."""
    return (population.posted + population.pending) / population.limit


def make_account(context: PageContext, population: Population) -> Account:
    """Return what is shown of an account."""
    described = f"{100 * share_of(population):.1f} % of the limit is spent or held"
    drawn = charts.bar(population.limit, population.posted, population.pending, population.highest_limit, described)
    budget = AccountModel.of(population)
    if not context.may(Action.READ_SPENDING):
        return Account(budget, drawn, Markup(""), "", "")
    with context.services.database.read() as connection:
        charged = dict(repository.list_months(connection, population.name))
        studies, units = repository.sum_studies(connection, population.name)
    chart, since = draw_left(context, population, charged)
    return Account(budget, drawn, chart, since, describe_outlook(population, studies, units))


def describe_outlook(population: Population, studies: int, units: int) -> str:
    """Say what is left in studies of the average size so far; a study is what was charged under one permit."""
    if not studies:
        return ""
    count = max(population.remaining, 0) * studies // units
    what = "not one more study" if not count else "one more study" if count == 1 else f"{count:,} more studies"
    average = write_brief(population.view(units // studies).epsilon, "over 1000")
    return f"Can still buy {what} of the average size so far (ε = {average})."


def draw_left(context: PageContext, population: Population, charged: dict[str, int]) -> tuple[Markup, str]:
    """Draw what was left of a limit month by month, from when the account was opened until now; say from when."""
    now = context.services.identity.now().strftime("%Y-%m")
    months = months_between(min([population.created_at[:7], *charged]), max([now, *charged]))
    # What a reconciliation wrote off is of no month: it is missing from the beginning.
    left = population.limit - (population.posted - sum(charged.values()))
    points = [left / population.limit]
    for month in months:
        left -= charged.get(month, 0)
        points.append(left / population.limit)
    described = f"What was left by month, {months[0]} to {months[-1]}: now {100 * points[-1]:.1f} % of the limit"
    return charts.line(points, described), months[0]


def months_between(first: str, last: str) -> list[str]:
    """Return the months from one to another, both included.

    Examples
    --------
    >>> months_between("2026-11", "2027-01")
    ['2026-11', '2026-12', '2027-01']
    """
    (year, month), (last_year, last_month) = (map(int, text.split("-")) for text in (first, last))
    count = (last_year - year) * 12 + last_month - month + 1
    places = [year * 12 + month - 1 + i for i in range(max(count, 1))]
    return [f"{place // 12:04}-{place % 12 + 1:02}" for place in places]
