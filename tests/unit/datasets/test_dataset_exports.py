"""Exports for catalogues: they conform, name what they lack, and tell nothing of rows."""

import json
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
from descriptions import block, declare, describe
from hypothesis import given, settings
from hypothesis import strategies as st
from pyshacl import validate
from rdflib import RDF, Graph, Literal, Namespace, URIRef

from curator_service.datasets.catalogue import Catalogue, Organisation
from curator_service.datasets.exports.croissant import render_croissant
from curator_service.datasets.exports.dcat import render_dcat
from curator_service.datasets.exports.required import ExportError

pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # of rdflib, by rdflib
SHAPES = Graph().parse(Path(__file__).with_name("healthdcat_shapes.ttl"))
DCAT = Namespace("http://www.w3.org/ns/dcat#")
DCT = Namespace("http://purl.org/dc/terms/")
HEALTH = Namespace("http://healthdataportal.eu/ns/health#")
NEEDED = {
    render_dcat: {
        "identifier", "title", "keywords", "provenance", "health_categories", "access_url", "contact", "access_body",
    },
    render_croissant: {"identifier", "title", "issued", "access_url", "licence", "publisher"},
}  # fmt: skip


def graph_of(content: dict[str, Any]) -> Graph:
    return Graph().parse(data=json.dumps(content), format="json-ld")


def faults(graph: Graph) -> str:
    conforms, _, text = validate(graph, shacl_graph=SHAPES)
    return "" if conforms else text


def issues(content: dict[str, Any]) -> set[str]:
    """Return what Croissant's own reader warns of; it raises what it refuses."""
    return set(mlcroissant.Dataset(jsonld=content).metadata.ctx.issues.warnings)


def test_a_whole_block_conforms_to_dcat_and_healthdcat() -> None:
    assert faults(graph_of(render_dcat(describe(declare())))) == ""


def test_what_is_mandatory_is_enough_to_conform() -> None:
    least = Catalogue.model_validate({name: block()[name] for name in NEEDED[render_dcat]})
    assert faults(graph_of(render_dcat(describe(declare(), least)))) == ""


def test_shapes_find_whatever_mandatory_property_is_gone() -> None:
    least = Catalogue.model_validate({name: block()[name] for name in NEEDED[render_dcat]})
    content = render_dcat(describe(declare(), least))
    for name in content.keys() - {"@context", "@id", "@type"}:
        rest = {key: value for key, value in content.items() if key != name}
        assert faults(graph_of(rest)), name


@pytest.mark.parametrize("render", NEEDED)
def test_everything_that_lacks_is_named_at_once_with_what_to_write(render: Any) -> None:
    with pytest.raises(ExportError) as error:
        render(describe(declare("")))
    first, *lines = str(error.value).splitlines()
    assert all(name in first for name in NEEDED[render])
    assert {line.split(" = ")[0].strip() for line in lines} == NEEDED[render]


@pytest.mark.parametrize("render", NEEDED)
def test_what_the_message_says_to_write_is_enough(render: Any) -> None:
    with pytest.raises(ExportError) as error:
        render(describe(declare("")))
    written = "[catalogue]\n" + "\n".join(str(error.value).splitlines()[1:])
    assert render(describe(declare(written)))


def test_a_description_is_the_manifests_unless_the_block_has_one() -> None:
    bare = declare().model_copy(update={"description": ""})
    with pytest.raises(ExportError, match="needs description;"):
        render_dcat(describe(bare))
    held = Catalogue.model_validate(block() | {"description": "In other words."})
    assert render_dcat(describe(bare, held))["dct:description"] == "In other words."
    assert render_dcat(describe(declare()))["dct:description"] == "Frail people."


def test_a_count_is_exported_where_it_is_public_and_nowhere_else() -> None:
    manifest = declare()
    hidden, public = describe(manifest), describe(manifest, count=7_874)
    subject = URIRef(block()["identifier"])
    assert graph_of(render_dcat(public)).value(subject, HEALTH.numberOfUniqueIndividuals).toPython() == 7_874
    assert faults(graph_of(render_dcat(public))) == ""
    assert "numberOf" not in json.dumps(render_dcat(hidden))
    assert render_croissant(hidden) == render_croissant(public)


def test_nothing_is_offered_as_a_download_and_no_size_or_digest_is_stated() -> None:
    description = describe(declare())
    for text in (json.dumps(render_dcat(description)), json.dumps(render_croissant(description))):
        for word in ("downloadURL", "byteSize", "contentUrl", "contentSize", "sha256", '"md5"]', "1000"):
            assert word not in text
        assert block()["access_url"] in text


def test_croissants_own_reader_takes_the_export_with_a_field_for_each_column() -> None:
    manifest = declare()
    content = render_croissant(describe(manifest))
    recommended = {"citeAs", "version"}
    assert all(any(name in warning for name in recommended) for warning in issues(content))
    rows, *levels = mlcroissant.Dataset(jsonld=content).metadata.record_sets
    assert [field.name for field in rows.fields] == [column.name for column in manifest.columns]
    kinds = {"numeric": "Float", "categorical": "Text", "boolean": "Boolean"}
    expected = [f"https://schema.org/{kinds[column.type]}" for column in manifest.columns]
    assert [str(field.data_types[0]) for field in rows.fields] == expected
    declared = [c for c in manifest.columns if c.type == "categorical"]
    assert [[next(iter(row.values())) for row in found.data] for found in levels] == [list(c.levels) for c in declared]


def test_croissants_own_reader_refuses_what_lacks_a_licence_column_or_type() -> None:
    content = render_croissant(describe(declare()))
    content["recordSet"][0]["field"][0]["source"] = {"fileSet": {"@id": "nowhere"}}
    with pytest.raises(mlcroissant.ValidationError):
        issues(content)


@given(st.from_regex(r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,40}\Z"))
@settings(max_examples=50, deadline=None)
def test_any_declared_text_comes_back_out_of_the_graph_as_it_was(text: str) -> None:
    organisation = Organisation(name=text, url="https://x.example")
    held = Catalogue.model_validate(block()).model_copy(update={"title": text, "access_body": organisation})
    content = render_dcat(describe(declare(), held))
    graph = graph_of(content)
    assert graph.value(URIRef(block()["identifier"]), DCT.title) == Literal(text)
    assert len(list(graph.subjects(RDF.type, DCAT.Dataset))) == 1
