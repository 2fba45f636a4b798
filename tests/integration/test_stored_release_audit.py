"""`curator ledger verify` finds an answer that holds more, or other numbers, than its entry pays for."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scenes import RELEASES, box, register_private
from support import World, open_world

from curator_service.datasets.repository import list_datasets
from curator_service.entries.base import Event
from curator_service.kinds import designs
from curator_service.ledger.accounts.unit_of_work import Ledger, Trust
from curator_service.ledger.chain.entries import Receipt
from curator_service.privacy.accountant import Price
from curator_service.releases import audit, publisher
from curator_service.releases.audit import Discrepancy, verify
from curator_service.releases.library import Block
from curator_service.releases.rendering import answer_digest

WIDE = box(features=["age", "sex", "weight", "ward"], targets=["kappa", "dose"], price={"mu": 0.2})
NARROW = WIDE | {"features": ["weight", "age"], "targets": ["dose"], "price": {"mu": 0.01}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, limit=Price(mu=4.0)) as made:
        yield made


def derive(world: World, request: dict[str, Any] = NARROW, *, at: str = RELEASES, key: str = "block") -> dict[str, Any]:
    """Buy the wide release, and have a block cut out of it; return the block."""
    api = world.api()
    assert api.post(at, json=WIDE, key="source").status_code in {200, 201}
    answer = api.post(at, json=request, key=key)
    assert answer.headers["curator-answer"] == "derived"
    content: dict[str, Any] = answer.json()
    return content


def rewrite(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the till render other answers: with entries, hashes and signatures that are right for them."""
    honest = getattr(publisher, name)

    def forged(*arguments: Any) -> str:
        answer = json.loads(honest(*arguments))
        change(answer)
        return json.dumps(answer, separators=(",", ":"))

    monkeypatch.setattr(publisher, name, forged)


def test_blocks_of_any_kind_are_backed(world: World) -> None:
    derive(world)
    derive(world, NARROW | {"features": ["sex"], "statistics": ["xty"]}, key="products")
    derive(world, NARROW | {"features": ["ward"], "targets": ["dose", "kappa"]}, key="levels")
    assert world.discrepancies() == []


def test_a_block_and_a_source_in_the_stated_order_of_columns_are_backed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of before the canonical order stand in the order in which they were asked."""
    monkeypatch.setattr(designs, "order_features", lambda features, _declared: features)
    block = derive(world)
    assert [term["name"] for term in block["terms"]] == ["(constant)", "weight", "age"]
    monkeypatch.undo()
    assert world.discrepancies() == []


@pytest.mark.parametrize("what", ["values", "one value", "sd", "distribution"])
def test_a_block_whose_numbers_are_not_those_of_its_source_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A `derive` entry costs nothing: its numbers must be its source's, and its noise no less than theirs."""
    honest = publisher.cut

    def forged(*arguments: Any) -> Block:
        block = honest(*arguments)
        if what == "values":
            block.statistics.update(
                {name: {"values": [1.0] * len(h["values"])} for name, h in block.statistics.items()}
            )
        elif what == "one value":
            block.statistics["yty"]["values"][-1] += 2.0**-30
        elif what == "sd":
            return replace(block, sd=dict.fromkeys(block.sd, 1e-6))
        else:
            return replace(block, distribution="discrete_laplace")
        return block

    monkeypatch.setattr(publisher, "cut", forged)
    block = derive(world)
    assert world.discrepancies() == [f"the source of {block['id']}"]


@pytest.mark.parametrize("source", ["none", "itself", "another block", "other rows"])
def test_a_block_that_names_no_release_that_it_is_cut_out_of_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    api = world.api()
    named = "rel_" + "0" * 24
    if source == "another block":
        named = derive(world, key="other")["id"]
    elif source == "other rows":
        named = api.post(RELEASES, json=WIDE | {"rows": {"map": "ball"}}, key="other").json()["id"]
    honest_payload, honest_answer = publisher.state_derived, publisher.render_derived

    def forged(release_id: str, *arguments: Any) -> Any:
        return honest_payload(release_id, *arguments).model_copy(
            update={"source": release_id if source == "itself" else named}
        )

    def rendered(release_id: str, *arguments: Any) -> str:
        content = json.loads(honest_answer(release_id, *arguments))
        content["derived_from"] = release_id if source == "itself" else named
        return json.dumps(content, separators=(",", ":"))

    monkeypatch.setattr(publisher, "state_derived", forged)
    monkeypatch.setattr(publisher, "render_derived", rendered)
    block = derive(world, NARROW | {"features": ["age"]})
    assert world.discrepancies() == [f"the source of {block['id']}"]


