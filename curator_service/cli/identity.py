"""Commands of tokens."""

from typing import Annotated

import typer
from rich.table import Table

from curator_service.cli.common import AsJson, emit, err, open_curator
from curator_service.identity.policy import Role
from curator_service.identity.repository import sort_roles

tokens = typer.Typer(no_args_is_help=True)


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token: a person or a program.")],
    role: Annotated[list[Role], typer.Option(help="What the principal does; again for each role.")],
    days: Annotated[int, typer.Option(help="Days until it expires.")] = 90,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once and stored as a hash."""
    with open_curator() as curator:
        token = curator.identity.create_token(name, *role, days=days)
    if as_json:
        emit({"name": name, "roles": role, "id": token.id, "token": token.text, "days": days}, as_json=True, table="")
        return
    err.print(f"token of {name} ({', '.join(role)}), valid {days} days; it is shown once:")
    typer.echo(token.text)


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """Show every token, without its secret."""
    with open_curator() as curator:
        found = curator.identity.list_tokens()
    table = Table(title="Tokens")
    for header in ("id", "name", "roles", "created", "expires", "revoked"):
        table.add_column(header, no_wrap=header == "id")  # an id must be readable as a whole: revoke takes it
    for token in found:
        principal = token.principal
        table.add_row(
            token.id,
            principal.name,
            ", ".join(sort_roles(principal.roles)),
            token.created_at[:10],
            token.expires_at[:10],
            (token.revoked_at or "")[:10],
        )
    content = [
        {
            "id": token.id,
            "name": token.principal.name,
            "roles": sort_roles(token.principal.roles),
            "created_at": token.created_at,
            "expires_at": token.expires_at,
            "revoked_at": token.revoked_at,
        }
        for token in found
    ]
    emit(content, as_json=as_json, table=table)


@tokens.command("revoke")
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Revoke a token by its id, from the next request on."""
    with open_curator() as curator:
        curator.identity.revoke_token(token_id)
    emit({"id": token_id, "revoked": True}, as_json=as_json, table=f"revoked {token_id}")
