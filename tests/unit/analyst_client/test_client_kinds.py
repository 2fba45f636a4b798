"""An answer is read by its kind, and one of a kind that this client does not know is refused by name."""

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest
from client_examples import RELEASE_TEXT, Curator, ask, released

from analyst_client import CuratorClient, Release, ServiceError
from analyst_client.kinds.gram.request import ReleaseOptions, ReleaseRequest
from analyst_client.kinds.registry import READERS, read_answer

HISTOGRAM = RELEASE_TEXT.replace('"kind": "gram"', '"kind": "histogram"').replace('"kind":"gram"', '"kind":"histogram"')


def test_an_answer_is_read_by_the_reader_of_its_kind() -> None:
    assert list(READERS) == ["gram"]
    assert read_answer(RELEASE_TEXT) == Release.from_text(RELEASE_TEXT)
    read = []
    known = {"histogram": lambda text, answered: read.append((text, answered))}
    read_answer(HISTOGRAM, "stored", readers=known)  # type: ignore[arg-type]
    assert read == [(HISTOGRAM, "stored")]


def test_an_unknown_kind_is_refused_and_named() -> None:
    with pytest.raises(ServiceError, match="no release of the kind 'histogram': it knows gram"):
        ask(Curator(released(HISTOGRAM)).client())
    with pytest.raises(ServiceError, match="'gram', the kind of this release"):
        Release.from_text(HISTOGRAM)


def test_the_options_of_a_request_are_the_same_for_a_checker_of_types() -> None:
    options = get_type_hints(ReleaseRequest)
    for own in ("features", "_"):
        del options[own]
    assert get_type_hints(ReleaseOptions) == options


@pytest.mark.parametrize("name", ["quote", "release", "submit_release"])
def test_signatures_show_every_option_with_its_default(name: str) -> None:
    shown = inspect.signature(getattr(CuratorClient, name)).parameters
    assert list(shown)[:3] == ["self", "dataset", "features"]
    for option in fields(ReleaseRequest)[1:]:
        assert shown[option.name].default == option.default
        assert shown[option.name].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in shown.values())
    bound = {"quote": set(), "submit_release": {"idempotency_key"}}
    own = {"idempotency_key", "respond_async", "wait_s"} if name == "release" else bound[name]
    assert set(shown) == {"self", "dataset"} | {option.name for option in fields(ReleaseRequest)} | own


def test_a_request_reads_its_columns_once() -> None:
    request = ReleaseRequest(iter(["age", "sex"]), mu=0.2)  # type: ignore[arg-type]
    assert request.members["features"] == ["age", "sex"]
    assert request.to_json() == b'{"kind":"gram","features":["age","sex"],"price":{"mu":0.2}}'
