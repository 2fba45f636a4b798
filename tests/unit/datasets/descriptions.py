"""A whole catalogue block, and descriptions of datasets with it."""

import tomllib
from typing import Any

from support import manifest_text

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.exports.required import Description
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.repository import Dataset
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency

CATALOGUE = '''
[catalogue]
identifier = "https://data.hospital.example/datasets/cohort"
title = 'A cohort of "frail" people \\ <2026> & after'
issued = 2026-03-01
keywords = ["frailty", "free light chains"]
languages = ["ENG", "FRA"]
spatial = ["BEL", "https://sws.geonames.org/2800866/"]
temporal = { start = 1995-01-01, end = 2003-12-31 }
population_coverage = "Residents of the town, aged 50 and over."
provenance = """Leftover serum of routine care.
Assayed in 2010."""
health_categories = ["RQSH", "EHRS"]
health_themes = ["NONCOMMUNICABLE_DISEASES"]
coding_systems = ["ICD-10", "LOINC"]
access_url = "https://data.hospital.example/access?of=cohort"
licence = "https://data.hospital.example/terms"
legal_basis = "GDPR, Articles 6(1)(e) and 9(2)(j)."
purpose = "Research on kidney disease."
retention = { end = 2036-03-01, comment = "Ten years after publication." }

[catalogue.controller]
name = "University Hospital"
email = "dpo@hospital.example"

[catalogue.publisher]
name = "University Hospital"
url = "https://hospital.example"

[catalogue.contact]
name = "Research data office"
email = "data@hospital.example"
url = "https://data.hospital.example"

[catalogue.access_body]
name = "Health data access body"
url = "https://hdab.example"
'''


def block() -> dict[str, Any]:
    """Return the whole block as TOML reads it."""
    content: dict[str, Any] = tomllib.loads(CATALOGUE)["catalogue"]
    return content


def text_of(catalogue: str = CATALOGUE) -> str:
    """Return a manifest's text."""
    return 'description = "Frail people."\n' + manifest_text() + catalogue


def declare(catalogue: str = CATALOGUE) -> Manifest:
    """Return a manifest."""
    return Manifest.model_validate(tomllib.loads(text_of(catalogue)))


def describe(manifest: Manifest, catalogue: Catalogue | None = None, count: int | None = None) -> Description:
    """Return what an export describes."""
    held = catalogue or manifest.catalogue or Catalogue()
    name, population = manifest.name, manifest.population
    dataset = Dataset(
        "ds_1", name, population, Adjacency.ADD_REMOVE, GDP, manifest, "", "2026-03-01", manifest.digest, "ds_1"
    )
    return Description(dataset, held, count)
