"""Requests of the client, and its retries."""

import json
import math
import re
from typing import Any

import httpx
import pytest
from client_examples import (
    AMOUNT,
    COST,
    DATASET,
    QUOTE,
    RELEASE_TEXT,
    TOKEN,
    URL,
    Curator,
    Ledger,
    ask,
    compact,
    problem,
    released,
)

from analyst_client import CuratorClient, CuratorError, RequestInvalidError, TransportError
from analyst_client.errors import ServiceError, ServiceUnavailableError
from analyst_client.http.proxies import find_proxy
from analyst_client.http.retry import LONGEST_RETRY_AFTER_S, delay_before, read_retry_after
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.schema import Column, Offer
from analyst_client.terms import interaction, poly


def answered(members: dict[str, Any]) -> Curator:
    return Curator(httpx.Response(200, content=compact(members)))


def test_every_order_of_the_same_terms_and_factors_is_one_request() -> None:
    columns = [Column.numeric(name, 0, 1) for name in ("sex", "age", "dose")]
    orders = [
        ["age", poly("dose", 2), "sex", interaction("age", "sex"), interaction("dose", "sex")],
        [interaction("sex", "dose"), "sex", interaction("sex", "age"), poly("dose", 2), "age"],
        [poly("dose", 2), interaction("sex", "dose"), interaction("age", "sex"), "age", "sex"],
    ]
    asked = [ReleaseRequest(one, targets=["x", "y"][:: 1 - 2 * (k % 2)], mu=1.0) for k, one in enumerate(orders)]
    arranged = [request.in_one_order(columns) for request in asked]
    assert len({request.to_json() for request in arranged}) == 1
    names = ["sex", "age", poly("dose", 2), interaction("sex", "age"), interaction("sex", "dose")]
    assert arranged[0].to_json() == ReleaseRequest(names, targets=["x", "y"], mu=1.0).to_json()


def test_token_travels_as_a_bearer_token() -> None:
    curator = answered({"datasets": []})
    curator.client().datasets()
    assert curator.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_datasets_are_read() -> None:
    (dataset,) = answered({"datasets": [DATASET]}).client().datasets()
    assert (dataset.name, dataset.rows, dataset.column("sex").levels) == ("flchain", None, ("F", "M"))


def test_dataset_is_asked_by_one_path_segment() -> None:
    curator = answered(DATASET)
    curator.client().dataset("a/b c")
    assert curator.requests[0].url.raw_path == b"/v1/datasets/a%2Fb%20c"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_name_that_is_no_segment_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names nothing"):
        Curator().client().dataset(name)
    with pytest.raises(ValueError, match="names nothing"):
        Curator().client().fetch_release(name)


def test_budget_is_read_in_every_notion() -> None:
    budget = Curator(Ledger().budget).client().budget("flchain")
    assert (budget.limit.units, budget.remaining.epsilon, budget.share_spent) == (56_000_000_000, 1.0, 0.25)
    assert (budget.checkpoint.sequence, budget.checkpoint.limit) == (12, 9_000_000_000_000)


def test_the_highest_limit_is_that_of_the_guarantee_and_older_curators_do_not_state_it() -> None:
    members = json.loads(Ledger().budget.content)
    assert Curator(httpx.Response(200, json=members)).client().budget("flchain").highest_limit is None
    members["highest_limit"] = AMOUNT | {"units": "70000000000"}
    highest = Curator(httpx.Response(200, json=members)).client().budget("flchain").highest_limit
    assert highest.units == 70_000_000_000


def test_epsilon_that_is_too_large_to_be_stated_is_infinite() -> None:
    members = json.loads(Ledger().budget.content)
    amounts = dict.fromkeys(("limit", "posted", "pending", "remaining"), AMOUNT | {"epsilon": None})
    assert answered(members | amounts).client().budget("flchain").limit.epsilon == math.inf


def test_quote_is_read_and_carries_no_key() -> None:
    curator = answered(QUOTE)
    quote = curator.client().quote("flchain", ["age"], target="kappa", mu=0.2, rows="ball")
    assert (quote.cost.mu, quote.noise.xty, quote.affordable, quote.stored_release) == (0.2367, 9.1, True, None)
    assert (quote.duration_s, quote.derivable_from, quote.offers) == (0.0, None, ())
    assert (quote.answer_bytes, quote.answer_bytes_left) == (4621, 1_073_741_824)
    assert curator.keys == [None]


