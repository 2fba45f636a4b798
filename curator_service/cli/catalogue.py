"""Commands of what is exported for catalogues and data-protection officers."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import make_url

from curator_service.cli.common import AsJson, fail, open_curator, read_settings, write_document
from curator_service.cli.datasets import find
from curator_service.container import Curator
from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.exports.croissant import render_croissant
from curator_service.datasets.exports.dcat import render_dcat
from curator_service.datasets.exports.processing import Holdings, render_record, write_markdown
from curator_service.datasets.exports.required import Description
from curator_service.datasets.manifest import load_catalogue
from curator_service.datasets.subjects import find_identified
from curator_service.kit.clock import timestamp, utc_now
from curator_service.kit.db import name_database
from curator_service.kit.files import write_private

app = typer.Typer(no_args_is_help=True)
_Out = Annotated[Path | None, typer.Option("--out", dir_okay=False, help="Write a file instead of standard output.")]


class Format(StrEnum):
    """The format of an export."""

    DCAT = "dcat"
    CROISSANT = "croissant"


_RENDERINGS = {Format.DCAT: render_dcat, Format.CROISSANT: render_croissant}


@app.command("export")
def export(
    name: str,
    form: Annotated[Format, typer.Option("--format", help="DCAT-AP with HealthDCAT-AP, or Croissant.")],
    catalogue: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="A file with a [catalogue] block, in place of the manifest's."),
    ] = None,
    out: _Out = None,
) -> None:
    """Describe a dataset as JSON-LD, from public declarations alone."""
    with open_curator() as curator:
        dataset = find(curator.datasets.list_all(), name)
        declared = dataset.manifest.catalogue if catalogue is None else load_catalogue(catalogue)
        count = curator.datasets.public_count(dataset)
        content = _RENDERINGS[form](Description(dataset, declared or Catalogue(), count))
    write(render_json(content), out)


@app.command("record")
def record(out: _Out = None, as_json: AsJson = False) -> None:
    """Write the record of processing activities (GDPR, Article 30), with blanks for what only the operator knows."""
    with open_curator() as curator:
        content = render_record(read_holdings(curator))
    write(render_json(content) if as_json else write_markdown(content), out)


def read_holdings(curator: Curator) -> Holdings:
    """Return everything that a curator holds, with the principals who may use it."""
    settings, datasets = read_settings(), curator.datasets.list_all()
    return Holdings(
        as_of=timestamp(utc_now()),
        places={
            "the database with the ledger": name_database(make_url(settings.url)),
            "the folder of the rows": str(settings.data_dir.absolute() / "datasets"),
            "the folder of the private keys": str(settings.keys_folder),
            "the folder of the anchor": str(settings.anchor_folder),
        },
        populations=curator.ledger.list_populations(),
        datasets=datasets,
        principals=curator.identity.list_principals(),
        grants=curator.permits.list_grants(),
        identified=find_identified(curator.datasets.storage, datasets),
    )


def render_json(content: dict[str, Any]) -> str:
    """Return an export as the text of its file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def write(text: str, out: Path | None, *, is_private: bool = False) -> None:
    """Write an export to a file, perhaps one for its owner's eyes alone, or to standard output."""
    if out is None:
        write_document(text)
        return
    try:
        if is_private:
            write_private(out, text)
        else:
            out.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{out}: cannot be written: {error.strerror}")
