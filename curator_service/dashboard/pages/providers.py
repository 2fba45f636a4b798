"""Signing in at an identity provider, for the first time and anew."""

from datetime import timedelta

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.api.context import Services
from curator_service.dashboard.browser import SESSION, SIGN_IN, Browser, own_address
from curator_service.dashboard.page import PageContext, go_to, page, respond, set_sign_in
from curator_service.dashboard.pages.entrance import say, serve
from curator_service.dashboard.rendering import render
from curator_service.dashboard.sessions import BrowserSessions, SignInRefused
from curator_service.dashboard.sign_ins import LIFE, Answer, ProviderSignIns
from curator_service.identity.policy import Action
from curator_service.kit.problems import Problem

router = APIRouter(prefix="/admin")
_NO_COOKIE = (
    "Your browser did not send back the cookie of this sign-in. Begin at {}/admin, and come back within "
    f"{LIFE // timedelta(minutes=1)} minutes."
)
_WORKED_ON = "sign-ins at providers"
"""Under this name they hold at most half of the threads: a provider that is slow keeps nobody else waiting."""


@router.get("/sign-in/{name}")
async def begin(request: Request, name: str) -> Response:
    """Send the browser to a provider; whoever is signed in goes on.

    A link and not a form: the policy of a page holds for where its forms are redirected to, too. Nobody gains by
    leading somebody here, since the answer is good in this browser alone, and tells who signed in there.
    """

    def answer(browser: Browser, services: Services) -> Response:
        next_address = own_address(browser.query.get("next", ""))
        if browser.is_sent_from_elsewhere:
            return go_to("/admin/sign-in")
        if services.get(BrowserSessions).find(browser.cookie(SESSION)):
            return go_to(next_address)
        with services.requests.place(_WORKED_ON):
            address, begun = services.get(ProviderSignIns).begin(name, next_address)
        return set_sign_in(go_to(address), browser, begun)

    return await serve(request, answer)


@router.get("/sign-in/{name}/callback")
async def complete(request: Request, name: str) -> Response:
    """Take a provider's answer.

    The browser comes from elsewhere, so it does not send the session's cookie, not even after a redirect. The page that
    it gets here leads on as one of this origin.
    """

    def answer(browser: Browser, services: Services) -> Response:
        begun, sign_ins = browser.cookie(SIGN_IN), services.get(ProviderSignIns)
        try:
            if not begun:
                raise SignInRefused(_NO_COOKIE.format(sign_ins.public_url))
            # Strangers behind the same address keep nobody out who has a session.
            source = sign_ins.find_session(begun) or browser.peer
            with services.failures.watch(source, begun), services.requests.place(_WORKED_ON):
                session, next_address = sign_ins.complete(name, begun, _read(browser))
        except Problem as problem:
            return _arrive(browser, int(problem.status), fault=say(problem))
        response = _arrive(browser, address=own_address(next_address))
        if session is not None:
            response.headers.append("set-cookie", browser.set_cookie(SESSION, session.id))
        return response

    browser = Browser(request, b"")
    return await run_in_threadpool(answer, browser, request.app.state.curator)


@router.get("/confirm")
@page(Action.READ_SELF)
def show_kept(context: PageContext) -> Response:
    """Show what was filled in before its holder signed in again, to be sent now."""
    kept = context.get(BrowserSessions).find_kept(context.session)
    if kept is None or not context.session.is_fresh:
        return go_to("/admin")
    return context.render("kept.html", kept=kept)


def _read(browser: Browser) -> Answer:
    def once(name: str) -> str:
        values = browser.query.getlist(name)
        return values[0] if len(values) == 1 else ""

    return Answer(once("state"), once("code"), once("iss"), once("error"))


def _arrive(browser: Browser, status: int = 200, *, address: str = "", fault: str = "") -> Response:
    """Return the page at which a browser arrives from a provider.

    An answer that is refused takes no cookie away: a page elsewhere could end the sign-ins of whoever opens it.
    """
    text = render("arrival.html", context=None, said_done="", problem=None, address=address, fault=fault)
    response = respond(text, status, {"referrer-policy": "no-referrer"})
    return response if fault else set_sign_in(response, browser, "")