def test_a_block_that_names_another_source_than_its_entry_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(monkeypatch, "render_derived", lambda answer: answer.update(derived_from="rel_" + "0" * 24))
    found = derive(world)["id"]
    assert world.discrepancies() == [f"the source of {found}"]


def test_a_block_of_what_another_one_bought_for_himself_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address = register_private(world, "ada", "ben")
    at = f"{address}/releases"
    bens = world.api("ben").post(at, json=WIDE, key="source").json()["id"]
    honest_payload = publisher.state_derived
    derive(world, at=at, key="mine")
    assert world.discrepancies() == []
    monkeypatch.setattr(
        publisher, "state_derived", lambda *given: honest_payload(*given).model_copy(update={"source": bens})
    )
    rewrite(monkeypatch, "render_derived", lambda answer: answer.update(derived_from=bens))
    block = derive(world, NARROW | {"features": ["sex"]}, at=at, key="his")
    assert world.discrepancies() == [f"the source of {block['id']}"]


def _add_statistic(answer: dict[str, Any]) -> None:
    answer["statistics"]["lambda_min"] = {"shape": [], "packing": "full", "step": 1.0, "values": [3.25]}


def _add_term(answer: dict[str, Any]) -> None:
    answer["terms"].append(answer["terms"][-1] | {"name": "more"})
    answer["statistics"]["xtx"]["values"] += [1.0] * len(answer["terms"])


MORE: dict[str, Callable[[dict[str, Any]], object]] = {
    "a statistic": _add_statistic,
    "a term": _add_term,
    "a target": lambda answer: answer["targets"].append(answer["targets"][-1]),
    "a feature": lambda answer: answer["features"].append(answer["features"][-1]),
    "a value": lambda answer: answer["statistics"]["xty"]["values"].append(1.0),
    "a value that is a list": lambda answer: answer["statistics"]["yty"].update(values=[[1.0, 2.0]]),
    "another shape": lambda answer: answer["statistics"]["yty"].update(shape=[2]),
    "a member": lambda answer: answer.update(exact=[1.0]),
    "a member of a statistic": lambda answer: answer["statistics"]["xtx"].update(exact=[1.0]),
    "a member of a term": lambda answer: answer["terms"][0].update(exact=1.0),
    "a member of a feature": lambda answer: answer["features"][0].update(exact=1.0),
    "a member of the request": lambda answer: answer["request"].update(exact=[1.0]),
    "a member of its rows": lambda answer: answer["request"]["rows"].update(exact=1.0),
    "a member of its price": lambda answer: answer["request"]["price"].update(exact=1.0),
    "a list for its price": lambda answer: answer["request"]["price"].update(mu=[1.0]),
    "a member of its shares": lambda answer: answer["request"]["shares"].update(exact=1.0),
    "a list for fresh": lambda answer: answer["request"].update(fresh=[1.0]),
    "rows that are not stated": lambda answer: answer["request"].update(rows={"map": "ball"}),
    "a member of the noise": lambda answer: answer["noise"].update(exact=1.0),
    "a member of the cost": lambda answer: answer["cost"].update(exact=1.0),
    "a list for a view of the cost": lambda answer: answer["cost"].update(mu=[1.0]),
    "another cost": lambda answer: answer["cost"].update(units="5"),
    "another kind": lambda answer: answer.update(kind="exact"),
    "another dataset": lambda answer: answer.update(dataset="hidden"),
    "another moment": lambda answer: answer.update(created_at="1970-01-01T00:00:01.000000Z"),
    "another id": lambda answer: answer.update(id="rel_" + "0" * 24),
}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", ["charge", "derive"])
def test_an_answer_that_holds_more_than_its_request_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, more: str
) -> None:
    """Sensitivities are derived from the request that the answer states: it must hold no more numbers than that."""
    if kind == "charge":
        rewrite(monkeypatch, "render_answer", MORE[more])
        answer = world.api().post(RELEASES, json=NARROW, key="k").json()
    else:
        rewrite(monkeypatch, "render_derived", MORE[more])
        answer = derive(world)
    assert world.discrepancies() == [answer["receipt"]["release"]]


