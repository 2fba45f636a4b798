"""An answer as text: what it states, what it is divided into, and which answers a request can have."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes import BARE, MOMENT, RULED, make_population, make_prepared, render

from curator_service.privacy.lattice import UNIT
from curator_service.releases.answers import Answer, divide, make_listing, read_about, write_again
from curator_service.releases.library import cut
from curator_service.releases.preparation import Prepared
from curator_service.releases.rendering import Form, describe, outline_of, outline_of_derived, render_derived

STATED = ["id", "dataset", "kind", "created_at", "request", "columns", "statistics", "noise", "cost"]
ASKED = make_prepared("ward", "age")
HOSTILE = render(ASKED)


def derive(asked: Prepared, source: Prepared) -> str:
    """Return an answer that is cut out of another one."""
    stored = json.loads(render(source))
    listing = make_listing(RULED, source.dataset, stored)
    block = cut(RULED, listing, asked.listing, stored["statistics"])
    outline = outline_of_derived(asked, make_population(), block)
    return render_derived("rel_2", asked, outline, "rel_1", block, MOMENT)


# --- What an answer states


def test_an_answer_states_what_its_quote_did_and_its_values() -> None:
    content, quote = json.loads(HOSTILE), json.loads(json.dumps(describe(ASKED, make_population())))
    assert list(content) == STATED
    assert {name: content[name] for name in quote} == quote
    assert (content["id"], content["dataset"], content["created_at"]) == ("rel_1", "cohort", MOMENT)


def test_values_are_noisy_integers_in_scaled_units() -> None:
    frame = {"shape": [2], "packing": "full", "step": 1 / UNIT**2}
    assert json.loads(HOSTILE)["statistics"] == {"rows": {**frame, "values": [1.0, 2.0]}}


def test_a_summary_states_no_statistics() -> None:
    outline, content = outline_of(ASKED, make_population()), json.loads(HOSTILE)
    summary = outline.summary("rel_1", MOMENT)
    assert json.loads(summary) == {name: content[name] for name in [*STATED[:5], "cost"]}
    assert divide(HOSTILE, RULED).summary == summary
    assert json.loads(outline.noise) == content["noise"]


def test_a_cost_has_the_epsilon_of_laplace_noise_alone() -> None:
    laplace = make_prepared(mechanism="laplace", price={"epsilon": 0.25})
    cost = json.loads(render(laplace))["cost"]
    assert cost["pure_epsilon"] == pytest.approx(0.25)
    assert cost["share_of_budget"] == laplace.cost / 10**12
    assert "pure_epsilon" not in json.loads(HOSTILE)["cost"]


def test_a_derived_answer_has_extras_and_the_noise_of_its_source_and_costs_nothing() -> None:
    source = make_prepared("age", "weight", "ward", price={"mu": 0.2})
    content, stored = json.loads(derive(ASKED, source)), json.loads(render(source))
    assert list(content) == [*STATED, "derived_from"]
    assert (content["derived_from"], content["noise"]) == ("rel_1", stored["noise"])
    assert (content["cost"]["units"], content["cost"]["share_of_budget"]) == ("0", 0.0)
    whole = stored["statistics"]["rows"]["values"]
    assert content["statistics"]["rows"]["values"] == [whole[0], whole[2]]
    assert content["statistics"]["rows"]["places"] == [0, 2]


# --- Its text, with names that hold what stands between its members


@pytest.mark.parametrize("text", [HOSTILE, derive(ASKED, make_prepared("age", "weight", "ward"))])
def test_an_answer_is_divided_into_its_members_whatever_stands_in_strings(text: str) -> None:
    content, answer = json.loads(text), divide(text, RULED)
    for name in ("request", "statistics", "noise", "cost"):
        assert json.loads(getattr(answer, name)) == content[name]
    assert json.loads(answer.declared) == content["columns"]
    assert answer.derived_from == (f'"{content["derived_from"]}"' if "derived_from" in content else None)
    assert json.loads(answer.opening + "}") == {name: content[name] for name in STATED[:4]}


def test_members_make_up_all_of_an_answer() -> None:
    """Where a separator stands twice, what follows belongs to a member, which is then not what it must be."""
    for text in (HOSTILE, HOSTILE.replace(',"cost":', ',"cost":1,"cost":')):
        opening, request, declared, statistics, noise, cost, _ = divide(text, RULED)
        joined = f'{opening},"request":{request},"columns":{declared},"statistics":{statistics},"noise":{noise}'
        assert f'{joined},"cost":{cost}}}' == text


@pytest.mark.parametrize("text", ["", "[]", HOSTILE[:-2], HOSTILE + "x"])
def test_what_does_not_end_as_an_object_is_not_divided(text: str) -> None:
    with pytest.raises(ValueError, match="object"):
        divide(text, RULED)


def test_what_an_answer_says_of_itself_is_read_without_its_statistics() -> None:
    content = json.loads(HOSTILE)
    assert read_about(HOSTILE) == {name: content[name] for name in STATED if name != "statistics"}
    broken = HOSTILE.replace('"values":[', '"values":[half a million numbers')
    named = HOSTILE.replace('"statistics":{"rows":{', '"statistics":{"noise":{')
    assert read_about(broken) == read_about(named) == read_about(HOSTILE)


def test_an_answer_that_was_written_otherwise_is_written_again() -> None:
    content = json.loads(HOSTILE)
    for otherwise in (json.dumps(content, indent=2), json.dumps(dict(reversed(content.items())))):
        assert write_again(otherwise, RULED) == HOSTILE


@pytest.mark.parametrize(
    "text",
    [HOSTILE[:-1] + ',"more":1}', '{"id":"rel_1",' + HOSTILE[1:], HOSTILE.replace('"step":', '"step":1,"step":')],
)
def test_a_member_that_is_another_one_or_stands_twice_is_not_written_again(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        write_again(text, RULED)


# --- The form of every answer to a request


def fits(asked: Prepared, answer: Answer) -> bool:
    return Form(RULED, asked.listing).fits(answer)


@pytest.mark.parametrize("columns", [("age",), ("age", "ward")])
def test_new_and_derived_answers_have_the_form_of_their_request(columns: tuple[str, ...]) -> None:
    asked, whole = make_prepared(*columns), make_prepared("age", "weight", "ward")
    assert fits(asked, divide(render(asked), RULED))
    assert fits(asked, divide(derive(asked, whole), RULED))
    assert not fits(whole, divide(render(asked), RULED))
    assert Form(BARE, asked.listing).fits(divide(render(asked), BARE))
    assert not Form(BARE, asked.listing).fits(divide(derive(asked, whole), BARE))


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "a statistic more": lambda held: held.update(more=held["rows"]),
    "no statistic": lambda held: held.clear(),
    "another name": lambda held: held.update(cell=held.pop("rows")),
    "another shape": lambda held: held["rows"].update(shape=[1]),
    "another packing": lambda held: held["rows"].update(packing="upper"),
    "another step": lambda held: held["rows"].update(step=1.0),
    "a value more": lambda held: held["rows"]["values"].append(1.5),
    "a value less": lambda held: held["rows"]["values"].pop(),
    "a value without a point": lambda held: held["rows"]["values"].__setitem__(0, 1),
    "no value": lambda held: held["rows"]["values"].__setitem__(0, None),
    "a text": lambda held: held["rows"]["values"].__setitem__(0, "1.5"),
    "a member more": lambda held: held["rows"].update(more=[]),
}
WRONG_BLOCKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a place more": lambda held: held["rows"]["places"].append(1),
    "a place with a point": lambda held: held["rows"]["places"].__setitem__(0, 1.0),
    "a place that is a truth": lambda held: held["rows"]["places"].__setitem__(0, True),
}


@pytest.mark.parametrize(
    ("change", "is_block"),
    [(c, block) for block in (False, True) for c in WRONG.values()] + [(c, True) for c in WRONG_BLOCKS.values()],
    ids=[*WRONG, *(f"{name} in a block" for name in WRONG), *WRONG_BLOCKS],
)
def test_each_wrong_number_and_frame_is_found(change: Callable[[dict[str, Any]], object], is_block: bool) -> None:
    text = derive(ASKED, make_prepared("age", "weight", "ward")) if is_block else HOSTILE
    answer = divide(text, RULED)
    held = json.loads(answer.statistics)
    change(held)
    assert not fits(ASKED, answer._replace(statistics=json.dumps(held)))


def test_what_is_cut_out_has_extras_and_nothing_else_has() -> None:
    block = divide(derive(ASKED, make_prepared("age", "weight", "ward")), RULED)
    assert not fits(ASKED, block._replace(derived_from=None))
    assert not fits(ASKED, divide(HOSTILE, RULED)._replace(derived_from='"rel_1"'))


def test_columns_are_declared_as_they_are_in_the_manifest() -> None:
    answer = divide(HOSTILE, RULED)
    assert not fits(ASKED, answer._replace(declared=answer.declared.replace('"unit":null', '"unit":"years"')))


def test_a_list_that_stands_twice_is_found() -> None:
    """A reader of JSON may take the other one."""
    answer = divide(HOSTILE, RULED)
    twice = answer.statistics.replace('"values":[', '"values":[9.5,9.5],"values":[')
    assert not fits(ASKED, answer._replace(statistics=twice))


def test_an_outline_is_rendered_once_for_each_request() -> None:
    population = make_population()
    assert outline_of(ASKED, population) is outline_of(ASKED, population)
    assert outline_of(ASKED, make_population(limit=10**11)) is not outline_of(ASKED, population)
