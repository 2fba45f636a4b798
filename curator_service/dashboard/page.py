"""Pages made of functions: a page exists only through an action of the policy, as a route of `/v1` does."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.api.acts import Act
from curator_service.api.context import RequestContext, Services
from curator_service.api.http import read_model
from curator_service.dashboard.browser import PAGE_HEADERS, SESSION, SIGN_IN, Browser
from curator_service.dashboard.rendering import render
from curator_service.dashboard.sessions import BrowserSession, BrowserSessions, KeptForm, SignInRefused, matches
from curator_service.dashboard.sign_ins import LIFE, ProviderSignIns
from curator_service.identity.people import Look
from curator_service.identity.policy import Action, Objects
from curator_service.identity.repository import Principal
from curator_service.identity.service import Caller, PermissionDenied
from curator_service.kit.db import DATABASE_ERRORS
from curator_service.kit.logs import log_without_data
from curator_service.kit.problems import InternalError, Problem, RequestInvalid, TooManyRequests, Unavailable

S = TypeVar("S")
Words = str | Callable[..., tuple[str, list[tuple[str, str]]]]
FORM_TOKEN, TOKEN, SEEN = "form_token", "token", "seen"
"""Names of fields: of a session's forms, of a token that is entered again, and of a digest of what was shown."""
DONE = {
    "approved": "Approved. It holds from now on, and the ledger names both of you.",
    "rejected": "Rejected. Nothing has changed.",
    "withdrawn": "Taken back. Nobody decides it any more.",
    "done": "Done.",
    "asked": "Asked. Another privacy officer decides.",
    "restricted": "Done. It only restricts, so it holds from now on.",
    "said": "Said. It stands below, and whoever asks for this reads it there and by the library.",
    "closed": "Closed. It answers no more questions.",
    "survey-closed": "Closed. It takes no more reports.",
    "ended": "Ended. Nothing is charged under this permit any more.",
    "registered": "Registered. Analysts may use it once a permit names it.",
    "named": "Done. It is displayed from now on, beside the name that the ledger has.",
    "name-erased": "Erased. Entries of the ledger hold as before.",
    "revoked": "Revoked. From the next request on the token lets nobody in.",
}
"""What a page says after an act: an address can choose among these, and say nothing of its own."""


class FormForged(Problem):
    """A form was not one that this session was shown, or was posted from elsewhere."""

    slug = "permission-denied"
    status = PermissionDenied.status
    title = "This form is not one of yours"


