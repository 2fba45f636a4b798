"""Tokens: whose there are and until when; making one, rotating one, which is shown this once, and revoking one."""

import secrets
from collections.abc import Mapping
from typing import Any, cast

from fastapi import APIRouter, Response

from curator_service.api.http import read_model
from curator_service.dashboard.page import PageContext, add_form, list_faults, page, refuse
from curator_service.dashboard.pages.parts import moment_of, read_number
from curator_service.identity.policy import PRIVILEGED, Action, Role
from curator_service.identity.repository import TokenRecord, sort_roles
from curator_service.identity.service import DAYS_MAX, GRACE_S_MAX, IdentityError
from curator_service.identity.tokens import Token
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.register.acts import create_token, revoke_token

router = APIRouter(prefix="/admin")
PAGE = 50
STATES = ("holds", "expired", "revoked")
GRACES = {0: "ends at once", 3600: "goes on for an hour", 86400: "goes on for a day", GRACE_S_MAX: "goes on for a week"}
"""What becomes of a token that is rotated, by seconds."""


@router.get("/tokens")
@page(Action.READ_PRINCIPALS)
def show_tokens(context: PageContext) -> Response:
    """Show tokens, those that hold unless others are asked for, the newest first; no secret is known."""
    asked, state = context.browser.query.get("q", "").strip(), context.browser.query.get("state", "holds")
    now, start = moment_of(context), context.count("start", 0)
    tokens = context.services.identity.list_tokens()[::-1]
    people = context.people.find_all(token.principal.id for token in tokens)
    found = [
        (token, _state(token, now))
        for token, whose in zip(tokens, people, strict=True)
        if any(asked.lower() in text.lower() for text in (token.id, whose.name, whose.shown))
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
        privileged=PRIVILEGED,
    )


@router.get("/tokens/new")
@page(Action.ISSUE)
def show_form(context: PageContext) -> Response:
    """Show the form to make a token."""
    return _show_form(context, {})


@router.post("/tokens/new")
@page(Action.ISSUE, act=lambda context: (f"Make a token for {context.text('name')}", []))
def create(context: PageContext) -> Response:
    """Make a token, and show it this once."""
    given: dict[str, Any] = {"name": context.text("name"), "roles": context.form.get("roles", [])}
    given |= {"read_only": bool(context.text("read_only")), "days": read_number(context.text("days"), int)}
    try:
        asked = create_token.take(read_model(given, cast(Any, create_token.body)))
        name, roles = asked.pop("name"), map(Role, asked.pop("roles"))
        made = context.services.identity.create_token_once(
            name, *roles, **asked, by=context.principal, form=context.text("once")
        )
    except IdentityError as error:
        return _show_form(context, context.entered, RequestInvalid.at("/name", str(error)))
    except Problem as problem:
        return _show_form(context, context.entered, problem)
    return _show_token(context, *made)


@router.get("/tokens/{token_id}/rotate")
@page(Action.ISSUE)
def show_rotation(context: PageContext, token_id: str) -> Response:
    """Show the form to rotate a token."""
    return _show_rotation(context, token_id)


@router.post("/tokens/{token_id}/rotate")
@page(Action.ISSUE, act=lambda context, token_id: _describe(context, token_id, "Rotate"))
def rotate(context: PageContext, token_id: str) -> Response:
    """Make a token in the place of another one, and show it this once."""
    _get(context, token_id)
    grace_s, by = read_number(context.text("grace_s"), int), context.principal
    try:
        if grace_s not in GRACES:
            raise RequestInvalid.at("/grace_s", f"is one of {', '.join(map(str, GRACES))} seconds")
        made = context.services.identity.rotate_token(token_id, grace_s=int(grace_s), actor=by.id, by=by)
    except IdentityError as error:
        return _show_rotation(context, token_id, RequestInvalid.at("", str(error)))
    except Problem as problem:
        return _show_rotation(context, token_id, problem)
    return _show_token(context, *made, replaced=context.services.identity.get_token(token_id))


def _show_form(context: PageContext, entered: Mapping[str, str], problem: Problem | None = None) -> Response:
    return context.render(
        "token_form.html",
        200 if problem is None else int(problem.status),
        entered=entered,
        chosen=context.form.get("roles", [Role.ANALYST]),
        roles=[role for role in Role if role not in PRIVILEGED],
        once=secrets.token_urlsafe(16),
        days_max=DAYS_MAX,
        faults=[] if problem is None else list_faults(problem),
    )


def _show_rotation(context: PageContext, token_id: str, problem: Problem | None = None) -> Response:
    return context.render(
        "token_rotation.html",
        200 if problem is None else int(problem.status),
        token=_get(context, token_id),
        graces=GRACES,
        faults=[] if problem is None else list_faults(problem),
    )


def _show_token(
    context: PageContext, token: Token, record: TokenRecord, *, replaced: TokenRecord | None = None
) -> Response:
    """Show a token this once: no page leads here again, and no browser may keep it."""
    roles = sort_roles(record.scopes.restrict(record.principal.roles))
    shown = context.render("token_made.html", 201, made=token.text, token=record, roles=roles, replaced=replaced)
    shown.headers["cache-control"] = "no-store"
    return shown


def _get(context: PageContext, token_id: str) -> TokenRecord:
    try:
        return context.services.identity.get_token(token_id)
    except IdentityError:
        raise NotFound("There is no token of this id.") from None


def _describe(context: PageContext, token_id: str, act: str = "Revoke") -> tuple[str, list[tuple[str, str]]]:
    """Return whose token an act is on."""
    token = _get(context, token_id)
    return f"{act} the token {token.id}", [("of", token.principal.name), ("since", token.created_at)]


add_form(
    router,
    "/tokens/{token_id}/revoke",
    revoke_token,
    words=_describe,
    done=lambda _: "/admin/tokens?done=revoked",
    again=lambda context, problem, token_id: refuse(context, problem),
)


def _state(token: TokenRecord, now: str) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at <= now else "holds"
