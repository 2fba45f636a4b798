"""A dataset as DCAT-AP 3.0 and HealthDCAT-AP describe it, as JSON-LD.

The document is one ``dcat:Dataset``, as HealthDCAT-AP's own examples are: the catalogue is whose it is handed to. It
brings its context, so that reading it fetches nothing. Nothing in it is a function of rows but the number of people,
where that is public. A size in bytes, which earlier drafts of HealthDCAT-AP ask for, would tell it and is never stated.
"""

from typing import Any

from curator_service.datasets.catalogue import Organisation, Period
from curator_service.datasets.exports.columns import describe_column
from curator_service.datasets.exports.required import Description, check_complete
from curator_service.datasets.manifest import Manifest

_REQUIRED = (
    "description", "identifier", "title", "keywords", "provenance", "health_categories", "access_url", "contact",
    "access_body",
)  # fmt: skip
_EU = "http://publications.europa.eu/resource/authority"
_HEALTH = "https://hdeu-dcat.data.health.europa.eu/resource/authority"
_CONTEXT = {
    "csvw": "http://www.w3.org/ns/csvw#",
    "cv": "http://data.europa.eu/m8g/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcatap": "http://data.europa.eu/r5r/",
    "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#",
    "eli": "http://data.europa.eu/eli/ontology#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geodcatap": "http://data.europa.eu/930/",
    "healthdcatap": "http://healthdataportal.eu/ns/health#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_ROUTE = (
    "No file of rows is published. Whoever is granted access asks a trusted curator for statistics with calibrated "
    "noise, charged to the privacy budget of the people whom the dataset is about. Access is asked for at the address "
    "given."
)


def render_dcat(description: Description) -> dict[str, Any]:
    """Return a dataset's description as JSON-LD.

    Raises
    ------
    ExportError
        Naming every mandatory property that the declaration lacks.
    """
    check_complete(description, "DCAT-AP with HealthDCAT-AP", _REQUIRED)
    manifest, catalogue = description.dataset.manifest, description.catalogue
    identifier = str(catalogue.identifier)
    legislation = [_typed(url, "eli:LegalResource") for url in catalogue.legislation]
    document = {
        "@context": _CONTEXT,
        "@id": identifier,
        "@type": "dcat:Dataset",
        "dct:identifier": _literal(identifier, "anyURI"),
        "dct:title": catalogue.title,
        "dct:description": description.text,
        "dct:issued": _date(catalogue.issued),
        "dct:type": _concept(f"{_EU}/dataset-type", "PERSONAL_DATA"),
        "dct:accessRights": _typed(
            f"{_EU}/access-right/{catalogue.access_rights.upper().replace('-', '_')}", "dct:RightsStatement"
        ),
        "dcat:keyword": list(catalogue.keywords),
        "dcat:theme": [_concept(f"{_EU}/data-theme", code) for code in catalogue.themes],
        "dct:language": [_typed(f"{_EU}/language/{code}", "dct:LinguisticSystem") for code in catalogue.languages],
        "dct:spatial": [_typed(_place(place), "dct:Location") for place in catalogue.spatial],
        "dct:temporal": _period(catalogue.temporal),
        "dct:provenance": _text("dct:ProvenanceStatement", "rdfs:label", catalogue.provenance),
        "dct:publisher": _agent(catalogue.publisher),
        "geodcatap:custodian": _agent(catalogue.controller),
        "dcat:contactPoint": _contact(catalogue.contact),
        "dcatap:applicableLegislation": legislation,
        "dpv:hasPurpose": _text("dpv:Purpose", "dct:description", catalogue.purpose),
        "dpv:hasLegalBasis": _text("dpv:LegalBasis", "dct:description", catalogue.legal_basis),
        "healthdcatap:hdab": _agent(catalogue.access_body),
        "healthdcatap:healthCategory": [
            _concept(f"{_HEALTH}/healthcategories", code) for code in catalogue.health_categories
        ],
        "healthdcatap:healthTheme": [_concept(f"{_HEALTH}/health-theme", code) for code in catalogue.health_themes],
        "healthdcatap:hasCodingSystem": [
            _typed(f"{_HEALTH}/coding-system/{code}", "dct:Standard") for code in catalogue.coding_systems
        ],
        "healthdcatap:populationCoverage": catalogue.population_coverage,
        "healthdcatap:numberOfUniqueIndividuals": _count(description.count),
        "healthdcatap:retentionPeriod": _period(catalogue.retention),
        "healthdcatap:hasStructuredData": _literal("true", "boolean"),
        "healthdcatap:hasVariables": _variables(f"{identifier}#variables", manifest),
        "dcat:distribution": {
            "@id": f"{identifier}#access",
            "@type": "dcat:Distribution",
            "dct:title": f"Access to {catalogue.title}",
            "dct:description": _ROUTE,
            "dcat:accessURL": {"@id": catalogue.access_url},
            "dcatap:applicableLegislation": legislation,
            **({} if catalogue.licence is None else {"dct:license": _typed(catalogue.licence, "dct:LicenseDocument")}),
        },
    }
    return {name: value for name, value in document.items() if value not in (None, [], ())}


