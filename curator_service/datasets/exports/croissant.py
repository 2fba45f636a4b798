"""A dataset as Croissant 1.0 describes it, as JSON-LD: its columns with their types, and how to get access.

Croissant wants fields to come from files, and there is no file to download. So the rows are a set of files without an
address, and without a digest: one would let anybody test guesses of them.
"""

from typing import Any

from curator_service.datasets.catalogue import Organisation
from curator_service.datasets.columns.base import ColumnDeclaration
from curator_service.datasets.exports.columns import describe_column
from curator_service.datasets.exports.required import Description, check_complete

_REQUIRED = ("description", "identifier", "title", "issued", "access_url", "licence", "publisher")
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that Croissant recommends."""
_FILES = "held-by-the-curator"


def render_croissant(description: Description) -> dict[str, Any]:
    """Return a dataset's description as JSON-LD.

    Raises
    ------
    ExportError
        Naming every mandatory property that the declaration lacks.
    """
    check_complete(description, "Croissant", _REQUIRED)
    manifest, catalogue = description.dataset.manifest, description.catalogue
    assert catalogue.issued is not None
    publisher = _organisation(catalogue.publisher)
    access = (
        f"No file of rows can be downloaded. Ask for access at {catalogue.access_url}; then a trusted curator answers "
        "with statistics that hold calibrated noise, charged to one privacy budget."
    )
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest.name,
        "alternateName": catalogue.title,
        "description": description.text,
        "url": catalogue.identifier,
        "license": catalogue.licence,
        "creator": publisher,
        "publisher": publisher,
        "datePublished": catalogue.issued.isoformat(),
        "keywords": list(catalogue.keywords),
        "conditionsOfAccess": access,
        "distribution": [
            {
                "@type": "cr:FileSet",
                "@id": _FILES,
                "name": _FILES,
                "description": access,
                "encodingFormat": "text/csv",
                "includes": f"{manifest.name}.csv",
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "description": "The columns of which statistics may be asked. The rows are never handed out.",
                "field": [_field(declared) for declared in manifest.columns],
            },
            *(_levels(declared) for declared in manifest.columns if declared.column.is_level),
        ],
    }


def _organisation(organisation: Organisation | None) -> dict[str, Any]:
    assert organisation is not None
    return {"@type": "sc:Organization", **organisation.model_dump(exclude_none=True)}


def _field(declared: ColumnDeclaration) -> dict[str, Any]:
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"rows/{declared.name}",
        "name": declared.name,
        "description": describe_column(declared),
        "dataType": declared.croissant,
        "source": {"fileSet": {"@id": _FILES}, "extract": {"column": declared.name}},
    }
    if declared.column.is_level:
        field["references"] = {"field": {"@id": f"levels/{declared.name}/name"}}
    return field


def _levels(declared: ColumnDeclaration) -> dict[str, Any]:
    name = f"levels/{declared.name}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "dataType": "sc:Enumeration",
        "key": {"@id": f"{name}/name"},
        "field": [{"@type": "cr:Field", "@id": f"{name}/name", "name": "name", "dataType": "sc:Text"}],
        "data": [{f"{name}/name": level} for level in declared.column.levels],
    }
