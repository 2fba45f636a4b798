"""Every endpoint: anonymous, wrong role, not granted, each problem in its order, success."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from support import Api, BrokenNoise, World, body, make_rows, open_world, problem

from curator_service.app import create_app
from curator_service.identity.policy import Action, Role
from curator_service.privacy.adjacency import Adjacency
from curator_service.settings import Settings

RELEASES = "/v1/datasets/cohort/releases"
QUOTES = "/v1/datasets/cohort/quotes"


def assert_hidden(world: World, method: str, template: str, **options: Any) -> None:
    """Assert that a dataset without a grant and one that does not exist give the same answer."""
    api = world.api()
    answers = [api.request(method, template.format(name=name), **options) for name in ("hidden", "nothing", "é")]
    first, *others = [(a.status_code, re.sub("req_[0-9a-f]{16}", "", a.text), sorted(a.headers)) for a in answers]
    assert others == [first, first]
    for answer in answers:
        problem(answer, "dataset-not-found", 404)
        assert answer.headers["content-length"] == answers[0].headers["content-length"]
    assert "hidden" not in answers[0].text


def v1_routes(app: Any) -> list[APIRoute]:
    """Return the application's own routes under /v1, however they are nested."""
    found, pending = [], list(app.routes)
    while pending:
        route = pending.pop()
        pending += getattr(route, "routes", None) or []
        original = getattr(route, "original_router", None)
        pending += getattr(original, "routes", None) or []
        if isinstance(route, APIRoute) and route.path.startswith("/v1"):
            found.append(route)
    return found


class TestEveryRoute:
    def test_routes_are_those_that_are_documented(self, world: World) -> None:
        paths = {(path, method) for path, item in world.api().app.openapi()["paths"].items() for method in item}
        assert paths == {
            ("/v1/datasets", "get"),
            ("/v1/datasets/{name}", "get"),
            ("/v1/datasets/{name}/budget", "get"),
            ("/v1/datasets/{name}/quotes", "post"),
            ("/v1/datasets/{name}/releases", "get"),
            ("/v1/datasets/{name}/releases", "post"),
            ("/v1/releases/{release_id}", "get"),
            ("/v1/ledger/{population}", "get"),
            ("/healthz", "get"),
            ("/readyz", "get"),
        }

    def test_each_is_closed_to_the_anonymous(self, world: World) -> None:
        api = world.api(None)
        paths = api.app.openapi()["paths"]
        walked = 0
        for path, item in paths.items():
            for method in item:
                if path.startswith("/v1"):
                    walked += 1
                    answer = api.request(method.upper(), re.sub(r"\{.*?\}", "cohort", path), json=body())
                    problem(answer, "authentication-required", 401)
                    assert answer.headers["www-authenticate"] == "Bearer"
        assert walked == 8

    def test_each_came_through_a_door(self, world: World) -> None:
        routes = v1_routes(world.api().app)
        assert len(routes) == 8
        for route in routes:
            assert isinstance(getattr(route.endpoint, "action", None), Action), route.path

    def test_only_health_and_documentation_are_open(self, world: World) -> None:
        api, opened = world.api(None), set()
        for route in api.app.routes:
            path = getattr(route, "path", "")
            if path and not path.startswith("/v1") and api.get(path.replace("{path:path}", "")).status_code == 200:
                opened.add(path)
        assert opened <= {"/healthz", "/readyz", "/docs", "/openapi.json", "/docs/oauth2-redirect"}

    def test_bad_query_parameters_do_not_come_before_authentication(self, world: World) -> None:
        """The order of precedence: 401 and 403 before 422."""
        for url in (f"{RELEASES}?limit=0", "/v1/ledger/town?after=x"):
            problem(world.api(None).get(url), "authentication-required", 401)
        problem(world.api().get("/v1/ledger/town?limit=0"), "permission-denied", 403)
        problem(world.api("audra").get(f"{RELEASES}?limit=0"), "permission-denied", 403)

    def test_a_trailing_slash_is_not_redirected_by_the_caller_s_host_header(self, world: World) -> None:
        answer = world.api().get("/v1/datasets/", headers={"Host": "evil.example"})
        assert "evil.example" not in answer.headers.get("location", "")

    @pytest.mark.parametrize("scheme", ["", "Basic ", "bearer  ", "Bearer\t", "Token "])
    def test_only_a_bearer_token_authenticates(self, world: World, scheme: str) -> None:
        api = world.api(None)
        answer = api.get("/v1/datasets", headers={"Authorization": f"{scheme}{world.tokens['ada']}"})
        problem(answer, "authentication-required", 401)

    def test_the_scheme_is_read_in_any_case(self, world: World) -> None:
        api = world.api(None)
        assert api.get("/v1/datasets", headers={"Authorization": f"bEARER {world.tokens['ada']}"}).status_code == 200

    def test_a_token_in_the_query_or_a_cookie_does_not_authenticate(self, world: World) -> None:
        api, token = world.api(None), world.tokens["ada"]
        problem(api.get(f"/v1/datasets?token={token}&access_token={token}"), "authentication-required", 401)
        answer = api.get("/v1/datasets", headers={"Cookie": f"Authorization=Bearer {token}", "X-Token": token})
        problem(answer, "authentication-required", 401)

    def test_of_two_authorization_headers_no_two_readers_differ(self, world: World) -> None:
        """The first counts, here and everywhere: an anonymous one cannot hide behind a good one."""
        api = world.api(None)
        import httpx

        headers = httpx.Headers([("Authorization", "Bearer x"), ("Authorization", f"Bearer {world.tokens['ada']}")])
        app = api.app

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as client:
                return await client.get("/v1/datasets", headers=headers)

        problem(api.runner.run(send()), "authentication-required", 401)

    def test_a_token_stops_at_its_revocation_and_at_its_expiry(self, world: World) -> None:
        api = world.api()
        assert api.get("/v1/datasets").status_code == 200
        token = world.tokens["ada"].split("_")[1]
        world.curator.identity.revoke_token(token)
        problem(api.get("/v1/datasets"), "authentication-required", 401)
        world.clock.advance(days=90, seconds=-1)
        assert world.api("ben").get("/v1/datasets").status_code == 200
        world.clock.advance(seconds=1)
        problem(world.api("ben").get("/v1/datasets"), "authentication-required", 401)


