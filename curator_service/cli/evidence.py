"""The command that writes an evidence pack."""

from pathlib import Path
from typing import Annotated

import typer

from curator_service.cli.common import AsJson, emit, fail, open_curator
from curator_service.evidence.check_page import verify_command
from curator_service.evidence.pack import make_files, write_folder


def evidence(
    subject: Annotated[str, typer.Argument(metavar="RELEASE|PERMIT", help="The id of a release or of a permit.")],
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="A new folder; else one of the id's name, here.")
    ] = None,
    with_answers: Annotated[
        bool, typer.Option("--with-answers", help="Of a permit: with the released numbers of every release.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write what a release or permit is checked by, without the curator."""
    folder = Path(subject) if out is None else out
    with open_curator() as curator:
        if subject.startswith("prm_"):
            found = curator.evidence.gather_permit(subject, with_answers=with_answers)
        elif subject.startswith("rel_"):
            found = curator.evidence.gather_release(subject)
        else:
            fail(f"{subject}: name a release (rel_…) or a permit (prm_…)")
        curator.evidence.verify(found)
        files = make_files(found)
        write_folder(files, folder)
    content = {"subject": subject, "folder": str(folder), "files": list(files), "verify": verify_command(found)}
    lines = [f"{len(files)} files in {folder}. In it:", "sha256sum --check SHA256SUMS", verify_command(found)]
    emit(content, as_json=as_json, table="\n".join(lines))
