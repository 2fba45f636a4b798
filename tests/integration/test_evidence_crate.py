"""An evidence pack as an RO-Crate: whole, read without a network, and of the Five Safes profile what truly applies."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rdflib import Graph, URIRef
from support import World, csv_text, make_rows, manifest_text
from test_evidence import ask, buy, pack_of

from curator_service.evidence.crate import CONTEXT, METADATA
from curator_service.evidence.pack import write_folder

pytestmark = pytest.mark.machines

VALIDATOR = "CURATOR_TEST_ROCRATE_VALIDATOR"
OWN = Path(__file__).resolve().parents[2] / ".venv-crate" / "bin" / "rocrate-validator"
SHP = "https://w3id.org/shp#"
CATALOGUE = """
[catalogue]
identifier = "https://data.hospital.example/town"
title = "People of the town"
licence = "https://data.hospital.example/terms"
access_url = "https://data.hospital.example/access"
purpose = "care"
spatial = ["FIN"]
[catalogue.controller]
name = "The hospital"
email = "data@hospital.example"
url = "https://hospital.example"
"""


def crate_of(world: World, subject: str, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the entities of a pack by their ids."""
    content = json.loads(pack_of(world, subject, **options)[METADATA])
    found = {entity["@id"]: entity for entity in content["@graph"]}
    assert len(found) == len(content["@graph"])
    return found


def many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def references(entity: dict[str, Any], *names: str) -> list[str]:
    return [one["@id"] for name in names or entity for one in many(entity.get(name, [])) if isinstance(one, dict)]


@pytest.fixture
def declared(world: World) -> World:
    """Return a world with a dataset whose manifest says all that a catalogue asks, and a permit for it."""
    manifest, rows = world.folder / "declared.toml", world.folder / "declared.csv"
    manifest.write_text(manifest_text("declared") + CATALOGUE, encoding="utf-8")
    rows.write_text(csv_text(make_rows(60, seed=5)), encoding="utf-8")
    world.curator.datasets.register(manifest, rows, actor="operator:test")
    world.permit(datasets=["cohort", "declared"])
    return world


def buy_declared(world: World) -> str:
    asked = {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.02}, "project": "kidney"}
    return str(world.api().post("/v1/datasets/declared/releases", json=asked, key="k").json()["id"])


def subjects(world: World) -> dict[str, tuple[str, dict[str, Any]]]:
    release, permit = buy(world, project="kidney"), world.entries()[5]["permit"]
    plain = buy(world, who="ben", price={"mu": 0.03})
    ask(world, 500, 1, positives=2, project="kidney")
    return {
        "a release": (release, {}),
        "without the answer": (release, {"with_answers": False}),
        "a grant": (plain, {}),
        "declared": (buy_declared(world), {}),
        "a permit": (permit, {}),
        "a permit with answers": (permit, {"with_answers": True}),
    }