class TestListDatasets:
    def test_an_analyst_sees_granted_datasets_alone(self, api: Api) -> None:
        assert [d["name"] for d in api.get("/v1/datasets").json()["datasets"]] == ["cohort"]

    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_admins_and_auditors_see_all(self, world: World, who: str) -> None:
        assert [d["name"] for d in world.api(who).get("/v1/datasets").json()["datasets"]] == ["cohort", "hidden"]

    def test_an_analyst_without_grants_sees_none(self, world: World) -> None:
        world.add_token("eve", Role.ANALYST)
        assert world.api("eve").get("/v1/datasets").json() == {"datasets": []}


class TestGetDataset:
    def test_success(self, api: Api) -> None:
        answer = api.get("/v1/datasets/cohort").json()
        assert set(answer) == {
            "name", "description", "population", "adjacency", "row_capacity", "rows", "columns", "kinds", "row_maps",
            "accountant", "mechanisms", "rows_per_person",
        }  # fmt: skip
        columns = {column["name"]: column for column in answer["columns"]}
        assert columns["age"] == {
            "name": "age", "type": "numeric", "unit": "years", "lower": 50.0, "upper": 100.0,
            "missing": "complete", "description": "",
        }  # fmt: skip
        assert columns["alive"]["levels"] == ["false", "true"]
        assert columns["sex"]["levels"] == ["F", "M", "X"]

    def test_the_row_count_is_private_under_add_remove(self, api: Api) -> None:
        answer = api.get("/v1/datasets/cohort")
        assert answer.json()["rows"] is None
        assert re.search(r"\b80\b", answer.text) is None

    def test_the_row_count_is_public_under_replace_one(self, tmp_path: Path) -> None:
        with open_world(tmp_path, adjacency=Adjacency.REPLACE_ONE) as world:
            assert world.api().get("/v1/datasets/cohort").json()["rows"] == 80

    def test_not_granted(self, world: World) -> None:
        assert_hidden(world, "GET", "/v1/datasets/{name}")

    def test_a_grant_that_was_taken_back_counts_at_once(self, world: World) -> None:
        api = world.api()
        dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
        world.curator.identity.remove_grant("ada", dataset.id)
        problem(api.get("/v1/datasets/cohort"), "dataset-not-found", 404)
        assert world.api("ben").get("/v1/datasets/cohort").status_code == 200


