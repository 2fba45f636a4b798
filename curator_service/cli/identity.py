"""Commands of principals and tokens."""

import json
from typing import Annotated

import typer
from rich.table import Table

from curator_service.cli.common import AsJson, actor, emit, err, escape, open_curator, read_input
from curator_service.identity.oidc.faults import WORDS
from curator_service.identity.policy import Role
from curator_service.identity.repository import TokenRecord, sort_roles
from curator_service.identity.tokens import Token
from curator_service.register.response_models import PrincipalAnswer, TokenAnswer

tokens = typer.Typer(no_args_is_help=True)
principals = typer.Typer(no_args_is_help=True)
providers = typer.Typer(no_args_is_help=True)
_TOKEN_MAX, _SHOWN_MAX = 1 << 20, 400
TokenId = Annotated[str, typer.Argument(metavar="ID", help="A token's id: `curator tokens list` shows it.")]
Roles = Annotated[list[Role], typer.Option("--role", help="What the principal does; again for each role.")]


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token: a person or a program.")],
    role: Annotated[
        list[Role],
        typer.Option(help="What a new principal does, or which of its roles the token has; again for each role."),
    ],
    days: Annotated[int, typer.Option(help="Days until it expires.")] = 90,
    read_only: Annotated[bool, typer.Option("--read-only", help="It may only look.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once and stored as a hash."""
    with open_curator(to_write=True, creates=True) as curator:
        token = curator.identity.create_token(name, *role, days=days, read_only=read_only, actor=actor())
    may = ", ".join(role) + (", only to look" if read_only else "")
    _show_once(
        token, name, f"{may}), valid {days} days", {"roles": role, "read_only": read_only, "days": days}, as_json
    )


@tokens.command("rotate")
def rotate(
    token_id: TokenId,
    grace: Annotated[int, typer.Option(help="Seconds for which the old one goes on.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a new token in the place of one, of the same principal, roles and lifetime."""
    with open_curator(to_write=True) as curator:
        token, record = curator.identity.rotate_token(token_id, grace_s=grace, actor=actor())
    said = f"in the place of {token_id}), valid until {record.expires_at}"
    _show_once(token, record.principal.name, said, {"replaces": token_id, "expires_at": record.expires_at}, as_json)


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """Show every token, without its secret."""
    with open_curator() as curator:
        found = curator.identity.list_tokens()
    table = Table(title="Tokens")
    for header in ("id", "name", "may act as", "created", "used", "expires", "revoked"):
        table.add_column(header, no_wrap=header == "id")  # an id must be readable as a whole: revoke takes it
    for token in found:
        table.add_row(
            token.id,
            token.principal.name,
            _may(token),
            token.created_at[:10],
            (token.last_used_at or "")[:10],
            token.expires_at[:10],
            (token.revoked_at or "")[:10],
        )
    emit([TokenAnswer.of(one) for one in found], as_json=as_json, table=table)


@tokens.command("revoke")
def revoke(token_id: TokenId, as_json: AsJson = False) -> None:
    """Revoke a token by its id, from the next request on; under a seal, too."""
    with open_curator() as curator:
        curator.identity.revoke_token(token_id, actor=actor())
    emit({"id": token_id, "revoked": True}, as_json=as_json, table=f"revoked {token_id}")


@principals.command("list")
def list_principals(as_json: AsJson = False) -> None:
    """List principals and their roles."""
    with open_curator() as curator:
        found = curator.identity.list_principals()
    table = Table("name", "roles", "shown as", "signs in at", title="Principals")
    for principal in found:
        roles = ", ".join(sort_roles(principal.roles))
        table.add_row(principal.name, roles, escape(principal.shown_name), escape(principal.issuer or "the curator"))
    emit([PrincipalAnswer.of(one) for one in found], as_json=as_json, table=table)


@principals.command("appoint")
def appoint(name: str, role: Roles, as_json: AsJson = False) -> None:
    """Give a principal these roles, and no others."""
    with open_curator(to_write=True) as curator:
        changed = curator.identity.set_roles(name, *role, actor=actor())
    roles = sort_roles(changed.roles)
    emit({"name": name, "roles": roles}, as_json=as_json, table=f"{name} is {', '.join(roles)} from now on")


@providers.callback()
def of_providers() -> None:
    """Identity providers: why a token is not let in."""


@providers.command("explain")
def explain(as_json: AsJson = False) -> None:
    """Say why a token of an identity provider, on standard input, is not let in. Nothing of it is kept or logged."""
    with open_curator() as curator:
        assert curator.identity.providers is not None
        found = curator.identity.providers.explain(read_input(_TOKEN_MAX).strip())
    verdict = "the token holds, and gives a role" if found.fault is None else f"{found.fault}: {WORDS[found.fault]}"
    table = Table("claim", "stated", "wanted", title="Verified" if found.is_signed else "Not verified")
    for name, stated, wanted in found.stated:
        table.add_row(escape(name), escape(json.dumps(stated)[:_SHOWN_MAX]), escape(wanted[:_SHOWN_MAX]))
    claims = [{"claim": name, "stated": stated, "wanted": wanted} for name, stated, wanted in found.stated]
    content = {"fault": found.fault, "is_signed": found.is_signed, "claims": claims}
    emit(content, as_json=as_json, table=table)
    err.print(escape(verdict))
    if found.fault is not None:
        raise typer.Exit(1)


def _may(token: TokenRecord) -> str:
    roles = ", ".join(sort_roles(token.scopes.restrict(token.principal.roles)))
    return f"{roles}, only to look" if token.scopes.read_only else roles


def _show_once(token: Token, name: str, said: str, content: dict[str, object], as_json: bool) -> None:
    if as_json:
        emit({"name": name, "id": token.id, "token": token.text, **content}, as_json=True, table="")
        return
    err.print(f"token of {name} ({said}; it is shown once:")
    typer.echo(token.text)
