"""People: how each is displayed, setting a name and an e-mail, and erasing them."""

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.identity.names import EMAIL_MAX, NAME_MAX
from curator_service.identity.people import UNSHOWN
from curator_service.identity.policy import Action, Objects
from curator_service.kit.problems import NotFound, Problem
from curator_service.register.acts import erase_name, find_named, name_person
from curator_service.register.response_models import PrincipalAnswer

router = APIRouter(prefix="/admin")
PAGE = 50


@router.get("/people")
@page(Action.READ_PRINCIPALS)
def show_people(context: PageContext) -> Response:
    """Show principals, by name, with how each is displayed."""
    asked, start = context.browser.query.get("q", "").strip(), context.count("start", 0)
    principals = context.services.identity.list_principals()
    people = context.people.find_all(one.id for one in principals)
    found = [
        (person, principal)
        for principal, person in zip(principals, people, strict=True)
        if any(asked.lower() in text.lower() for text in (person.name, person.shown, person.email))
    ]
    return context.render(
        "people.html",
        people=found[start : start + PAGE],
        asked=asked,
        start=start,
        page_size=PAGE,
        found=len(found),
    )


@router.get("/people/{name}")
@page(Action.ERASE_NAME)
def show_person(context: PageContext, name: str) -> Response:
    """Show how one person is displayed, and the forms to change that."""
    return _show(context, name)


def _show(context: PageContext, name: str, problem: Problem | None = None) -> Response:
    if isinstance(problem, NotFound):
        raise problem
    named = context.people.find(find_named(context.as_request(), name).id)
    shown = "" if named.shown == UNSHOWN else named.shown
    may_name = context.objects_of(Action.NAME) is Objects.ALL or name == context.principal.name
    return context.render(
        "person.html",
        200 if problem is None else int(problem.status),
        named=named,
        may_name=may_name and context.may(Action.NAME),
        entered={"display_name": shown, "email": named.email} | dict(context.entered),
        longest={"display_name": NAME_MAX, "email": EMAIL_MAX},
        faults=[] if problem is None else list_faults(problem),
    )


def _lead_back(answer: PrincipalAnswer, done: str) -> str:
    return f"/admin/people/{answer.name}?done={done}"


def _show_again(context: PageContext, problem: Problem, name: str) -> Response:
    return _show(context, name, problem)


add_form(
    router,
    "/people/{name}/name",
    name_person,
    done=lambda answer: _lead_back(answer, "named"),
    again=_show_again,
)
add_form(
    router,
    "/people/{name}/erase",
    erase_name,
    words="Erase the displayed name and the e-mail of {name}",
    done=lambda answer: _lead_back(answer, "name-erased"),
    again=_show_again,
)
