"""Commands of permits: an operator at the machine grants alone; what people ask for goes through proposals."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from curator_service.approvals.response_models import ProposalAnswer
from curator_service.cli.common import AsJson, actor, emit, escape, fail, open_curator
from curator_service.identity.policy import Action
from curator_service.permits.repository import Permit
from curator_service.permits.response_models import EndedPermitAnswer, OtherUseModel, PermitAnswer
from curator_service.permits.schemas import PermitRequest

app = typer.Typer(no_args_is_help=True)
PermitId = Annotated[str, typer.Argument(metavar="PERMIT", help="A permit's id: `curator permits list` shows it.")]


@app.command("grant")
def grant(analyst: str, dataset: str, as_json: AsJson = False) -> None:
    """Let one analyst use one dataset, without a project, a limit or an end."""
    with open_curator(to_write=True) as curator:
        permit = curator.permits.grant(analyst, dataset, actor=actor())
    content = {"permit": permit, "analyst": analyst, "dataset": dataset}
    emit(content, as_json=as_json, table=f"{analyst} may use {dataset}: {permit}")


@app.command("revoke")
def revoke(analyst: str, dataset: str, as_json: AsJson = False) -> None:
    """Take back what was granted at the machine."""
    with open_curator(to_write=True) as curator:
        left = curator.permits.revoke(analyst, dataset, actor=actor())
        other = curator.permits.list_other_uses(left, dataset)
    content = {"permit": left.id, "analyst": analyst, "dataset": dataset, "still_usable": other}
    emit(content, as_json=as_json, table=f"took {dataset} back from {analyst}: {left.id}{_say(other)}")


@app.command("end")
def end(
    permit: PermitId,
    reason: Annotated[str, typer.Option(help="Why, for the ledger.")],
    as_json: AsJson = False,
) -> None:
    """End a permit: from now on nothing is charged under it."""
    with open_curator(to_write=True) as curator:
        ended = curator.permits.end(permit, reason, actor())
        other = curator.permits.list_other_uses(ended)
    emit(EndedPermitAnswer.of_ended(ended, other), as_json=as_json, table=f"ended {permit}{_say(other)}")


@app.command("ask")
def ask(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Its terms, as JSON.")],
    token: Annotated[str, typer.Option(envvar="CURATOR_TOKEN", prompt="Token", hide_input=True, help="Who asks.")],
    permit: Annotated[str | None, typer.Option(help="The permit that is to be changed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask for a permit, or for a change of one; `curator proposals approve` grants it."""
    try:
        asked = PermitRequest.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        fail(f"{'.'.join(map(str, first['loc'])) or file}: {first['msg']}")
    with open_curator(to_write=True) as curator:
        by = curator.identity.authenticate(f"Bearer {token}")
        curator.identity.authorize(by, Action.ASK_PERMIT)
        proposal = curator.permits.ask(asked, asked.reason, by, permit)
    emit(ProposalAnswer.of(proposal), as_json=as_json, table=f"{proposal.id}: {proposal.state}")


@app.command("list")
def list_permits(as_json: AsJson = False) -> None:
    """Show every permit, the newest first."""
    with open_curator() as curator:
        found = curator.permits.list_permits()
    table = Table("id", "project", "people", "datasets", "until", title="Permits")
    for permit in found:
        table.add_row(
            permit.id,
            permit.terms.project,
            ", ".join(permit.people.values()),
            ", ".join(permit.datasets.values()),
            _until(permit),
        )
    emit([PermitAnswer.of(permit) for permit in found], as_json=as_json, table=table)


@app.command("show")
def show(permit: PermitId, as_json: AsJson = False) -> None:
    """Show one permit."""
    with open_curator() as curator:
        content = PermitAnswer.of(curator.permits.get_permit(permit))
    table = Table("", "", title=permit, show_header=False)
    for name, value in content:
        table.add_row(name, escape(", ".join(value) if isinstance(value, list) else str(value or "")))
    emit(content, as_json=as_json, table=table)


def _say(found: list[OtherUseModel]) -> str:
    """List the datasets that people of an ended permit may still use by other permits."""
    lines = []
    for use in found:
        until = f"; from {use.expires_at} on only to read" if use.expires_at else ""
        project = use.project or "no project"
        lines.append(f"\n{use.analyst} may still use {use.dataset} by {use.permit} ({escape(project)}){until}")
    return "".join(lines)


def _until(permit: Permit) -> str:
    return f"ended {permit.ended_at}" if permit.ended_at else permit.terms.expires_at or "no end"