def test_a_derived_answer_that_states_what_it_never_cost_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(monkeypatch, "render_derived", lambda answer: answer["cost"].update(mu=0.1))
    assert world.discrepancies() == []
    found = derive(world)["id"]
    assert world.discrepancies() == [found]


def test_a_derived_answer_that_was_charged_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut out of a release was paid for with it."""
    note = Ledger.note

    def charged(self: Ledger, population: str, event: Event) -> Receipt:
        is_free = event.kind == "derive"
        return self.record(self.next(population), event, 5) if is_free else note(self, population, event)

    monkeypatch.setattr(Ledger, "note", charged)
    place = derive(world)["receipt"]["sequence"]
    chain, _ = verify(world.curator.ledger, world.curator.datasets, world.curator.kinds, "town")
    assert (chain.bad_sequence, chain.reason) == (place, "an entry of kind 'derive' with 5 units does not belong here")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nowhere", "at the end"),
        ('"price":{', '"price":{"mu":1.0,'),
        ('"xty":{', '"xty":{"values":[1.0],'),
        ('"sd":{', '"sd":{"xty":1.0,'),
        ('"cost":{', '"cost":{"units":"1",'),
        ('"name":"age"', '"name":"sex","name":"age"'),
        ('"kind":"gram"', '"kind":"exact","kind":"gram"'),
    ],
)
def test_an_answer_with_a_member_twice_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """Whoever reads it may see the first, or the last."""
    honest = publisher.render_answer

    def doubled(*given: Any) -> str:
        text = honest(*given)
        return text.replace(before, after, 1) if before in text else f'{text[:-1]},"kind":"gram"}}'

    monkeypatch.setattr(publisher, "render_answer", doubled)
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    assert world.discrepancies() == [found]


@pytest.mark.parametrize("end", ["]", "}}", ',"derived_from":}', ',"derived_from":"rel_000000000000000000000000"}'])
def test_an_answer_that_ends_otherwise_is_found(world: World, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    ((text,),) = world.sql("SELECT answer FROM releases")
    assert world.discrepancies() == []
    change(world, f"UPDATE releases SET answer = '{text[:-1] + end}'")
    monkeypatch.setattr(audit, "answer_digest", lambda _text: answer_digest(text))
    assert world.discrepancies() == [found]


def test_a_block_that_does_not_end_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last member is a text, so that what stands before the last brace is whole without it."""
    found = derive(world)["id"]
    ((text,),) = world.sql(f"SELECT answer FROM releases WHERE id = '{found}'")
    change(world, f"UPDATE releases SET answer = '{text[:-1]}' WHERE id = '{found}'")
    monkeypatch.setattr(audit, "answer_digest", lambda held: answer_digest(text if held == text[:-1] else held))
    assert world.discrepancies() == [found]


