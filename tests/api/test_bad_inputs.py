"""Bad inputs of every kind: a problem that names the rule, never a 5xx, and nothing charged, drawn or written."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import Api, World, body, open_world, problem

from curator_service.identity.policy import Role

RELEASES = "/v1/datasets/cohort/releases"
QUOTES = "/v1/datasets/cohort/quotes"
JSON = {"Content-Type": "application/json"}
MALFORMED = ("body-malformed", 400)  # NaN and the infinities among others: JSON has no such numbers


@dataclass
class Case:
    """A bad request, and how it is refused."""

    id: str
    slug: str
    status: int
    content: bytes | Any = None
    headers: dict[str, str] = field(default_factory=dict)
    key: str | None = "a-key"
    token: str = "ada"
    url: str = RELEASES
    quotable: bool = True  # a quote must refuse it in the same words


def invalid(name: str, **changes: Any) -> Case:
    """Return a request whose JSON is sound and whose content is not."""
    text = json.dumps(body(**changes))
    return raw(name, text, *MALFORMED) if re.search(r"NaN|Infinity", text) else raw(name, text)


def raw(name: str, text: str | bytes, slug: str = "request-invalid", status: int = 422) -> Case:
    """Return a body as it stands."""
    return Case(name, slug, status, text.encode() if isinstance(text, str) else text)


def priced(name: str, number: str) -> Case:
    """Return a request with a number as it stands in the place of epsilon."""
    text = json.dumps(body(price={"epsilon": "@", "delta": 1e-6})).replace('"@"', number)
    return raw(name, text, *MALFORMED) if re.search(r"NaN|Infinity", number) else raw(name, text)


def encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def checkpoint(text: str) -> Case:
    """Return a good request that states to have seen a ledger which the curator never signed."""
    headers = {"Curator-Checkpoint": text}
    return Case(f"checkpoint {text[:60]}", "checkpoint-invalid", 400, TEMPLATE.encode(), headers)


SHARES = {"xtx": 0.5, "xty": 0.4, "yty": 0.1}
TEMPLATE = json.dumps(body())
NAN, INFINITY = float("nan"), float("inf")
NUMBERS = [
    "NaN", "Infinity", "-Infinity", "0", "-0.0", "-1", "1e-300", "5e-324", "1e6", "1e400", "1" + "0" * 400, '"1"',
    "true", "null", "[1]",
]  # fmt: skip
# Sound JSON whose content is not: what a field may not be, and what fields may not be together.
BAD: dict[str, list[Any]] = {
    "price": [
        *({"epsilon": 1.0, "delta": delta} for delta in (1, 2.0, 0, -1e-6, 1e-30, "1e-6")),
        *({"epsilon": 1.0, "delta": 1e-6, "mu": 0.1}, {"mu": 0.1, "rho": 0.005}, {"epsilon": 1.0}, {"delta": 1e-6}),
        *({}, None, 1.0, ..., {"mu": 0.1, "nonsense": 1}),
        *({"mu": mu} for mu in (0, -0.1, INFINITY, 1001)),
        *({"mu": mu} for mu in (1e-9, 1e-7)),  # below the account's unit; below the lattice's noise
        *({"rho": rho} for rho in (0.0, -1, NAN, 1e30)),
    ],
    "features": [
        *(["age", "salary"], ["Age"], ["(constant)"], ["sex[M]"], ["age", "kappa"], ["age", "age"], [], ..., None),
        *("age", {"age": 1}, [f"c{i}" for i in range(7000)], ["a" * 10_000], [""], [1]),
        *(["age'; DROP TABLE releases; --"], ["age\x00"], ["\U0001f600"], ["a\u202ege"]),
    ],
    "targets": [["salary"], ["kappa", "kappa"], ["sex"], None],
    "nonsense": [1],
    "box": [1],  # a map's name
    "rows": [
        *({"map": "ball", "nonsense": 1}, {"map": "box", "norm": 1.0}, {"map": "unit", "norm": 1.0}, {"norm": 1.0}),
        *({"map": "sphere"}, {"map": "x" * 10_000}),
        *({"map": "ball", "norm": norm} for norm in (0, -1.0, 1e9, NAN)),
        {"map": "ball", "norm": 1.7321},  # above the longest row, of sqrt(3): constant, age, sex
    ],
    "intercept": [1],
    "fresh": ["true"],
    "statistics": [["xtx"], [], ["xtx", "n"], ["xtx", "xtx", "xty"]],
    "shares": [
        *({"xtx": 0.5, "xty": 0.5}, {**SHARES, "n": 0.1}, {**SHARES, "xtx": 0.6}, {**SHARES, "xtx": NAN}, {}),
        *({"xtx": 1.0, "xty": 0.0, "yty": 0.0}, {"xtx": 1.2, "xty": -0.1, "yty": -0.1}),
        {"xtx": 0.5, "xty": 0.5, "yty": 1e-300},
    ],
    "expected_rows": [0, "100"],
    "kind": ["marginals"],
    "mechanism": ["uniform"],
    "calibration": ["optimal", "nieminen2017", "classical"],  # of Laplace noise; of epsilon and delta, paid in mu
    "project": ["a b", "", 1, "a" * 64],
    "reservation": ["res_0", f"job_{'0' * 24}", f"res_{'0' * 24}\n", 0],
}
BAD_TOGETHER: list[dict[str, Any]] = [
    {"targets": [], "statistics": ["xtx", "xty"]},
    {"rows": {"map": "box"}, "expected_rows": 100},
    {"mechanism": "laplace", "calibration": "classical"},
    {"calibration": "classical", "price": {"epsilon": 3.1, "delta": 1e-6}},
    {"calibration": "wang2018", "price": {"epsilon": 100.0, "delta": 1e-6}},
    {"mechanism": "laplace", "calibration": "nieminen2017", "price": {"epsilon": 0.1}},  # on the ball
    *({"mechanism": "laplace", "price": {"epsilon": epsilon}} for epsilon in (0, 1001.0)),
]
INVALID = {
    "array": "[]",
    "scalar": "1",
    "string": '"gram"',
    "null": "null",
    "empty object": "{}",
    "lone surrogate": TEMPLATE.replace("age", "\\ud800"),
    "surrogates in the wrong order": TEMPLATE.replace("age", "\\udc00\\ud800"),
    "lone surrogate as a field": TEMPLATE[:-1] + ', "\\ud800": 1}',
    "lone surrogate as a field of price": TEMPLATE.replace('"mu": 0.05', '"mu": 0.05, "\\ud800": 1'),
    "lone surrogate as a share": TEMPLATE[:-1] + ', "shares": {"\\ud800": 1.0}}',
    "lone surrogate as a statistic": TEMPLATE[:-1] + ', "statistics": ["\\ud800"]}',
    "lone surrogate as a map": TEMPLATE[:-1] + ', "rows": {"map": "\\ud800"}}',
    "lone surrogate as a field of rows": TEMPLATE[:-1] + ', "rows": {"map": "box", "\\ud800": 1}}',
    "lone surrogate as a kind": TEMPLATE.replace("gram", "\\ud800"),
    "UTF-7 field": TEMPLATE[:-1] + ', "+ADw-": 1}',
}
NOT_JSON: dict[str, str | bytes] = {
    "epsilon 10**5000": TEMPLATE.replace("0.05", "1" + "0" * 5000),
    "price twice": TEMPLATE[:-1] + ', "price": {"mu": 0.01}}',
    "mu twice": TEMPLATE.replace('"mu": 0.05', '"mu": 0.05, "mu": 0.01'),
    "empty body": "",
    "not JSON": "{'kind': 'gram'}",
    "cut JSON": TEMPLATE[:-5],
    "two documents": TEMPLATE + TEMPLATE,
    "comment": TEMPLATE + "// hello",
    "deep": "[" * 60_000,
    "deep and closed": "[" * 30_000 + "]" * 30_000,
    "deep objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "NUL byte in JSON": TEMPLATE.replace("age", "a\x00e"),
    "invalid UTF-8": TEMPLATE.encode().replace(b"age", b"\xff\xfe"),
    "overlong UTF-8": TEMPLATE.encode().replace(b"age", b"\xc0\xaf"),
    "UTF-16": TEMPLATE.encode("utf-16"),
    "UTF-16 without its mark": TEMPLATE.encode("utf-16-le"),
    "UTF-32": TEMPLATE.encode("utf-32"),
}
FORM = "application/x-www-form-urlencoded"
DATASETS = ["nothing", "hidden", "coh%00ort", "cohort%0A", "Cohort", "%25", "a" * 5000, "c%C3%B6hort", "%FF"]
TOKENS = [
    "", "late", "gone", "forged", f"cur_{'0' * 16}_{'x' * 43}", "cur_\x00", "' OR 1=1 --", "cur_" + "0" * 50_000,
]  # fmt: skip

CASES = [
    *(priced(f"epsilon {number[:40]}", number) for number in NUMBERS),
    *(
        invalid(f"{name} {'missing' if value is ... else json.dumps(value)[:60]}", **{name: value})
        for name, values in BAD.items()
        for value in values
    ),
    *(invalid(json.dumps(changes), **changes) for changes in BAD_TOGETHER),
    *(raw(name, text) for name, text in INVALID.items()),
    *(raw(name, text, "body-malformed", 400) for name, text in NOT_JSON.items()),
    Case(
        "reservation of nobody", "reservation-not-found", 404, json.dumps(body(reservation=f"res_{'0' * 24}")).encode()
    ),
    *(
        Case(f"content type {form}", "media-type-unsupported", 415, TEMPLATE.encode(), {"Content-Type": form})
        for form in ("text/plain", FORM, "")
    ),
    *(
        Case(f"key {key!r:.20}", "idempotency-key-missing", 400, TEMPLATE.encode(), key=key, quotable=False)
        for key in (None, "", "k" * 129, "a b", "a.b", "a\x00b", "ab\n")
    ),
    *map(checkpoint, ("%", "%%%", "", "AAAA", "eyJh", "A" * 3000, "Ww" * 2000)),  # no base64, nothing, no JSON
    *(
        checkpoint(encoded(text))
        for text in (b"[" * 3000, b"[]", b"{}", b"null", b'""', b"1", b'{"population": "\\ud800"}')
    ),
    *(
        Case(f"dataset {name[:20]}", "dataset-not-found", 404, TEMPLATE.encode(), url=f"/v1/datasets/{name}/releases")
        for name in DATASETS
    ),
    Case("auditor", "permission-denied", 403, TEMPLATE.encode(), token="audra"),
    Case("admin", "permission-denied", 403, TEMPLATE.encode(), token="root", quotable=False),
    *(Case(f"token {t[:30]!r}", "authentication-required", 401, TEMPLATE.encode(), token=t) for t in TOKENS),
    Case("body of 20 MB", "body-too-large", 413, b" " * 20_000_000),
    Case("body one byte too long", "body-too-large", 413, TEMPLATE.encode().ljust(64 * 1024 + 1)),
]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Api]]:
    """Return one world for every attack: none may change it."""
    with open_world(tmp_path_factory.mktemp("attacked")) as world:
        world.clock.advance(days=-1)
        world.tokens["late"] = world.curator.identity.create_token("ada", Role.ANALYST, days=1).text
        world.clock.advance(days=1)
        gone = world.curator.identity.create_token("ada", Role.ANALYST)
        world.tokens["gone"] = gone.text
        world.curator.identity.revoke_token(gone.id)
        world.tokens["forged"] = world.tokens["ada"][:-4] + "AAAA"
        yield world, world.api()


def written(world: World) -> list[Any]:
    """Return all that a release might write, and how often noise was drawn."""
    tables = (
        "populations", "shares", "reservations", "proposals", "seal", "ledger_entries", "releases", "idempotency_keys",
    )  # fmt: skip
    return [sorted(world.sql(f"SELECT * FROM {table}")) for table in tables] + [world.noise.calls]


def assert_refused(case: Case, answer: Any) -> None:
    """Assert that an answer is the problem that the case names."""
    content = problem(answer, case.slug, case.status)
    assert len(answer.content) < 8000  # what was sent is not sent back at length
    if case.slug == "request-invalid":
        assert content["errors"]
        assert all(set(error) == {"pointer", "detail"} for error in content["errors"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_request_is_refused_and_costs_nothing(attacked: tuple[World, Api], case: Case) -> None:
    world, api = attacked
    before = written(world)
    headers = {**JSON, **case.headers}
    token = world.tokens.get(case.token, case.token) or None
    for url in (case.url, case.url.replace("/releases", "/quotes")) if case.quotable else (case.url,):
        answer = api.post(url, content=case.content, headers=headers, key=case.key, token=token)
        assert_refused(case, answer)
    assert written(world) == before


def test_a_chunked_body_of_20_mb_is_refused_after_the_limit(attacked: tuple[World, Api]) -> None:
    """Its length is not declared: it is counted as it arrives, and no more of it is read."""
    world, api = attacked
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        for _ in range(2000):
            sent += 10_000
            yield b" " * 10_000

    before = written(world)
    answer = api.post(RELEASES, content=chunks(), headers=JSON, key="k")
    assert_refused(Case("", "body-too-large", 413), answer)
    assert sent < 200_000
    assert written(world) == before


@pytest.mark.parametrize(
    ("url", "who"),
    [
        (f"{RELEASES}?limit=0", "ada"),
        (f"{RELEASES}?limit=1001", "ada"),
        (f"{RELEASES}?limit=x", "ada"),
        (f"{RELEASES}?limit=1.5", "ada"),
        (f"{RELEASES}?limit=1{'0' * 400}", "ada"),
        (f"{RELEASES}?after=-1", "ada"),
        (f"{RELEASES}?after=9223372036854775808", "ada"),
        (f"{RELEASES}?after=%00", "ada"),
        ("/v1/ledger/town?limit=0", "audra"),
        ("/v1/ledger/town?after=NaN", "audra"),
    ],
)
def test_a_query_parameter_out_of_range_is_refused(attacked: tuple[World, Api], url: str, who: str) -> None:
    world, api = attacked
    assert_refused(Case("", "request-invalid", 422), api.get(url, token=world.tokens[who]))


def test_the_largest_query_parameters_are_answered(attacked: tuple[World, Api]) -> None:
    world, api = attacked
    assert api.get(f"{RELEASES}?after={2**62}&limit=1000").json() == {"releases": [], "next": None}
    assert api.get(f"/v1/ledger/town?after={2**62}", token=world.tokens["audra"]).json()["entries"] == []


@pytest.mark.parametrize(
    ("url", "who"),
    [
        ("/v1/ledger/nowhere", "audra"),
        ("/v1/ledger/%00", "audra"),
        ("/v1/ledger/a%2Fb", "audra"),
        ("/v1/releases/rel_0", "ada"),
        ("/v1/releases/rel_000000000000000000000000", "ada"),
        ("/v1/releases/rel_000000000000000000000000%0A", "ada"),
        ("/v1/releases/%00", "ada"),
        ("/v1/nothing", "ada"),
        ("/v1", "ada"),
        ("/../etc/passwd", None),
        ("/static-offline-docs/../../etc/passwd", None),
        ("/static-offline-docs/%2e%2e/%2e%2e/__init__.py", None),
        ("/static-offline-docs/..%2f..%2f__init__.py", None),
        ("/metric", None),
    ],
)
def test_what_is_not_there_is_not_found(attacked: tuple[World, Api], url: str, who: str | None) -> None:
    world, api = attacked
    answer = api.get(url, token=None if who is None else world.tokens[who])
    assert_refused(Case("", "not-found", 404), answer)


def test_no_address_with_a_zero_byte_fails_in_the_database(both: World) -> None:
    """PostgreSQL takes no text that has one."""
    both.add_token("olga", *Role)
    olga = both.api("olga")
    for route in {getattr(one, "path", "") for one in olga.app.routes}:
        if "{" in route:
            for method in ("GET", "POST"):
                answer = olga.request(method, re.sub(r"{[^}]*}", "%00", route), json={})
                assert answer.status_code < 500, (method, route)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST", "TRACE", "OPTIONS"])
def test_other_methods_are_not_allowed(attacked: tuple[World, Api], method: str) -> None:
    _, api = attacked
    answer = api.request(method, "/v1/datasets/cohort")
    assert_refused(Case("", "method-not-allowed", 405), answer)
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("/v1/datasets/cohort/releases", "GET, POST"),
        ("/v1/jobs/job_0", "DELETE, GET"),
        ("/v1/datasets/cohort/quotes", "POST"),
        ("/readyz", "GET"),
        ("/docs", "GET"),
        ("/openapi.json", "GET"),
        ("/static-offline-docs/swagger-ui.css", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_allowed_names_all_that_are(attacked: tuple[World, Api], url: str, allowed: str) -> None:
    _, api = attacked
    answer = api.request("PUT", url)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_a_pass_whose_declared_work_is_out_of_proportion_is_refused(world: World) -> None:
    """Resources are bounded before work starts, by public numbers: rows times terms squared, not rows alone."""
    columns: Any = [
        ("code", "categorical", "complete", tuple(f"l{i}" for i in range(990)), None),
        ("y", "numeric", "complete", (0.0, 1.0), None),
    ]
    rows = [{"code": "l1", "y": "0.5"}, {"code": "l2", "y": "0.1"}]
    dataset = world.register("wide", "town", rows, columns=columns, row_capacity=19_000_000)
    world.grant("ada", dataset)
    request = body(features=["code"], targets=["y"], rows={"map": "ball"})
    answer = world.api().post("/v1/datasets/wide/quotes", json=request)
    assert answer.status_code == 422
    assert world.api().post("/v1/datasets/wide/quotes", json={**request, "rows": {"map": "box"}}).status_code == 200


# Values that come close to what a request holds, so that fuzzing gets past the first check.
_numbers = st.one_of(
    st.sampled_from([0, 1, -1, 0.05, 1e-6, 1e-15, 1e-300, 1e300, 2**63, 10**30, 1000, 500_000, 0.999999]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(),
)
_names = st.one_of(
    st.sampled_from(["age", "sex", "kappa", "dose", "region", "treated", "xtx", "xty", "yty", "lambda_min", "x\x00"]),
    st.text(st.characters(), max_size=5),
    st.sampled_from(["\ud800", "a\udfff"]),
)
_anything = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _names),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=3)),
    max_leaves=8,
)
_fields = {
    "kind": st.one_of(st.just("gram"), _anything),
    "features": st.one_of(st.lists(_names, max_size=4), _anything),
    "targets": st.one_of(st.lists(_names, max_size=3), _anything),
    "intercept": st.one_of(st.booleans(), _anything),
    "rows": st.one_of(
        st.fixed_dictionaries({"map": st.sampled_from(["box", "ball", "unit"])}, optional={"norm": _numbers}), _anything
    ),
    "statistics": st.one_of(
        st.lists(st.sampled_from(["xtx", "xty", "yty", "lambda_min"]), max_size=4), st.none(), _anything
    ),
    "price": st.one_of(
        st.fixed_dictionaries({"epsilon": _numbers, "delta": _numbers}),
        st.fixed_dictionaries({"mu": _numbers}),
        st.fixed_dictionaries({"rho": _numbers}),
        _anything,
    ),
    "shares": st.one_of(st.none(), st.dictionaries(_names, _numbers, max_size=4), _anything),
    "fresh": st.one_of(st.booleans(), _anything),
    "project": st.one_of(st.sampled_from(["kidney", "Kidney", ""]), _anything),
    "reservation": st.one_of(st.sampled_from([f"res_{'0' * 24}", "res_0"]), _anything),
    "extra": _anything,
}
_requests = st.one_of(
    st.fixed_dictionaries({}, optional=_fields),
    st.fixed_dictionaries({}, optional=_fields).map(lambda changes: body(**changes)),
    st.builds(
        lambda name, changes: body(**{name: changes.get(name, 1)}),
        st.sampled_from(sorted(_fields)),
        st.fixed_dictionaries(_fields),
    ),
    _anything,
)


@given(request=_requests)
@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_body_leads_to_a_5xx(attacked: tuple[World, Api], request: Any) -> None:
    world, api = attacked
    content = json.dumps(request).encode()
    for url in (QUOTES, RELEASES):
        before = written(world)
        answer = api.post(url, content=content, headers=JSON, key=f"fuzz{abs(hash(content))}")
        assert answer.status_code < 500, (url, content)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert written(world) == before
        elif url == QUOTES:
            assert written(world) == before
        account = world.account()
        assert account.pending == 0
        assert account.posted <= account.limit


_reservations = st.one_of(
    st.fixed_dictionaries(
        {"price": _fields["price"], "expires_in_s": st.one_of(st.integers(59, 10**8), _anything)},
        optional={"project": _fields["project"], "extra": _anything},
    ),
    _anything,
)
_limits = st.one_of(
    st.fixed_dictionaries(
        {"limit": _fields["price"], "reason": st.one_of(st.just("why"), _anything)},
        optional={"extra": _anything},
    ),
    _anything,
)


@given(reservation=_reservations, limit=_limits)
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_reservation_and_no_limit_leads_to_a_5xx_or_breaks_the_chain(
    world: World, reservation: Any, limit: Any
) -> None:
    api = world.apis[0] if world.apis else world.api()
    for url, who, sent in (
        ("/v1/datasets/cohort/reservations", "ada", reservation),
        ("/v1/admin/populations/town/limits", "root", limit),
    ):
        before, content = written(world), json.dumps(sent).encode()
        answer = api.post(url, content=content, headers=JSON, key=f"fuzz{abs(hash(content))}", token=world.tokens[who])
        assert answer.status_code < 500, (url, content)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert written(world) == before
        found = world.curator.ledger.verify("town")
        assert found.ok, (content, found.reason)


@given(content=st.binary(max_size=60))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_bytes_lead_to_a_5xx(attacked: tuple[World, Api], content: bytes) -> None:
    _, api = attacked
    assert api.post(RELEASES, content=content, headers=JSON, key="bytes").status_code in {400, 422}
