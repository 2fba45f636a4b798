"""The record of processing: what the curator knows, blanks for the rest, and nothing of rows or secrets."""

import dataclasses
import re
from typing import Any

import pytest
from descriptions import CATALOGUE, declare, describe

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.exports.processing import BLANK, Holdings, render_record, write_markdown
from curator_service.datasets.manifest import Manifest
from curator_service.entries.account import GENESIS
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Price
from curator_service.privacy.adjacency import Adjacency

LIMIT = GDP.units_of(Price(epsilon=3.0, delta=1e-6))
TOWN = Population(
    name="town",
    adjacency=Adjacency.ADD_REMOVE,
    accountant=GDP,
    delta=1e-6,
    limit=LIMIT // 2,
    highest_limit=LIMIT,
    posted=0,
    pending=0,
    sequence=1,
    head=GENESIS,
    created_at="2026-03-01T12:00:00Z",
    epoch=1,
    sealed="",
)
PEOPLE = [
    Principal("prn_1", "ada", frozenset({Role.ANALYST})),
    Principal("prn_2", "ben", frozenset({Role.ANALYST})),
    Principal("prn_3", "boss", frozenset({Role.PRIVACY_OFFICER})),
    Principal("prn_4", "cora", frozenset({Role.AUDITOR})),
]


def record(manifest: Manifest, **changes: Any) -> dict[str, Any]:
    held = Holdings(
        as_of="2026-03-02T12:00:00Z",
        places={"the database with the ledger": "sqlite, /srv/curator/curator.sqlite3"},
        populations=[TOWN],
        datasets=[describe(manifest).dataset],
        principals=PEOPLE,
        grants=[("ada", describe(manifest).dataset.name, "prm_1"), ("ben", "another", "prm_2")],
    )
    return render_record(dataclasses.replace(held, **changes))


def dataset_of(content: dict[str, Any]) -> dict[str, Any]:
    (population,) = content["populations"]
    (dataset,) = population["datasets"]
    return dict(dataset)


def test_what_the_manifest_declares_is_in_the_record() -> None:
    content = record(declare())
    dataset = dataset_of(content)
    assert dataset["controller"] == {"name": "University Hospital", "email": "dpo@hospital.example"}
    assert dataset["purpose"] == "Research on kidney disease."
    assert dataset["retention"] == {"end": "2036-03-01", "comment": "Ten years after publication."}
    shown = write_markdown(content)
    assert "- Time until erasure: until 2036-03-01; Ten years after publication." in shown
    assert "- Controller: University Hospital, dpo@hospital.example" in shown


def test_what_is_not_declared_is_a_blank_for_the_operator() -> None:
    content = record(declare(""))
    dataset = dataset_of(content)
    blanks = ["controller", "purpose", "legal_basis", "data_subjects", "retention"]
    assert [dataset[name] for name in blanks] == [None] * 5
    declared, bare = write_markdown(record(declare())), write_markdown(content)
    assert bare.count(f"**{BLANK}**") == declared.count(f"**{BLANK}**") + len(blanks)
    assert f"**{BLANK}** transfers to a third country" in declared


def test_recipients_are_those_granted_and_readers_those_who_need_no_grant() -> None:
    content = record(declare())
    assert [(r["name"], r["roles"]) for r in dataset_of(content)["recipients"]] == [("ada", ["analyst"])]
    assert {r["name"]: r["sees"] for r in content["readers"]} == {
        "boss": "every released statistic, and the ledger",
        "cora": "what the roles need, as the ledger; no released statistic",
    }


def test_the_guarantee_is_that_of_the_highest_limit_there_ever_was() -> None:
    (population,) = record(declare())["populations"]
    assert "ε = 3, δ = 1e-06 (accountant gdp)" in population["safeguard"]
    assert "at most 62.7% of cases" in population["safeguard"]  # the table of docs/privacy.md
    assert "How many people there are is private." in population["safeguard"]


def test_a_pure_account_states_no_delta() -> None:
    units = PURE.units_of(Price(epsilon=1.0))
    pure = dataclasses.replace(TOWN, accountant=PURE, delta=0.0, limit=units, highest_limit=units)
    (population,) = record(declare(), populations=[pure])["populations"]
    assert "ε = 1 (accountant pure)" in population["safeguard"]


def test_a_share_of_right_guesses_is_never_rounded_down() -> None:
    units = GDP.units_of(Price(mu=0.648))  # Φ(0.324) = 62.703 %
    (population,) = record(declare(), populations=[dataclasses.replace(TOWN, highest_limit=units)])["populations"]
    assert "at most 62.8% of cases" in population["safeguard"]


def test_under_zcdp_the_share_is_that_of_its_own_curve() -> None:
    units = ZCDP.units_of(Price(rho=0.5))
    zcdp = dataclasses.replace(TOWN, accountant=ZCDP, limit=units, highest_limit=units)
    (population,) = record(declare(), populations=[zcdp])["populations"]
    assert "at most 78.0% of cases" in population["safeguard"]


def test_an_identifier_that_is_kept_is_told() -> None:
    manifest = declare().model_copy(update={"subject": "patient_id", "rows_per_subject": 3})
    shown = write_markdown(record(manifest, identified=frozenset({"ds_1"})))
    assert r"told apart by patient\_id, which is stored encrypted" in shown


def test_a_population_without_datasets_is_in_the_record() -> None:
    assert "No dataset is registered." in write_markdown(record(declare(), datasets=[]))


def test_a_subject_is_named_with_how_many_rows_count() -> None:
    manifest = declare().model_copy(update={"subject": "patient_id", "rows_per_subject": 3})
    assert r"people are told apart by patient\_id, which is not stored; at most 3 rows" in write_markdown(
        record(manifest)
    )


@pytest.mark.parametrize("text", ["<script>", "a | b", "[x](https://evil.example)", "*b*", "a\n\n# Approved", "&amp;"])
def test_no_declared_text_is_markup(text: str) -> None:
    manifest = declare(CATALOGUE)
    catalogue = Catalogue.model_validate(dict(manifest.catalogue or ()) | {"purpose": text})
    shown = write_markdown(record(manifest.model_copy(update={"catalogue": catalogue})))
    (line,) = (line for line in shown.splitlines() if line.startswith("- Purposes: "))
    assert not re.search(r"(?<!\\)[<>|\[\]*&#]", line)
    assert line.removeprefix("- Purposes: ").replace("\\", "") == " ".join(text.split())
