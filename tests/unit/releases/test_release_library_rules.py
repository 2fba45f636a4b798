"""Stored releases that answer a request or come near it, and a catalogue that nobody here wrote."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import ADA, BARE, BOB, RULED, FakeCatalogue, details_of, make_dataset, make_prepared, render

from curator_service.ledger.accounts.unit_of_work import Contradiction
from curator_service.releases.library import Offer, Search, answers, cut, is_source, least_sd, will_answer
from curator_service.releases.preparation import Prepared

OWN = make_dataset(shared=False)
LAPLACE = {"mechanism": "laplace", "price": {"epsilon": 0.3}}
LESS, MORE = {"price": {"mu": 0.05}}, {"price": {"mu": 0.2}}
"""Prices: less buys more noise."""
ASKED = make_prepared("age")


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> FakeCatalogue:
    return FakeCatalogue(monkeypatch)


def search(prepared: Prepared = ASKED, by: str = ADA.id) -> Search:
    return Search(None, prepared, by)


# --- A stored answer, by its own text


@pytest.mark.parametrize(
    ("stored", "exactly", "cut_out"),
    [
        (make_prepared("age"), True, True),
        (make_prepared("age", **MORE), True, True),
        (make_prepared("age", **LESS), False, False),
        (make_prepared("age", "ward", **MORE), False, True),
        (make_prepared("age", "ward", **LESS), False, False),
        (make_prepared("ward"), False, False),
        (make_prepared("age", **LAPLACE), False, False),
    ],
)
def test_an_answer_is_one_to_a_request_of_its_shelf_with_no_more_noise(
    stored: Prepared, exactly: bool, cut_out: bool
) -> None:
    text = render(stored)
    assert answers(ASKED, ADA.id, text, exactly=True) is exactly
    assert answers(ASKED, ADA.id, text, exactly=False) is cut_out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        render(ASKED).replace('"kind":"filled"', '"kind":"gram"', 1),
        render(ASKED).replace('"request":', '"asked":'),
        render(ASKED).replace('"sd":{"rows"', '"sd":{"cells"'),
        render(ASKED).replace('"columns":["age"]', '"columns":5'),
    ],
)
def test_a_text_that_is_no_answer_answers_nothing(text: str) -> None:
    assert text != render(ASKED)
    for exactly in (True, False):
        assert not answers(ASKED, ADA.id, text, exactly=exactly)


def test_a_block_is_an_answer_and_no_source() -> None:
    listing = ASKED.listing
    assert is_source(RULED, listing, listing)
    assert not is_source(RULED, replace(listing, derived_from="rel_1"), listing)


def test_a_kind_without_rules_answers_the_same_request_alone() -> None:
    asked = make_prepared("age", kind=BARE)
    assert answers(asked, ADA.id, render(make_prepared("age", kind=BARE, **MORE)), exactly=True)
    assert not answers(asked, ADA.id, render(make_prepared("age", "ward", kind=BARE, **MORE)), exactly=False)
    assert least_sd(BARE, asked.listing) == 0.0
    assert least_sd(RULED, ASKED.listing) == ASKED.noise_sd["rows"]


def test_a_block_has_values_and_noise_of_its_source() -> None:
    source = make_prepared("age", "weight", **MORE)
    block = cut(RULED, source.listing, make_prepared("weight").listing, json.loads(render(source))["statistics"])
    assert block.statistics == {"rows": {"values": [2.0], "places": [1]}}
    assert (block.sd, block.distribution) == (source.noise_sd, "discrete_gaussian")


# --- The answer of a job


@pytest.mark.parametrize(
    ("working", "will"),
    [
        (make_prepared("age"), True),
        (make_prepared("age", **MORE), True),
        (make_prepared("age", **LESS), False),
        (make_prepared("age", "ward", **MORE), False),
    ],
)
def test_a_job_will_answer_the_same_entries_with_no_more_noise(working: Prepared, will: bool) -> None:
    assert will_answer(ASKED, details_of(working)) is will


def test_a_job_of_another_kind_answers_nothing() -> None:
    assert not will_answer(ASKED, details_of(ASKED) | {"request": '{"kind":"gram"}'})


def test_a_job_that_does_not_state_its_noise_answers_the_same_request() -> None:
    """An earlier version began it."""
    for working, will in ((ASKED, True), (make_prepared("age", **MORE), False)):
        assert will_answer(ASKED, {"request": details_of(working)["request"]}) is will


# --- Looking in the catalogue


def test_the_quietest_release_that_holds_a_request_is_its_source(catalogue: FakeCatalogue) -> None:
    for name, price in (("rel_noisy", 0.05), ("rel_equal", 0.15), ("rel_quiet", 0.3), ("rel_quieter", 0.2)):
        catalogue.add(make_prepared("age", "ward", price={"mu": price}), name)
    catalogue.add(make_prepared("ward", "height", price={"mu": 0.9}), "rel_others")
    assert search().find_source() == "rel_quiet"
    assert search().find_exact() is None


def test_what_is_noisier_or_of_other_noise_is_no_source(catalogue: FakeCatalogue) -> None:
    catalogue.add(make_prepared("age", "ward", **LESS), "rel_noisy")
    catalogue.add(make_prepared("age", "ward", mechanism="laplace", price={"epsilon": 5.0}), "rel_laplace")
    assert search().find_source() is None


def test_a_source_is_found_among_what_its_asker_may_read(catalogue: FakeCatalogue) -> None:
    catalogue.add(make_prepared("age", "ward", dataset=OWN, **MORE), "rel_ada", by=ADA)
    asked = make_prepared("age", dataset=OWN)
    assert search(asked, ADA.id).find_source() == "rel_ada"
    assert search(asked, BOB.id).find_source() is None


def test_the_catalogue_is_not_believed_about_what_a_release_holds(catalogue: FakeCatalogue) -> None:
    """Each source is looked at by the rules of its kind: a row that lists another one is passed over."""
    catalogue.add(make_prepared("ward", **MORE), "rel_other")
    catalogue.add(make_prepared("age", "ward", **MORE), "rel_more", summary=catalogue.rows[0][3].summary)
    assert (search().find_source(), search().list_offers()) == (None, [])


def test_near_releases_are_offered_with_their_difference_the_newest_first(catalogue: FakeCatalogue) -> None:
    catalogue.add(make_prepared("age", "ward", **LESS), "rel_1")
    catalogue.add(make_prepared("age", **LAPLACE), "rel_2")
    catalogue.add(make_prepared("ward", **MORE), "rel_3")
    assert search().list_offers() == [Offer("rel_2", "its rows are others"), Offer("rel_1", "its noise is larger")]


def test_what_answers_is_not_offered_and_no_more_than_three_are(catalogue: FakeCatalogue) -> None:
    for i in range(5):
        catalogue.add(make_prepared("age", "ward", price={"mu": 0.01 * (i + 1)}), f"rel_{i}")
    assert [offer.release_id for offer in search().list_offers()] == ["rel_4", "rel_3", "rel_2"]
    catalogue.add(make_prepared("age", **MORE), "rel_answer")
    assert "rel_answer" not in [offer.release_id for offer in search().list_offers()]


def test_what_another_guess_would_have_meant_is_offered_first_and_once(catalogue: FakeCatalogue) -> None:
    guesses = {"columns": ["age", "weight", "ward"]}, {"columns": ["age", "ward"]}, {"columns": ["age", "mass"]}
    for i, columns in enumerate([("age", "ward"), ("age", "height"), ("age", "weight"), ("age", "weight", "ward")]):
        catalogue.add(make_prepared(*columns, **LESS), f"rel_{i}")
    offers = search(replace(ASKED, siblings=guesses)).list_offers()
    assert [offer.release_id for offer in offers] == ["rel_3", "rel_0", "rel_2"]


def test_a_kind_without_rules_has_no_sources_and_offers_nothing(catalogue: FakeCatalogue) -> None:
    asked = make_prepared("age", kind=BARE)
    catalogue.add(make_prepared("age", "ward", kind=BARE, **MORE), "rel_more")
    assert (search(asked).find_source(), search(asked).list_offers()) == (None, [])
    catalogue.add(make_prepared("age", kind=BARE, **MORE), "rel_same")
    assert search(asked).find_exact() == "rel_same"


NONSENSE: list[dict[str, Any]] = [
    {"summary": "no JSON"},
    {"summary": "[]"},
    {"summary": "{}"},
    {"summary": '{"request":{"kind":"filled"}}'},
    {"summary": '{"request":{"kind":"filled","columns":5}}'},
    {"summary": '{"request":5}'},
    {"noise": "no JSON"},
    {"noise": "5"},
    {"noise": '{"distribution":5,"sd":{"rows":1.0}}'},
    {"noise": '{"distribution":"discrete_gaussian","sd":{"cells":1.0}}'},
    {"noise": '{"distribution":"discrete_gaussian","sd":{"rows":"x"}}'},
    {"noise": '{"distribution":"discrete_gaussian","sd":{}}'},
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=str)
def test_a_listing_of_nonsense_is_a_contradiction(catalogue: FakeCatalogue, nonsense: dict[str, str]) -> None:
    catalogue.add(make_prepared("age", "ward", **MORE), "rel_1", **nonsense)
    with pytest.raises(Contradiction):
        search().find_source()
    with pytest.raises(Contradiction):
        search().list_offers()