def test_it_is_whole(declared: World) -> None:
    """Every name is defined in the context, every reference leads somewhere, and every file is described."""
    for subject, options in subjects(declared).values():
        files = pack_of(declared, subject, **options)
        crate = crate_of(declared, subject, **options)
        for entity in crate.values():
            assert {name for name in entity if not name.startswith("@")} <= CONTEXT.keys()
            assert set(many(entity["@type"])) <= CONTEXT.keys()
            outside = {name for name in references(entity) if name not in crate}
            assert all(name.startswith((SHP, "https://w3id.org/ro/crate/")) for name in outside), outside
        assert {*references(crate["./"], "hasPart")} | {METADATA} == {*files}


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")  # within rdflib itself
def test_it_is_read_without_a_network(declared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    release = buy(declared, project="kidney")
    content = pack_of(declared, release)[METADATA]
    graph = Graph().parse(data=content, format="json-ld", publicID="https://pack.example/")
    root = URIRef("https://pack.example/")
    assert [str(name) for name in graph.objects(root, URIRef("http://schema.org/identifier"))] == [release]
    assert len(list(graph.objects(root, URIRef("http://schema.org/hasPart")))) >= 8


def test_it_claims_no_profile_beyond_ro_crate(declared: World) -> None:
    crate = crate_of(declared, buy(declared, project="kidney"))
    claims = [name for entity in crate.values() for name in references(entity, "conformsTo")]
    assert claims == ["https://w3id.org/ro/crate/1.1"]


def test_it_has_what_the_five_safes_ask_of_who_asked_and_for_whom(declared: World) -> None:
    release = buy(declared, project="kidney")
    crate = crate_of(declared, release)
    action, project = crate[f"#{release}"], crate["#project"]
    assert (action["@type"], action["actionStatus"]) == ("CreateAction", "http://schema.org/CompletedActionStatus")
    (agent,) = references(action, "agent")
    assert (crate[agent]["@type"], crate[agent]["name"]) == ("Person", "ada")
    assert references(crate[agent], "memberOf") == ["#project"] == references(crate["./"], "sourceOrganization")
    assert (project["@type"], project["name"]) == ("Project", "kidney")
    assert references(action, "result") == ["receipt.json", "answer.json"]
    assert crate["#dataset-cohort"]["@type"] == "DigitalDocument"  # not a part: nobody gets it


def test_its_reviews_are_those_that_took_place(declared: World) -> None:
    release = buy(declared, project="kidney")
    crate = crate_of(declared, release)
    mentioned = references(crate["./"], "mentions")
    reviews = [crate[name] for name in mentioned if crate[name]["@type"] == "AssessAction"]
    assert all("./" in references(review, "object") for review in reviews)
    by_type: dict[str, list[dict[str, Any]]] = {}
    for review in reviews:
        by_type.setdefault(references(review, "additionalType")[0].removeprefix(SHP), []).append(review)
    (sign_off,) = by_type.pop("SignOff")
    assert [crate[name]["name"] for name in references(sign_off, "agent")] == ["otto"]
    assert references(sign_off, "instrument") == ["#permit"]
    done, open_ = by_type.pop("DisclosureCheck")
    (software,) = references(done, "agent")
    assert crate[software]["@type"] == "SoftwareApplication"
    assert crate[references(crate[software], "provider")[0]]["@type"] == "Organization"
    assert (done["actionStatus"], open_["actionStatus"]) == (
        "http://schema.org/CompletedActionStatus",
        "http://schema.org/PotentialActionStatus",
    )
    assert "agent" not in open_
    assert not by_type


def test_what_a_manifest_declares_is_there(declared: World) -> None:
    crate = crate_of(declared, buy_declared(declared))
    assert crate["./"]["license"] == {"@id": "https://data.hospital.example/terms"}
    assert (crate["#controller"]["name"], crate["#controller"]["url"]) == ("The hospital", "https://hospital.example")
    assert crate["#dataset-declared"]["name"] == "People of the town"


def find_validator() -> str:
    named = os.environ.get(VALIDATOR) or (str(OWN) if OWN.exists() else shutil.which("rocrate-validator"))
    if named is None:
        pytest.skip(f"RO-Crates are NOT validated: `make test` installs rocrate-validator, or {VALIDATOR} names it")
    return named


@pytest.mark.slow
def test_the_validator_finds_nothing(declared: World, tmp_path: Path) -> None:
    """Neither at what is required nor at what is recommended; but who declares no controller has no address of one."""
    program = find_validator()
    for name, (subject, options) in subjects(declared).items():
        folder = tmp_path / name.replace(" ", "-")  # the validator does not quote addresses of its own making
        write_folder(pack_of(declared, subject, **options), folder)
        found = validate(program, folder, tmp_path / "cache")
        expected = set() if name == "declared" else {"The organization SHOULD have a URL."}
        assert {issue["message"] for issue in found} == expected, name
    # It can find something.
    (folder / "check.html").unlink()
    crate = json.loads((folder / METADATA).read_text("utf-8"))
    crate["@graph"][1].pop("datePublished")
    (folder / METADATA).write_text(json.dumps(crate), encoding="utf-8")
    assert len([one for one in validate(program, folder, tmp_path / "cache") if one["severity"] == "REQUIRED"]) >= 2


def validate(program: str, folder: Path, cache: Path) -> list[dict[str, Any]]:
    """Return what the validator finds in a folder, without a network."""
    options = ["--offline", "--cache-path", str(cache), "--profile-identifier", "ro-crate-1.1", "--no-paging"]
    ran = subprocess.run(
        [program, "validate", *options, "--requirement-severity", "recommended", "-v", "-f", "json", str(folder)],
        env={"PATH": os.environ["PATH"], "HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(ran.stdout)
    assert report["skipped_checks"] == 0
    return list(report["issues"])
