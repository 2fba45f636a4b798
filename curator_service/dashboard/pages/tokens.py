"""Tokens: whose there are, until when, and revoking one."""

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, add_form, page, refuse
from curator_service.dashboard.pages.parts import moment_of
from curator_service.identity.policy import Action
from curator_service.identity.repository import TokenRecord, sort_roles
from curator_service.identity.service import IdentityError
from curator_service.kit.problems import NotFound
from curator_service.register.acts import revoke_token

router = APIRouter(prefix="/admin")
PAGE = 50
STATES = ("holds", "expired", "revoked")


@router.get("/tokens")
@page(Action.READ_PRINCIPALS)
def show_tokens(context: PageContext) -> Response:
    """Show tokens, those that hold unless others are asked for, the newest first; no secret is known."""
    asked, state = context.browser.query.get("q", "").strip(), context.browser.query.get("state", "holds")
    now, start = moment_of(context), context.count("start", 0)
    found = [
        (token, _state(token, now))
        for token in reversed(context.services.identity.list_tokens())
        if asked.lower() in token.principal.name.lower() or asked.lower() in token.id
    ]
    if state in STATES:
        found = [one for one in found if one[1] == state]
    return context.render(
        "tokens.html",
        tokens=[(token, state, sort_roles(token.principal.roles)) for token, state in found[start : start + PAGE]],
        asked=asked,
        state=state,
        states=STATES,
        start=start,
        page_size=PAGE,
        found=len(found),
        now=now,
    )


def _describe_revocation(context: PageContext, token_id: str) -> tuple[str, list[tuple[str, str]]]:
    """Return whose token would be revoked."""
    try:
        token = context.services.identity.get_token(token_id)
    except IdentityError:
        raise NotFound("There is no token of this id.") from None
    return f"Revoke the token {token.id}", [("of", token.principal.name), ("since", token.created_at)]


add_form(
    router,
    "/tokens/{token_id}/revoke",
    revoke_token,
    words=_describe_revocation,
    done=lambda _: "/admin/tokens?done=revoked",
    again=lambda context, problem, token_id: refuse(context, problem),
)


def _state(token: TokenRecord, now: str) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at <= now else "holds"