class TestGetBudget:
    def test_success(self, world: World) -> None:
        answer = world.api().get("/v1/datasets/cohort/budget").json()
        assert (answer["dataset"], answer["population"], answer["accountant"]) == ("cohort", "town", "gdp")
        assert answer["limit"]["units"] == answer["remaining"]["units"] == str(world.account().limit)
        assert answer["limit"]["epsilon"] == pytest.approx(1.0, rel=1e-8)
        assert answer["posted"]["units"] == answer["pending"]["units"] == "0"
        assert answer["share_spent"] == 0

    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_admins_and_auditors_may_read_it(self, world: World, who: str) -> None:
        assert world.api(who).get("/v1/datasets/hidden/budget").status_code == 200

    def test_not_granted(self, world: World) -> None:
        assert_hidden(world, "GET", "/v1/datasets/{name}/budget")

    def test_an_encoded_slash_is_no_way_around_the_grant(self, world: World) -> None:
        problem(world.api().get("/v1/datasets/hidden%2Fbudget"), "dataset-not-found", 404)
        problem(world.api().get("/v1/datasets/cohort%2F..%2Fhidden"), "not-found", 404)


class TestCreateQuote:
    def test_success(self, world: World) -> None:
        answer = world.api().post(QUOTES, json=body())
        assert answer.status_code == 200
        content = answer.json()
        assert set(content) == {
            "dataset", "kind", "request", "features", "terms", "targets", "noise", "cost", "affordable",
            "pass_over_rows", "stored_release",
        }  # fmt: skip
        assert (content["affordable"], content["pass_over_rows"], content["stored_release"]) == (True, True, None)
        assert 0 < int(content["cost"]["units"]) <= 2_500_000_000

    def test_it_charges_nothing_and_needs_no_key(self, world: World) -> None:
        before = world.account()
        assert world.api().post(QUOTES, json=body()).status_code == 200
        assert (world.account(), world.noise.calls) == (before, 0)

    def test_it_prices_what_the_release_then_charges(self, world: World) -> None:
        api = world.api()
        quoted = api.post(QUOTES, json=body()).json()
        bought = api.post(RELEASES, json=body(), key="k").json()
        for name in ("request", "features", "terms", "targets", "noise", "cost"):
            assert quoted[name] == bought[name]
        assert world.account().posted == int(quoted["cost"]["units"])

    def test_it_tells_of_a_stored_answer_and_of_an_empty_account(self, world: World) -> None:
        api, price = world.api(), {"epsilon": 1.0, "delta": 1e-6}
        bought = api.post(RELEASES, json=body(price=price), key="k").json()
        again = api.post(QUOTES, json=body(price=price)).json()
        assert (again["stored_release"], again["affordable"]) == (bought["id"], False)
        assert api.post(QUOTES, json=body(price=price, fresh=True)).json()["stored_release"] is None

    def test_an_admin_may_quote(self, world: World) -> None:
        assert world.api("root").post("/v1/datasets/hidden/quotes", json=body()).status_code == 200

    def test_wrong_role(self, world: World) -> None:
        denied = problem(world.api("audra").post(QUOTES, json=body()), "permission-denied", 403)
        assert denied["needed_role"] == ["admin", "analyst"]

    def test_not_granted(self, world: World) -> None:
        assert_hidden(world, "POST", "/v1/datasets/{name}/quotes", json=body())