@dataclass
class PageContext:
    """A request of somebody who is signed in, with permission for one action.

    Attributes
    ----------
    services : Services
    browser : Browser
    session : BrowserSession
    objects : Objects
    form : dict of str to list of str
        What was posted; empty where nothing was.
    """

    services: Services
    browser: Browser
    session: BrowserSession
    objects: Objects
    form: dict[str, list[str]] = field(default_factory=dict)

    @property
    def principal(self) -> Principal:
        """Principal that is signed in."""
        return self.session.principal

    def as_request(self) -> RequestContext:
        """Return the context of an act that a form does."""
        caller = Caller(self.principal, "token" if self.session.by_token else "provider")
        return RequestContext(self.services, caller, self.objects)

    def get(self, service: type[S]) -> S:
        """Return the service of a class."""
        return self.services.get(service)

    def objects_of(self, action: Action) -> Objects | None:
        """Return the objects on which whoever looks may take an action, or None."""
        try:
            return self.services.identity.authorize(self.principal, action)
        except PermissionDenied:
            return None

    def may(self, action: Action) -> bool:
        """Tell whether the viewer may take an action on any object: a page hides the others."""
        return self.objects_of(action) is not None

    @cached_property
    def people(self) -> Look:
        """How people are displayed on this page."""
        return self.services.identity.people.look()

    def text(self, name: str) -> str:
        """Return a field of the form that was posted, without blanks around it."""
        return self.form.get(name, [""])[0].strip()

    @cached_property
    def entered(self) -> Mapping[str, str]:
        """Values entered in the form, to be shown again after a refusal."""
        return {name: values[0] for name, values in self.form.items() if name not in {FORM_TOKEN, TOKEN}}

    def count(self, name: str, default: int, highest: int = 2**62) -> int:
        """Read a whole number from the address; any other text is the default."""
        text = self.browser.query.get(name, "")
        return min(int(text), highest) if text.isascii() and text.isdigit() and len(text) < 20 else default

    def render(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """Return a page."""
        said = DONE.get(self.browser.query.get("done", ""), "")
        shown = {"context": self, "said_done": said, "problem": None, **values}
        return respond(render(template, **shown), status)


def respond(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return HTML under the policy of the dashboard's pages."""
    return Response(text, status, media_type="text/html", headers=PAGE_HEADERS | dict(headers or {}))


def set_sign_in(response: Response, browser: Browser, begun: str) -> Response:
    """Let a browser keep a sign-in that has begun at a provider, or with an empty text forget it.

    A provider leads back from elsewhere, with which only a cookie that is lax comes. One that is bound to a path could
    not have the prefix that lets no other host set it.
    """
    age_s = int(LIFE.total_seconds()) if begun else None
    response.headers.append("set-cookie", browser.set_cookie(SIGN_IN, begun, site="Lax", age_s=age_s))
    return response


def go_to(address: str, browser: Browser | None = None) -> Response:
    """Send the browser on to another page; a script that asks for a part of one must load it as a whole."""
    if browser is not None and browser.is_htmx:
        return Response(status_code=200, headers=PAGE_HEADERS | {"HX-Redirect": address})
    return Response(status_code=HTTPStatus.SEE_OTHER, headers=PAGE_HEADERS | {"Location": address})


def page(action: Action, *, act: Words = "") -> Callable[[Callable[..., Response]], Callable[..., Any]]:
    """Turn a function of a `PageContext` and the route's parameters into a page.

    The event loop reads the body; one worker thread finds the session, counts the page, checks where a form comes from,
    authorises and answers, in this order. A refusal is a page, too.

    Parameters
    ----------
    action : Action
        What whoever looks must be allowed to do.
    act : str or callable
        What the page does, in words, where its caller must have proved within the last minutes who that is: with names
        of the route's parameters in braces, or made of the context and the parameters, with what it is about. Who has
        not is asked to, and what the form held is kept.
    """

    def decorate(function: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        signature = inspect.signature(function)

        def answer(browser: Browser, services: Services, parameters: dict[str, object]) -> Response:
            with services.database.shared_read():
                sessions = services.get(BrowserSessions)
                try:
                    session = sessions.find(browser.cookie(SESSION))
                except Unavailable:  # sessions cannot be proved now: the page of the way in says why
                    session = None
                if session is None:
                    return go_to(_entrance(browser), browser)
                context = PageContext(services, browser, session, Objects.GRANTED)
                try:
                    services.pages.take(session.principal.id)
                    if browser.method == "POST":
                        context.form = _check_form(browser, session)
                    context.objects = services.identity.authorize(session.principal, action)
                    with services.requests.place(session.principal.id):
                        if act and not session.is_fresh and not _confirm(context, sessions):
                            return _ask_token(context) if session.by_token else _ask_anew(context, act, parameters)
                        answered = function(context, **parameters)
                        if act and answered.status_code < HTTPStatus.BAD_REQUEST:
                            _forget(context, sessions)
                        return answered
                except Problem as problem:
                    return refuse(context, problem)
                except Exception as error:
                    log_without_data(browser.instance, error)
                    return refuse(context, _as_problem(error))

        async def endpoint(request: Request, **parameters: object) -> Response:
            browser = Browser(request, await request.body())
            return await run_in_threadpool(answer, browser, request.app.state.curator, parameters)

        # What FastAPI reads: the request in place of the context, then the route's own parameters.
        _, *own = signature.parameters.values()
        place = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
        endpoint.__signature__ = signature.replace(parameters=[place, *own])  # type: ignore[attr-defined]
        endpoint.__name__, endpoint.__doc__ = function.__name__, function.__doc__
        endpoint.action = action  # type: ignore[attr-defined]
        return endpoint

    return decorate


def _entrance(browser: Browser) -> str:
    return f"/admin/sign-in?next={quote(browser.address)}" if browser.method == "GET" else "/admin/sign-in"


def _check_form(browser: Browser, session: BrowserSession) -> dict[str, list[str]]:
    """Return the fields of a form that is this session's own.

    Raises
    ------
    FormForged, MediaTypeUnsupported, BodyMalformed
    """
    form = browser.form()
    if not browser.is_own_form() or not matches(session.id, form.get(FORM_TOKEN, [""])[0]):
        raise FormForged("Nothing was done. Open the page anew and send the form from there.")
    return form


def _confirm(context: PageContext, sessions: BrowserSessions) -> bool:
    """Take a token that was entered with the form; tell whether there was one that is right."""
    text = context.text(TOKEN)
    if not text:
        return False
    try:
        with context.services.failures.watch(context.browser.peer, f"Bearer {text}"):
            sessions.confirm(context.session, text)
    except SignInRefused:
        return False
    return True


def _ask_token(context: PageContext) -> Response:
    return context.render("confirm.html", 403, kept=_fields(context), was_wrong=bool(context.text(TOKEN)))


def _ask_anew(context: PageContext, act: Words, parameters: dict[str, Any]) -> Response:
    """Ask whoever signed in at a provider to do it again; the form is kept here, and shown again after that."""
    words, about = (act.format(**parameters), []) if isinstance(act, str) else act(context, **parameters)
    sign_ins, browser = context.get(ProviderSignIns), context.browser
    name = sign_ins.name_of(context.principal.issuer)
    address, kept = sign_ins.begin(name, "/admin/confirm", context.session)
    context.get(BrowserSessions).keep(context.session, KeptForm(browser.path, words, about, _fields(context)))
    shown = context.render("anew.html", 403, act=words, about=about, name=name, address=address)
    return set_sign_in(shown, browser, kept)


def _forget(context: PageContext, sessions: BrowserSessions) -> None:
    """Forget a form that was kept and is done now, so that no look back does it again."""
    with suppress(*DATABASE_ERRORS):  # what was asked for is done
        kept = sessions.find_kept(context.session)
        if kept is not None and kept.address == context.browser.path:
            sessions.forget_kept(context.session)


def _fields(context: PageContext) -> list[tuple[str, str]]:
    return [(name, text) for name, texts in context.form.items() if name not in {FORM_TOKEN, TOKEN} for text in texts]


def refuse(context: PageContext, problem: Problem) -> Response:
    """Return a refusal as a page."""
    if isinstance(problem, TooManyRequests):  # its words are for programs, which send keys
        wait_s = problem.retry_after_s
        told = f"Too many pages are asked for at once. Nothing was done. Open this page again in {wait_s} s."
        problem = TooManyRequests(told, retry_after_s=wait_s)
    shown = context.render("problem.html", int(problem.status), problem=problem)
    shown.headers.update(problem.headers)
    return shown


def _as_problem(error: Exception) -> Problem:
    if isinstance(error, DATABASE_ERRORS):
        return Unavailable("The database is busy, or does not answer. Look again in a moment.")
    return InternalError("The page failed; the log has the id below.")


def add_form(
    router: APIRouter,
    address: str,
    act: Act,
    *,
    done: Callable[[Any], str],
    again: Callable[..., Response],
    words: Words = "",
    read: Callable[[PageContext], dict[str, Any]] | None = None,
) -> None:
    """Add the page to which the form of an act is posted.

    Parameters
    ----------
    address : str
        With the parameters of the act's own address.
    done : callable
        Takes the answer, and returns the address of the page that follows.
    again : callable
        Takes the context, the problem of a form that is refused, and the parameters of the address; returns the page.
    words : str or callable
        As for `page`.
    read : callable, optional
        Takes the context and returns the members of the act's body. Default: a text field for each.
    """
    assert act.action is not None

    def post(context: PageContext, **path: str) -> Response:
        given = {one.name: context.text(one.name) for one in act.of_body} if read is None else read(context)
        try:
            body = {} if act.body is None else act.take(read_model(given, act.body))
            answer = act(context.as_request(), **path, **body)
        except Problem as problem:
            return again(context, problem, **path)
        return go_to(done(answer))

    post.__name__, post.__doc__ = act.name, act.do.__doc__
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *re.findall(r"{(\w+)}", address)]
    post.__signature__ = inspect.Signature([inspect.Parameter(name, kind, annotation=str) for name in names])  # type: ignore[attr-defined]
    router.post(address)(page(act.action, act=words)(post))


def list_faults(problem: Problem) -> list[str]:
    """Return what is wrong with a form, place by place."""
    if isinstance(problem, RequestInvalid):
        return [f"{place['pointer'].strip('/?') or 'form'}: {place['detail']}" for place in problem.members["errors"]]
    return [problem.detail]