def test_answers_as_earlier_versions_wrote_them_are_backed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python writes 1e-06 where the answers of today say 1e-6."""
    rewrite(monkeypatch, "render_answer", lambda answer: None)
    rewrite(monkeypatch, "render_derived", lambda answer: None)
    derive(world)
    texts = [text for (text,) in world.sql("SELECT answer FROM releases")]
    assert len(texts) == 2
    assert all("e-0" in text for text in texts)
    assert world.discrepancies() == []


def change(world: World, *acts: str) -> None:
    """Change what is append-only, as the owner of the database can."""
    triggers = [name for (name,) in world.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    world.sql(*(f"DROP TRIGGER {name}" for name in triggers), *acts)


@pytest.mark.parametrize(
    "act",
    [
        *(f"UPDATE release_listings SET {column} = 'x'" for column in ("dataset_id", "collection", "shelf", "members")),
        *(f"UPDATE release_listings SET {noise} = 0.5" for noise in ("least_sd", "loudness")),
        "UPDATE release_listings SET noise = replace(noise, 'gaussian', 'laplace')",
        "UPDATE release_listings SET noise = 'none'",
        "UPDATE release_listings SET sequence = 1",
        "UPDATE release_listings SET summary = replace(summary, 'dose', 'kappa')",
        "UPDATE release_listings SET summary = 'none'",
        "DELETE FROM release_listings",
        "UPDATE column_holders SET bits = '0' WHERE name = 'age'",
        "UPDATE column_holders SET chunk = 7 WHERE name = 'dose'",
        "UPDATE column_holders SET kind = 'other' WHERE name = 'dose'",
        "DELETE FROM column_holders WHERE name = 'age'",
    ],
)
def test_a_release_that_the_library_would_not_find_is_found(world: World, act: str) -> None:
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    assert world.discrepancies() == []
    change(world, act)
    assert world.discrepancies() == [f"the listing of {found}"]


def test_a_listing_whose_numbers_an_earlier_version_wrote_is_as_it_must_be(world: World) -> None:
    assert world.api().post(RELEASES, json=NARROW, key="k").status_code == 201
    ((summary,),) = world.sql("SELECT summary FROM release_listings")
    change(world, f"UPDATE release_listings SET summary = '{json.dumps(json.loads(summary))}'")
    assert world.discrepancies() == []


@pytest.mark.parametrize("place", [1, 99])
def test_a_release_of_an_entry_that_sells_none_is_found(world: World, place: int) -> None:
    """Of another kind, or of none at all."""
    assert world.api().post(RELEASES, json=NARROW, key="k").status_code == 201
    names = "dataset_id, population, request_digest, answer"
    path = world.curator.database.url.database or ""
    with closing(sqlite3.connect(path)) as connection, connection:  # foreign keys are not looked at here
        connection.execute(
            f"INSERT INTO releases (id, sequence, {names}) SELECT 'rel_x', {place}, {names} FROM releases"
        )
    assert world.discrepancies() == ["rel_x"]


def test_a_charge_that_stands_before_its_dataset_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sells answers of rows that nobody has registered may register them afterwards."""
    honest, kept = Ledger.note, []

    def note(self: Ledger, population: str, event: Event) -> Receipt:
        if event.kind == "dataset":
            kept.append(event)
            event = event.model_copy(update={"snapshot": "0" * 64})
        return honest(self, population, event)

    with monkeypatch.context() as forging:
        forging.setattr(Ledger, "note", note)
        forging.setattr(Trust, "check_registered", lambda *_: None)
        forging.setattr(Trust, "check_latest", lambda *_: None)
        forging.setattr(Trust, "check_permit", lambda *_: None)
        forging.setattr(Trust, "check_terms", lambda *_: None)
        sold = world.api().post(f"{register_private(world, 'ada')}/releases", json=NARROW, key="k").json()
    assert f"the dataset of sequence {sold['receipt']['sequence']}" in world.discrepancies()
    with world.curator.ledger.unit() as ledger:
        late = ledger.note("town", kept[0])
    assert world.discrepancies() == [
        f"the dataset of sequence {sold['receipt']['sequence']}",
        # Only the first entry of a dataset is a registration.
        f"the version of sequence {json.loads(late.payload_text)['sequence']}",
    ]


def test_an_answer_of_another_dataset_than_its_entry_s_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register_private(world, "ada")
    with world.curator.database.read() as connection:
        other = next(d for d in list_datasets(connection, granted_to=None) if d.name == "private")
    honest = publisher.state_charge
    named = {"dataset": other.name, "snapshot": other.commitment}
    monkeypatch.setattr(publisher, "state_charge", lambda *given: honest(*given).model_copy(update=named))
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    assert world.discrepancies() == [found]


@pytest.mark.parametrize("noise", [{"sd": {"xtx_diagonal": 1e-6}}, {"distribution": "discrete_laplace"}])
def test_an_answer_that_states_other_noise_than_was_charged_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, noise: dict[str, Any]
) -> None:
    """Whoever reads it would take its numbers for surer than they are."""
    rewrite(monkeypatch, "render_answer", lambda answer: answer["noise"].update(noise))
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    assert world.discrepancies() == [found]


def test_a_request_digest_that_is_not_the_entry_s_is_found(world: World) -> None:
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    change(world, f"UPDATE releases SET request_digest = '{'0' * 64}'")
    assert world.discrepancies() == [found]
    _, found_by_verify = verify(world.curator.ledger, world.curator.datasets, world.curator.kinds, "town")
    assert found_by_verify == [Discrepancy(found, 6)]


def test_a_number_that_was_changed_in_a_stored_answer_is_found(world: World) -> None:
    """Only the digest of its entry tells: it has as many numbers as before."""
    found = world.api().post(RELEASES, json=NARROW, key="k").json()
    value = found["statistics"]["yty"]["values"][0]
    ((text,),) = world.sql("SELECT answer FROM releases")
    changed = text.replace(f"[{value}]", f"[{value + 1}]")
    assert changed != text
    change(world, f"UPDATE releases SET answer = '{changed}'")
    assert world.discrepancies() == [found["id"]]
