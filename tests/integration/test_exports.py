"""Exports read the same from either database."""

from support import World

from curator_service.datasets.exports.processing import Holdings, render_record
from curator_service.datasets.hygiene import QuasiIdentifier, measure
from curator_service.kit.db import name_database


def test_a_record_names_grants_limits_and_the_database(both: World) -> None:
    curator = both.curator
    holdings = Holdings(
        as_of="2026-03-02T12:00:00Z",
        places={"the database with the ledger": name_database(curator.database.engine.url)},
        populations=curator.ledger.list_populations(),
        datasets=curator.datasets.list_all(),
        principals=curator.identity.list_principals(),
        grants=curator.permits.list_grants(),
    )
    content = render_record(holdings)
    town = next(found for found in content["populations"] if found["population"] == "town")
    cohort = next(found for found in town["datasets"] if found["dataset"] == "cohort")
    assert {recipient["name"] for recipient in cohort["recipients"]} == {"ada", "ben"}
    assert round(town["limit"]["epsilon"], 6) == 1.0
    assert "@" not in content["places"]["the database with the ledger"]


def test_rows_are_read_back_for_hygiene(both: World) -> None:
    dataset = next(found for found in both.curator.datasets.list_all() if found.name == "cohort")
    batches = both.curator.datasets.storage.iterate_rows(dataset.id, ["sex"])
    assert measure(dataset.manifest, batches, [QuasiIdentifier("sex")], []).rows == 80
