"""Commands of what is exported for catalogues and data-protection officers."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from curator_service.cli.common import fail, open_curator
from curator_service.cli.datasets import find
from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.exports.croissant import render_croissant
from curator_service.datasets.exports.dcat import render_dcat
from curator_service.datasets.exports.required import Description
from curator_service.datasets.manifest import load_catalogue

app = typer.Typer(no_args_is_help=True)
_Out = Annotated[Path | None, typer.Option("--out", dir_okay=False, help="Write a file instead of standard output.")]


class Format(StrEnum):
    """What an export is."""

    DCAT = "dcat"
    CROISSANT = "croissant"


_RENDERINGS = {Format.DCAT: render_dcat, Format.CROISSANT: render_croissant}


@app.command("export")
def export(
    name: str,
    form: Annotated[Format, typer.Option("--format", help="DCAT-AP with HealthDCAT-AP, or Croissant.")],
    catalogue: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A file with a [catalogue] block, in place of the manifest's."),
    ] = None,
    out: _Out = None,
) -> None:
    """Describe a dataset as JSON-LD, from public declarations alone."""
    with open_curator() as curator:
        dataset = find(curator.datasets.list_all(), name)
        declared = dataset.manifest.catalogue if catalogue is None else load_catalogue(catalogue)
        count = curator.datasets.public_count(dataset)
        content = _RENDERINGS[form](Description(dataset, declared or Catalogue(), count))
    write(json.dumps(content, indent=2, ensure_ascii=False) + "\n", out)


def write(text: str, out: Path | None) -> None:
    """Write an export to a file or to standard output."""
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{out}: cannot be written: {error.strerror}")