def _typed(address: str, kind: str) -> dict[str, Any]:
    return {"@id": address, "@type": kind}


def _concept(authority: str, code: str) -> dict[str, Any]:
    return {"@id": f"{authority}/{code}", "@type": "skos:Concept", "skos:prefLabel": code}


def _literal(text: str, kind: str) -> dict[str, Any]:
    return {"@value": text, "@type": f"xsd:{kind}"}


def _text(kind: str, name: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else {"@type": kind, name: text}


def _date(day: Any) -> dict[str, Any] | None:
    return None if day is None else _literal(day.isoformat(), "date")


def _count(count: int | None) -> dict[str, Any] | None:
    return None if count is None else _literal(str(count), "nonNegativeInteger")


def _place(place: str) -> str:
    return place if ":" in place else f"{_EU}/country/{place}"


def _period(period: Period | None) -> dict[str, Any] | None:
    if period is None:
        return None
    held = {
        "@type": "dct:PeriodOfTime",
        "dcat:startDate": _date(period.start),
        "dcat:endDate": _date(period.end),
        "rdfs:comment": period.comment,
    }
    return {name: value for name, value in held.items() if value is not None}


def _agent(organisation: Organisation | None) -> dict[str, Any] | None:
    """Return an agent with a contact point of the core vocabulary of public services, as HealthDCAT-AP asks."""
    if organisation is None:
        return None
    contact: dict[str, Any] = {"@type": "cv:ContactPoint"}
    if organisation.email is not None:
        contact["cv:email"] = organisation.email
    if organisation.url is not None:
        contact["cv:contactPage"] = _typed(organisation.url, "foaf:Document")
    return {"@type": "foaf:Agent", "foaf:name": organisation.name, "cv:contactPoint": contact}


def _contact(organisation: Organisation | None) -> dict[str, Any] | None:
    """Return a vCard, which is what DCAT-AP asks of a dataset's contact point."""
    if organisation is None:
        return None
    card: dict[str, Any] = {"@type": "vcard:Kind", "vcard:fn": organisation.name}
    if organisation.email is not None:
        card["vcard:hasEmail"] = {"@id": f"mailto:{organisation.email}"}
    if organisation.url is not None:
        card["vcard:hasURL"] = {"@id": organisation.url}
    return card


def _variables(address: str, manifest: Manifest) -> dict[str, Any]:
    columns = [
        {
            "@type": "csvw:Column",
            "csvw:name": declared.name,
            "csvw:title": declared.name,
            "csvw:datatype": declared.xsd,
            "dct:description": describe_column(declared),
        }
        for declared in manifest.columns
    ]
    table = {"@type": "csvw:Table", "dct:title": manifest.name, "csvw:column": columns}
    return {
        "@id": address,
        "@type": "csvw:TableGroup",
        "dct:title": f"Variables of {manifest.name}",
        "csvw:table": table,
    }
