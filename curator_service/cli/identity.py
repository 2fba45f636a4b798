"""Commands of tokens and grants."""

from typing import Annotated

import typer
from rich.table import Table

from curator_service.cli.common import AsJson, emit, err, open_curator
from curator_service.cli.datasets import find
from curator_service.identity.policy import Role

tokens = typer.Typer(no_args_is_help=True)
grants = typer.Typer(no_args_is_help=True)


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token: a person or a program.")],
    role: Annotated[Role, typer.Option(help="One role for good.")],
    days: Annotated[int, typer.Option(help="Days until it expires.")] = 90,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once and stored as a hash."""
    with open_curator() as curator:
        token = curator.identity.create_token(name, role, days=days)
    if as_json:
        emit({"name": name, "role": role, "id": token.id, "token": token.text, "days": days}, as_json=True, table="")
        return
    err.print(f"token of {name} ({role}), valid {days} days; it is shown once:")
    typer.echo(token.text)


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """Show every token, without its secret."""
    with open_curator() as curator:
        found = curator.identity.list_tokens()
    table = Table(title="Tokens")
    for header in ("id", "name", "role", "created", "expires", "revoked"):
        table.add_column(header, no_wrap=header in {"id", "role"})  # an id must be readable as a whole: revoke takes it
    for token in found:
        principal = token.principal
        table.add_row(
            token.id,
            principal.name,
            principal.role,
            token.created_at[:10],
            token.expires_at[:10],
            (token.revoked_at or "")[:10],
        )
    content = [
        {
            "id": token.id,
            "name": token.principal.name,
            "role": token.principal.role,
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


@grants.command("add")
def add(analyst: str, dataset: str, as_json: AsJson = False) -> None:
    """Let an analyst see a dataset and request releases of it."""
    with open_curator() as curator:
        curator.identity.add_grant(analyst, find(curator.datasets.list_all(), dataset).id)
    emit({"analyst": analyst, "dataset": dataset}, as_json=as_json, table=f"{analyst} may use {dataset}")


@grants.command("remove")
def remove(analyst: str, dataset: str, as_json: AsJson = False) -> None:
    """Take a grant back."""
    with open_curator() as curator:
        curator.identity.remove_grant(analyst, find(curator.datasets.list_all(), dataset).id)
    emit({"analyst": analyst, "dataset": dataset}, as_json=as_json, table=f"{analyst} may no longer use {dataset}")


@grants.command("list")
def list_grants(as_json: AsJson = False) -> None:
    """Show every grant."""
    with open_curator() as curator:
        names = {dataset.id: dataset.name for dataset in curator.datasets.list_all()}
        found = [(analyst, names[dataset_id]) for analyst, dataset_id in curator.identity.list_grants()]
    table = Table("analyst", "dataset", title="Grants")
    for analyst, dataset in found:
        table.add_row(analyst, dataset)
    emit([{"analyst": a, "dataset": d} for a, d in found], as_json=as_json, table=table)
