"""Spending: what was charged, summed as whoever looks wants it, on a page or as a table to take away."""

from fastapi import APIRouter, Response

from curator_service.dashboard.browser import PAGE_HEADERS
from curator_service.dashboard.page import PageContext, page
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.permits.spending import By, Spent, list_spent, render_spent, write_csv

router = APIRouter(prefix="/admin")
PAGE = 50


@router.get("/spending")
@page(Action.READ_SPENDING)
def show_spending(context: PageContext) -> Response:
    """Show what was charged, by population and group."""
    groups, population = _groups(context), context.browser.query.get("population", "").strip()
    start = context.count("start", 0, 2**40)
    found = _list(context, groups, population, start, PAGE + 1)
    query = "".join(f"&by={group}" for group in groups)
    return context.render(
        "spending.html",
        spent=[render_spent(spent) for spent in found[:PAGE]],
        accountants={spent.population.name: spent.population.accountant.name for spent in found},
        groups=groups,
        every=list(By),
        population=population,
        query=f"population={population if NAME.fullmatch(population) else ''}{query}",
        start=start,
        page_size=PAGE,
        has_more=len(found) > PAGE,
    )


@router.get("/spending.csv")
@page(Action.READ_SPENDING)
def get_csv(context: PageContext) -> Response:
    """Return the same as the interface of `/v1` returns it."""
    groups = _groups(context)
    text = write_csv(_list(context, groups, context.browser.query.get("population", "").strip()), groups)
    headers = {**PAGE_HEADERS, "content-disposition": 'attachment; filename="spending.csv"'}
    return Response(text, media_type="text/csv", headers=headers)


def _groups(context: PageContext) -> list[By]:
    named = set(context.browser.query.getlist("by"))
    return [group for group in By if group.value in named] or [By.ANALYST, By.PROJECT]


def _list(
    context: PageContext, groups: list[By], population: str, start: int = 0, count: int | None = None
) -> list[Spent]:
    if population and not NAME.fullmatch(population):
        return []
    return list_spent(context.services.database, groups, population or None, start=start, count=count)