def test_quote_says_what_is_stored_and_when_an_answer_shows() -> None:
    offers = [{"release": "rel_2", "difference": "it also holds the feature sex; its noise is larger"}]
    stored = {"pass_over_rows": True, "duration_s": 2.5, "derivable_from": "rel_1", "offers": offers}
    quote = answered(QUOTE | stored).client().quote("flchain", ["age"], mu=0.2)
    assert (quote.duration_s, quote.derivable_from) == (2.5, "rel_1")
    assert quote.offers == (Offer("rel_2", "it also holds the feature sex; its noise is larger"),)


def test_release_reads_how_the_curator_answered() -> None:
    assert ask(Curator(released(answer="stored")).client()).answer == "stored"


def test_release_can_be_fetched_by_its_id() -> None:
    curator = Curator(released())
    assert curator.client().fetch_release("rel_1").text == RELEASE_TEXT
    assert curator.requests[0].url.path == "/v1/releases/rel_1"


def test_releases_lists_every_page() -> None:
    line = {"id": "rel_1", "dataset": "flchain", "kind": "gram", "created_at": "now", "request": {}, "cost": COST}
    pages = [{"releases": [line], "next": "rel_1"}, {"releases": [line | {"id": "rel_2"}], "next": None}]
    curator = Curator(*(httpx.Response(200, content=compact(page)) for page in pages))
    assert [item.id for item in curator.client().releases("flchain")] == ["rel_1", "rel_2"]
    assert [dict(request.url.params) for request in curator.requests] == [{}, {"after": "rel_1"}]


def test_releases_stops_at_a_page_that_names_itself() -> None:
    page = compact({"releases": [], "next": "rel_1"})
    with pytest.raises(ServiceError, match="names itself"):
        Curator(*(httpx.Response(200, content=page) for _ in range(2))).client().releases("flchain")


def test_only_what_the_caller_set_is_sent() -> None:
    curator = Curator(released())
    ask(curator.client())
    price = {"epsilon": 1.0, "delta": 1e-6}
    assert curator.bodies == [{"kind": "gram", "features": ["age", "sex"], "targets": ["kappa"], "price": price}]


def test_everything_that_the_caller_set_is_sent_and_an_answer_of_other_columns_is_none() -> None:
    curator = Curator(released())
    with pytest.raises(ServiceError, match="other columns than were asked"):
        curator.client().release(
            "flchain",
            ("age",),
            targets=["kappa", "lambda"],
            rho=0.02,
            intercept=False,
            rows="ball",
            norm=2,
            statistics=("xtx", "xty"),
            shares={"xtx": 0.5, "xty": 0.5},
            fresh=True,
        )
    assert curator.bodies[0] == {
        "kind": "gram",
        "features": ["age"],
        "targets": ["kappa", "lambda"],
        "price": {"rho": 0.02},
        "intercept": False,
        "rows": {"map": "ball", "norm": 2.0},
        "statistics": ["xtx", "xty"],
        "shares": {"xtx": 0.5, "xty": 0.5},
        "fresh": True,
    }


@pytest.mark.parametrize(
    ("rows", "norm", "sent"),
    [
        ("box", None, {"map": "box"}),
        (None, 1.5, {"map": "ball", "norm": 1.5}),
        ({"map": "ball", "norm": 1.2}, None, {"map": "ball", "norm": 1.2}),
    ],
)
def test_row_map_is_written_as_on_the_wire(rows: Any, norm: float | None, sent: dict[str, Any]) -> None:
    curator = Curator(released())
    ask(curator.client(), rows=rows, norm=norm)
    assert curator.bodies[0]["rows"] == sent


