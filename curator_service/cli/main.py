"""``curator``: one command per act of the operator; every command has ``--json``."""

from typing import Annotated, ClassVar

import typer

from curator_service import __version__
from curator_service.cli.lazy import LazyGroup, Place


class Commands(LazyGroup):
    """Every command, where it is, and what `curator --help` says of it."""

    places: ClassVar[dict[str, Place]] = {
        name: Place(f"curator_service.cli.{module}", attribute, text)
        for name, module, attribute, text in (
            ("populations", "acts", "populations", "Populations: the people whom one budget protects."),
            ("manifest", "manifest", "app", "Manifests: check all rows against one before it is registered."),
            ("datasets", "datasets", "app", "Datasets: a manifest and its rows."),
            ("catalogue", "catalogue", "app", "Descriptions of datasets for catalogues, and the record of processing."),
            ("subjects", "subjects", "app", "Data that are held of one person, found by the identifier."),
            ("principals", "acts", "principals", "Principals and their roles."),
            ("providers", "providers", "providers", "Identity providers: why a token is not let in."),
            ("tokens", "acts", "tokens", "Bearer tokens of principals."),
            ("permits", "acts", "permits_group", "Permits: people, datasets, limits and ends."),
            ("proposals", "acts", "proposals", "Proposals that wait: permits, limits, rows like others."),
            ("ledger", "ledger", "app", "The ledger: what was spent, and whether its history holds."),
            ("limits", "acts", "limits", "Limits of populations."),
            ("spending", "spending", "spending", "Show charges by analyst, project, dataset, kind and month."),
            (
                "evidence",
                "evidence",
                "evidence",
                "Write what a release or permit is checked by, without the curator.",
            ),
            ("keys", "acts", "keys", "The keys that sign receipts."),
            ("doctor", "doctor", "doctor", "Say what is wrong, and how to mend it."),
            ("db", "server", "database", "The database's schema."),
            (
                "backup",
                "recovery",
                "backup",
                "Write everything of one instant into a file, while the curator runs; not the keys, and not the "
                "anchor.",
            ),
            (
                "restore",
                "recovery",
                "restore",
                "Restore a backup, reconcile the ledger with anchors and receipts, or both.",
            ),
            (
                "serve",
                "server",
                "serve",
                "Serve the HTTP interface. Put a TLS proxy in front: tokens travel in the header.",
            ),
        )
    }


app = typer.Typer(
    name="curator",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold rows
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"curator {__version__}")
        raise typer.Exit


@app.callback()
def curator(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run the trusted curator for private regression: populations, datasets, tokens, the ledger and the server."""


if __name__ == "__main__":
    app()
