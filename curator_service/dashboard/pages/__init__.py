"""The pages, one module for each subject, and what makes them one application with the routes of `/v1`."""

from collections.abc import Iterable
from http import HTTPStatus

from fastapi import APIRouter, Response

from curator_service.api.acts import Acts
from curator_service.dashboard.page import page
from curator_service.dashboard.pages import (
    datasets,
    entrance,
    health,
    inbox,
    keys,
    ledger,
    people,
    permits,
    populations,
    proposals,
    providers,
    releases,
    sessions,
    spending,
    surveys,
    tokens,
)
from curator_service.dashboard.pages.acts import add_act
from curator_service.identity.policy import Action
from curator_service.kit.problems import NotFound

_rest = APIRouter(prefix="/admin")


@_rest.get("/{path:path}")
@page(Action.READ_KEYS)
def find_nothing(context: object, path: str) -> Response:
    """Refuse any other address, as a page."""
    raise NotFound("There is no page at this address.")


_root = APIRouter()


@_root.get("/")
def lead_to_overview() -> Response:
    """Lead whoever enters the name of the host to the pages."""
    return Response(status_code=HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": "/admin"})


def add_dashboard(router: APIRouter, slices: Iterable[Acts] = ()) -> None:
    """Add the pages to a router, and those of acts; no client is generated for them, so no document lists them."""
    forms = APIRouter(prefix="/admin")
    for act in (one for acts in slices for one in acts if one.has_page):
        add_act(forms, act)
    for subject in (
        _root,
        entrance.router,
        providers.router,
        populations.router,
        ledger.router,
        releases.router,
        spending.router,
        sessions.router,
        surveys.router,
        permits.router,
        proposals.router,
        datasets.router,
        inbox.router,
        tokens.router,
        people.router,
        keys.router,
        health.router,
        forms,
        _rest,  # last: it takes what is left
    ):
        router.include_router(subject, include_in_schema=False)