def test_a_guess_of_the_number_of_rows_is_sent_in_place_of_a_row_map() -> None:
    curator = Curator(released())
    ask(curator.client(), expected_rows=6500)
    assert curator.bodies[0]["expected_rows"] == 6500
    assert "rows" not in curator.bodies[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": None}, "state delta beside epsilon"),
        ({"epsilon": None, "mu": 0.1}, "delta goes with epsilon"),
        ({"epsilon": None, "delta": None}, "state one cost"),
        ({"mu": 0.1}, "state one cost"),
        ({"targets": ["kappa"]}, "target or targets"),
        ({"rows": "box", "norm": 1.0}, "norm goes with"),
        ({"rows": "box", "expected_rows": 100}, "expected_rows chooses"),
        ({"norm": 1.0, "expected_rows": 100}, "expected_rows chooses"),
        ({"statistics": "xtx"}, "statistics must be a list"),
        ({"idempotency_key": "with space"}, "idempotency_key"),
        ({"epsilon": float("nan")}, "finite number"),
    ],
)
def test_contradiction_is_refused_before_anything_is_sent(changes: dict[str, Any], message: str) -> None:
    curator = Curator()
    with pytest.raises(ValueError, match=message):
        ask(curator.client(), **changes)
    assert curator.requests == []


def test_features_given_as_one_string_are_refused() -> None:
    with pytest.raises(ValueError, match="features must be a list"):
        ReleaseRequest("age", target="kappa", mu=0.1)


def test_each_call_makes_a_key_of_its_own() -> None:
    curator = Curator(released(), released(answer="stored"))
    client = curator.client()
    ask(client), ask(client)
    first, second = curator.keys
    assert first != second
    assert all(key and re.fullmatch(r"[A-Za-z0-9_-]{32}", key) for key in (first, second))


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError,
        httpx.ReadTimeout,
        httpx.RemoteProtocolError,
        problem("too-many-requests", 429),
        problem("release-in-progress", 409, retry_after="1"),
        httpx.Response(502, content="bad gateway"),
        httpx.Response(503, content="later"),
        httpx.Response(504, content="<html>"),
    ],
    ids=str,
)
def test_retry_sends_the_same_key_and_body(failure: Any) -> None:
    curator = Curator(failure, released(answer="replayed"))
    assert ask(curator.client()).answer == "replayed"
    assert len(set(curator.keys)) == 1
    assert curator.requests[0].content == curator.requests[1].content


def test_lost_answer_is_fetched_with_the_key_of_the_error() -> None:
    curator = Curator(httpx.ReadTimeout, released(answer="replayed"))
    client = curator.client(max_attempts=1)
    with pytest.raises(TransportError, match="may have been charged") as caught:
        ask(client)
    assert ask(client, idempotency_key=caught.value.idempotency_key).answer == "replayed"
    assert len(set(curator.keys)) == 1


def test_attempts_are_bounded() -> None:
    curator = Curator(*[httpx.ConnectError] * 3)
    with pytest.raises(TransportError, match="after 3 attempt"):
        ask(curator.client(max_attempts=3))
    assert len(curator.waits) == 2


def test_release_still_in_progress_after_all_attempts_keeps_its_key() -> None:
    curator = Curator(*[problem("release-in-progress", 409, retry_after="0")] * 2)
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(curator.client(max_attempts=2), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


@pytest.mark.parametrize(
    "refusal",
    [
        problem("request-invalid", 422),
        problem("budget-exceeded", 409),
        problem("internal-error", 500),
        problem("ledger-unverified", 503),
    ],
    ids=lambda answer: answer.status_code,
)
def test_refusal_is_not_sent_again(refusal: httpx.Response) -> None:
    curator = Curator(refusal)
    with pytest.raises(CuratorError):
        ask(curator.client())
    assert curator.waits == []


def test_reads_are_retried_too() -> None:
    curator = Curator(httpx.ConnectError, httpx.Response(200, content='{"datasets":[]}'))
    assert curator.client().datasets() == ()


def test_redirect_is_not_followed_so_the_token_stays() -> None:
    curator = Curator(httpx.Response(307, headers={"Location": "https://elsewhere.example/"}))
    with pytest.raises(TransportError, match=r"HTTP 307 .*it sends to elsewhere\.example"):
        curator.client().datasets()
    assert len(curator.requests) == 1


def test_delays_grow_within_a_bound() -> None:
    delays = [delay_before(attempt, None) for attempt in range(2, 40)]
    assert delays[0] <= 0.25
    assert max(delays) <= 8.0


def test_retry_after_is_respected_within_a_bound() -> None:
    assert 7.0 <= delay_before(2, 7.0) <= 8.0
    assert delay_before(2, 1e9) <= LONGEST_RETRY_AFTER_S + 1.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("12", 12.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None), ("-5", None), ("", None)],
)
def test_retry_after_is_read_as_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert read_retry_after(httpx.Response(503, headers={"Retry-After": value})) == seconds