class TestCreateRelease:
    def test_success(self, world: World) -> None:
        answer = world.api().post(RELEASES, json=body(), key="k")
        content = answer.json()
        assert answer.status_code == 201
        assert answer.headers["curator-answer"] == "new"
        assert answer.headers["location"] == f"/v1/releases/{content['id']}"
        assert list(content) == [
            "id", "dataset", "kind", "created_at", "request", "features", "terms", "targets", "statistics", "noise",
            "cost", "receipt",
        ]  # fmt: skip
        assert content["created_at"] == "2026-03-01T12:00:00Z"
        assert content["receipt"]["entry_hash"] == world.account().head

    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_wrong_role(self, world: World, who: str) -> None:
        denied = problem(world.api(who).post(RELEASES, json=body(), key="k"), "permission-denied", 403)
        assert denied["needed_role"] == ["analyst"]

    def test_not_granted(self, world: World) -> None:
        assert_hidden(world, "POST", "/v1/datasets/{name}/releases", json=body(), key="k")

    def test_problems_come_in_their_order(self, world: World) -> None:
        """Start with everything wrong, and mend one thing after the other."""
        api, json_type = world.api(), {"Content-Type": "application/json"}
        nowhere, wrong = "/v1/datasets/nothing/releases", b'{"kind": "gram", "features": []}'
        world.add_token("eve", Role.ANALYST)
        steps: list[tuple[str, int, dict[str, Any]]] = [
            ("authentication-required", 401, {"url": nowhere, "token": None, "content": b"{"}),
            ("permission-denied", 403, {"url": nowhere, "token": world.tokens["audra"], "content": b"{"}),
            ("dataset-not-found", 404, {"url": nowhere, "content": b"{"}),
            ("idempotency-key-missing", 400, {"content": b"{"}),
            ("media-type-unsupported", 415, {"content": b"{", "key": "k"}),
            ("body-malformed", 400, {"content": b"{", "key": "k", "headers": json_type}),
            ("request-invalid", 422, {"content": wrong, "key": "used", "headers": json_type}),
            ("idempotency-key-reused", 422, {"json": body(price={"mu": 0.5}), "key": "used"}),
            ("budget-exceeded", 409, {"json": body(price={"mu": 0.5}), "key": "k"}),
        ]
        assert api.post(RELEASES, json=body(), key="used").status_code == 201
        for slug, status, options in steps:
            problem(api.post(options.pop("url", RELEASES), **options), slug, status)


class TestListReleases:
    def test_success(self, world: World) -> None:
        api = world.api()
        bought = [api.post(RELEASES, json=body(fresh=True), key=f"k{i}").json() for i in range(3)]
        page = api.get(f"{RELEASES}?limit=2").json()
        assert [item["id"] for item in page["releases"]] == [item["id"] for item in bought[:2]]
        assert set(page["releases"][0]) == {"id", "dataset", "kind", "created_at", "request", "cost"}
        rest = api.get(f"{RELEASES}?after={page['next']}&limit=2").json()
        assert [item["id"] for item in rest["releases"]] == [bought[2]["id"]]
        assert rest["next"] is None

    def test_it_lists_what_others_bought_and_nothing_of_other_datasets(self, world: World) -> None:
        twin = world.register("twin", "town", make_rows(30, seed=3))
        world.curator.identity.add_grant("ben", twin)
        world.api("ben").post(RELEASES, json=body(), key="k1")
        world.api("ben").post("/v1/datasets/twin/releases", json=body(), key="k2")
        assert len(world.api().get(RELEASES).json()["releases"]) == 1

    def test_wrong_role(self, world: World) -> None:
        problem(world.api("audra").get(RELEASES), "permission-denied", 403)

    def test_not_granted(self, world: World) -> None:
        assert_hidden(world, "GET", "/v1/datasets/{name}/releases")


