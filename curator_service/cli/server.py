"""Commands of the server and its database."""

import os
from contextlib import ExitStack
from typing import Annotated, NoReturn

import typer

from curator_service.cli.common import AsJson, check_machine, emit, err, escape, fail, open_curator, read_settings
from curator_service.exposure import find_exposures
from curator_service.kit.db import SERVICE_GROUP
from curator_service.kit.logs import choose_format, logging_config

database = typer.Typer(no_args_is_help=True)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.")] = None,
    access_log: Annotated[bool, typer.Option(help="Log each request's line.")] = True,
) -> None:
    """Serve the HTTP interface. Put a TLS proxy in front: tokens travel in the header."""
    settings = read_settings()
    chosen_host, count = host or settings.host, settings.workers if workers is None else workers
    chosen_port = settings.port if port is None else port
    if exposures := find_exposures(settings, chosen_host):
        fail("\n".join(exposures))
    # The other commands start faster without the server. Its counters ask for the folder when they are imported.
    from curator_service.api.serving import bind, run_server, shared_folder  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            listener = stack.enter_context(bind(chosen_host, chosen_port))
        except (OSError, OverflowError) as error:
            _cannot_listen(chosen_host, chosen_port, error)
        if count > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(stack.enter_context(shared_folder()))
        from curator_service.api.connections import server_options  # noqa: PLC0415
        from curator_service.releases.pace import measure_pace  # noqa: PLC0415

        with open_curator(creates=True) as curator:
            reason = curator.start()  # the database answers, and its ledger holds
            check_machine(curator)  # here once, before a worker that cannot start is started again and again
        if reason:
            err.print(f"[red]sealed:[/red] {escape(reason)}", highlight=False, soft_wrap=True)
            err.print("No release leaves until an admin runs `curator restore --reconcile`; reads are served.")
        # Workers are new processes: they read the same environment, and must not start BLAS threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if settings.pace is None:  # once for all of them, so that their public times agree
            os.environ["CURATOR_PACE"] = repr(measure_pace())
            err.print(f"public times: {os.environ['CURATOR_PACE']} times the reference machine's", highlight=False)
        try:
            run_server(
                listener,
                public_url=settings.public_url,
                app="curator_service.app:create_app",
                factory=True,
                workers=count,
                access_log=False,  # its line has the query; ours is of the fields that kit/logs.py lists
                log_config=logging_config(choose_format(settings.log_format), requests=access_log),
                log_level="info",
                **server_options(settings),
            )
        except OSError as error:  # somebody listens there since
            _cannot_listen(chosen_host, chosen_port, error)


def _cannot_listen(host: str, port: int, error: Exception) -> NoReturn:
    rule = error.strerror if isinstance(error, OSError) else "a port is a number from 0 to 65535"
    fail(f"it cannot listen on {host}, port {port}: {rule}. Choose another with --host or --port, or free this one")


@database.command("upgrade")
def upgrade(as_json: AsJson = False) -> None:
    """Bring the database to the schema of this version."""
    with open_curator(current_schema=False, creates=True) as curator:
        curator.database.upgrade()
        current, head = curator.database.revisions()
        has_group = curator.database.has_group()
    if current != head:
        fail("the migration did not reach its head")
    shown = f"the schema is at revision {current}"
    if not has_group:
        shown += f"\nthe role {SERVICE_GROUP} has no rights here, so the service must connect as the owner, who can "
        shown += "change history; docs/ledger.md has the grants"
    emit({"revision": current, "service_group": has_group}, as_json=as_json, table=shown)