@pytest.mark.parametrize("text", ["{]}", "[]", "null", '{"datasets":{}}', '{"datasets":[{}]}', '{"a":1,"a":1}'])
def test_malformed_answer_is_a_service_error(text: str) -> None:
    with pytest.raises(ServiceError, match="malformed answer"):
        Curator(httpx.Response(200, content=text)).client().datasets()


@pytest.mark.parametrize("content", [b"{]}", b"\xff", b'{"id":"rel_1"}'])
def test_malformed_release_keeps_the_key_of_its_charge(content: bytes) -> None:
    with pytest.raises(ServiceError, match="malformed answer") as caught:
        ask(Curator(httpx.Response(201, content=content)).client(), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


def test_token_is_not_in_a_repr() -> None:
    client = Curator().client()
    assert TOKEN not in repr(client) + repr(client._transport) + repr(client._transport._http.headers)


def test_token_is_not_in_the_text_of_an_error() -> None:
    def leak(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"could not send {request.headers['Authorization']}")

    client = CuratorClient(URL, TOKEN, transport=httpx.MockTransport(leak), max_attempts=1)
    with pytest.raises(TransportError) as caught:
        client.datasets()
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "snowman-☃"])
def test_token_that_no_header_can_hold_is_refused_unseen(token: str) -> None:
    with pytest.raises(ValueError, match="the token must be printable") as caught:
        CuratorClient(URL, token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("url", ["http://curator.example", "http://10.0.0.1:80", "http://localhost.example"])
def test_token_in_clear_to_another_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="in clear"):
        CuratorClient(url, TOKEN)


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:1", "https://a.example/p/"])
def test_loopback_and_https_are_accepted(url: str) -> None:
    CuratorClient(url, TOKEN).close()


def test_http_can_be_allowed() -> None:
    CuratorClient("http://curator.example", TOKEN, allow_http=True).close()


@pytest.mark.parametrize(
    "url", ["curator.example", "ftp://a.example", "https://", "https://u:p@a.example", "https://a?b"]
)
def test_address_that_is_not_a_curators_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        CuratorClient(url, TOKEN)


def test_loopback_ignores_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    for address in ("http://127.0.0.1:8000", "https://localhost", "http://[::1]:8000"):
        assert find_proxy(httpx.URL(address)) is None
    assert find_proxy(httpx.URL("https://curator.example")) == "http://proxy.example:3128"
    with CuratorClient("http://127.0.0.1:8000", TOKEN) as client:
        assert client._transport._http._mounts == {}


@pytest.mark.parametrize("excepted", ["[::1]", "[::1],10.0.0.0/8", "http://["])
def test_exceptions_from_the_proxy_are_read_whatever_they_are(monkeypatch: pytest.MonkeyPatch, excepted: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", excepted)
    with CuratorClient("https://curator.invalid", TOKEN, max_attempts=1) as client:
        with pytest.raises(TransportError, match="ConnectError"):
            client.datasets()
        monkeypatch.setenv("HTTPS_PROXY", "http://[::1")
        with pytest.raises(TransportError, match="HTTPS_PROXY is not the address of an HTTP proxy"):
            client.datasets()


def test_path_of_the_address_is_kept() -> None:
    curator = Curator(httpx.Response(200, content='{"datasets":[]}'))
    CuratorClient(URL + "/hospital/", TOKEN, transport=httpx.MockTransport(curator)).datasets()
    assert curator.requests[0].url.path == "/hospital/v1/datasets"


def test_client_is_closed_at_the_end_of_its_block() -> None:
    with Curator().client() as client:
        pass
    assert client._transport._http.is_closed


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"timeout_s": 0.0}])
def test_limits_must_be_positive(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_attempts"):
        CuratorClient(URL, TOKEN, **options)


def test_request_that_no_curator_could_read_is_named() -> None:
    errors = [{"pointer": "/price/epsilon", "detail": "must be positive"}]
    with pytest.raises(RequestInvalidError, match="/price/epsilon: must be positive"):
        ask(Curator(problem("request-invalid", 422, errors=errors)).client())
