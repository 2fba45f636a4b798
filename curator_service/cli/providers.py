"""The command that explains tokens of identity providers."""

import json

import typer
from rich.table import Table

from curator_service.cli.common import AsJson, emit, err, escape, open_curator, read_input
from curator_service.identity.oidc.faults import WORDS

providers = typer.Typer(no_args_is_help=True)
_TOKEN_MAX, _SHOWN_MAX = 1 << 20, 400


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
