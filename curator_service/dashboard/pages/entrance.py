"""Signing in and out, and the files that pages load: what anybody may ask for."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.api.context import Services
from curator_service.dashboard.browser import ENTRY, PAGE_HEADERS, SESSION, Browser, own_address
from curator_service.dashboard.page import FORM_TOKEN, TOKEN, go_to, respond
from curator_service.dashboard.rendering import assets, render
from curator_service.dashboard.sessions import BrowserSessions, SignInRefused, form_token, matches, new_secret
from curator_service.dashboard.sign_ins import ProviderSignIns
from curator_service.kit.problems import NotFound, Problem, TooManyRequests

router = APIRouter(prefix="/admin")
Answer = Callable[[Browser, Services], Response]
_NO_COOKIE = (
    "Your browser did not send back the cookie of this form. Signing in needs HTTPS, or a browser on the curator's own "
    "machine, and cookies."
)
_TOO_MANY = "Too many sign-ins have failed from your address, or wait. Try again in a minute."


async def serve(request: Request, answer: Answer) -> Response:
    """Answer a request of anybody; a refusal is the form, with what is wrong."""
    browser = Browser(request, await request.body())

    def attempt() -> Response:
        try:
            return answer(browser, services)
        except Problem as problem:
            return _show_form(browser, services, int(problem.status), say(problem))

    services: Services = request.app.state.curator
    return await run_in_threadpool(attempt)


def say(problem: Problem) -> str:
    """Return what a refusal says to somebody at a page: who is refused for a rate has sent no key there."""
    return _TOO_MANY if isinstance(problem, TooManyRequests) else problem.detail


@router.get("/static/{name}")
async def get_asset(name: str) -> Response:
    """Return a file that pages load; its address changes with its content."""
    found = assets().get(name)
    if found is None:
        raise NotFound("There is no such file.")
    content, media_type = found
    headers = {**PAGE_HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=media_type, headers=headers)


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    """Show the form; whoever is signed in goes on."""

    def answer(browser: Browser, services: Services) -> Response:
        if services.get(BrowserSessions).find(browser.cookie(SESSION)):
            return go_to(own_address(browser.query.get("next", "")))
        return _show_form(browser, services)

    return await serve(request, answer)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session with a token, which is forgotten then."""

    def answer(browser: Browser, services: Services) -> Response:
        form, entry = browser.form(), browser.cookie(ENTRY)
        if not entry:
            return _show_form(browser, services, 403, _NO_COOKIE)
        if not browser.is_own_form() or not matches(entry, form.get(FORM_TOKEN, [""])[0]):
            return _show_form(browser, services, 403, "The form was not one that this browser was shown. Try again.")
        sessions, token = services.get(BrowserSessions), form.get(TOKEN, [""])[0].strip()
        with services.failures.watch(browser.peer, f"Bearer {token}"):
            entrance = sessions.enter(token)
        services.pages.take(entrance.principal.id)
        session = sessions.begin(entrance)
        before = browser.cookie(SESSION)
        if before:  # whoever signs in again is somebody else, perhaps
            sessions.end(before)
        response = go_to(own_address(form.get("next", [""])[0]))
        response.headers.append("set-cookie", browser.set_cookie(SESSION, session.id))
        response.headers.append("set-cookie", browser.set_cookie(ENTRY, ""))
        return response

    return await serve(request, answer)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""

    def answer(browser: Browser, services: Services) -> Response:
        session_id = browser.cookie(SESSION)
        if not browser.is_own_form() or not matches(session_id, browser.form().get(FORM_TOKEN, [""])[0]):
            raise SignInRefused("Nothing was done. Open a page anew and sign out from there.")
        services.get(BrowserSessions).end(session_id)
        response = go_to("/admin/sign-in")
        response.headers.append("set-cookie", browser.set_cookie(SESSION, ""))
        return response

    return await serve(request, answer)


def _show_form(browser: Browser, services: Services, status: int = 200, fault: str = "") -> Response:
    """Return the form, bound to this browser by a cookie: nobody signs somebody else in as themselves."""
    entry = browser.cookie(ENTRY) or new_secret()
    asked = browser.query.get("next", "")
    values: dict[str, Any] = {"form_token": form_token(entry), "fault": fault, "next": own_address(asked)}
    values["providers"] = services.get(ProviderSignIns).list_names()
    response = respond(render("sign_in.html", context=None, said_done="", problem=None, **values), status)
    response.headers.append("set-cookie", browser.set_cookie(ENTRY, entry))
    return response
