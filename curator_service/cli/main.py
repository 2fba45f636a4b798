"""``curator``: one command per act of the operator; every command has ``--json``."""

import typer

from curator_service.cli import datasets, identity, ledger, limits, recovery, server

app = typer.Typer(
    name="curator",
    help="The trusted curator for private regression: populations, datasets, tokens, the ledger and the server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold rows
    pretty_exceptions_enable=False,
)
app.add_typer(ledger.populations, name="populations")
app.add_typer(datasets.app, name="datasets")
app.add_typer(identity.tokens, name="tokens")
app.add_typer(identity.grants, name="grants")
app.add_typer(ledger.app, name="ledger")
app.add_typer(limits.app, name="limits")
app.add_typer(recovery.keys, name="keys")
app.add_typer(server.database, name="db")
app.command("backup")(recovery.backup)
app.command("restore")(recovery.restore)
app.command("serve")(server.serve)

if __name__ == "__main__":
    app()