class TestGetRelease:
    def test_success_gives_the_same_bytes(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k")
        for who in ("ada", "ben", "root"):
            assert world.api(who).get(bought.headers["location"]).content == bought.content

    def test_a_release_of_a_dataset_without_a_grant_is_not_there(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k")
        world.add_token("eve", Role.ANALYST)
        api = world.api("eve")
        hidden = api.get(bought.headers["location"])
        nothing = api.get("/v1/releases/rel_000000000000000000000000")
        first, second = problem(hidden, "not-found", 404), problem(nothing, "not-found", 404)
        assert {**first, "instance": ""} == {**second, "instance": ""}

    def test_wrong_role(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k")
        problem(world.api("audra").get(bought.headers["location"]), "permission-denied", 403)


class TestLedger:
    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_success(self, world: World, who: str) -> None:
        world.api().post(RELEASES, json=body(), key="k")
        answer = world.api(who).get("/v1/ledger/town").json()
        assert [entry["kind"] for entry in answer["entries"]] == ["open", "dataset", "charge"]
        assert answer["posted"]["units"] == answer["entries"][-1]["units"]
        page = world.api(who).get("/v1/ledger/town?after=1&limit=1").json()
        assert [entry["sequence"] for entry in page["entries"]] == [2]

    def test_it_holds_no_token_no_row_and_no_count(self, world: World) -> None:
        world.api().post(RELEASES, json=body(), key="secret-key")
        text = world.api("audra").get("/v1/ledger/town").text
        assert "secret-key" not in text
        assert world.tokens["ada"].split("_", 2)[2] not in text
        assert '"rows"' not in text
        assert "row_count" not in text

    def test_wrong_role(self, world: World) -> None:
        denied = problem(world.api().get("/v1/ledger/town"), "permission-denied", 403)
        assert denied["needed_role"] == ["admin", "auditor"]
        again = problem(world.api().get("/v1/ledger/nowhere"), "permission-denied", 403)
        assert {**again, "instance": ""} == {**denied, "instance": ""}

    def test_not_found(self, world: World) -> None:
        problem(world.api("audra").get("/v1/ledger/nowhere"), "not-found", 404)


class TestHealth:
    def test_alive_and_ready(self, world: World) -> None:
        api = world.api(None)
        assert api.get("/healthz").json() == {"status": "alive"}
        assert api.get("/readyz").json() == {"status": "ready"}

    def test_not_ready_without_a_schema(self, tmp_path: Path) -> None:
        app = create_app(Settings(data_dir=tmp_path / "empty"))
        api = Api(app)
        try:
            answer = api.get("/readyz")
            assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
            assert api.get("/healthz").status_code == 200
        finally:
            api.close()
            app.state.curator.database.dispose()

    def test_not_ready_when_the_database_does_not_answer(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_arguments: object) -> None:
            raise RuntimeError("host=secret password=secret")

        api = world.api(None)
        monkeypatch.setattr("curator_service.db.Database.revisions", fail)
        answer = api.get("/readyz")
        assert answer.status_code == 503
        assert "secret" not in answer.text


class TestDocumentation:
    def test_it_loads_nothing_from_outside(self, world: World) -> None:
        api = world.api(None)
        page = api.get("/docs")
        assert page.status_code == 200
        assert re.findall(r"""(?:src|href|url)\s*[=:(]\s*["']?(?:https?:)?//[^"' >)]+""", page.text) == []
        assets = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text)
        assert assets
        for asset in assets:
            answer = api.get(asset)
            assert answer.status_code == 200, asset
            assert answer.headers["cache-control"] == "no-store"
        assert api.get("/openapi.json").json()["info"]["title"]
        assert api.get("/redoc").status_code == 404

    def test_its_policy_lets_a_browser_load_only_this_server(self, world: World) -> None:
        policy = world.api(None).get("/docs").headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "http" not in policy


class TestEveryAnswer:
    def test_security_headers_and_ids(self, world: World) -> None:
        api = world.api()
        answers = [
            api.get("/healthz"),
            api.get("/docs"),
            api.get("/v1/datasets"),
            api.get("/v1/nothing"),
            api.get("/v1/datasets", token=None),
            api.post(RELEASES, json=body(), key="k"),
            api.post(RELEASES, content=b" " * 100_000),
            api.request("PUT", "/v1/datasets"),
        ]
        for answer in answers:
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert re.fullmatch("req_[0-9a-f]{16}", answer.headers["x-request-id"])
            assert "etag" not in answer.headers or answer.request.url.path.startswith("/static")
            assert "server" not in answer.headers
        assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)

    def test_the_caller_cannot_choose_the_id(self, world: World) -> None:
        answer = world.api().get("/v1/datasets", headers={"X-Request-ID": "req_chosen"})
        assert answer.headers.get_list("x-request-id") != ["req_chosen"]

    def test_no_text_of_an_exception_leaves(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        marker = "patient-4711-weighs-93.5"
        with open_world(tmp_path, noise=BrokenNoise(marker)) as world:
            before = world.account()
            answer = world.api().post(RELEASES, json=body(), key="k")
            content = problem(answer, "internal-error", 500)
            assert set(content) == {"type", "title", "status", "detail", "instance"}
            assert marker not in answer.text + caplog.text + str(dict(answer.headers))
            assert content["instance"] in caplog.text
            assert world.account() == before

    def test_exact_statistics_and_counts_do_not_show_in_a_repr(self, world: World) -> None:
        dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
        assert "row_count" not in repr(dataset)
        from curator_service.privacy.design import make_design
        from curator_service.privacy.rows import Box

        design = make_design((dataset.manifest.by_name["age"],), (), intercept=True)
        statistics = world.curator.datasets.compute_statistics(dataset, design, Box())
        assert str(int(statistics.xtx[0, 0])) not in repr(statistics)
