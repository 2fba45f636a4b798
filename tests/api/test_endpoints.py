"""Every endpoint: anonymous, wrong role, not granted, each problem in its order, success."""

import asyncio
import base64
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from support import ADMIN, Api, BrokenNoise, World, body, make_rows, open_world, problem

from curator_service.app import create_app
from curator_service.identity.policy import Role
from curator_service.ledger.chain.entries import SignedCheckpoint, canonical
from curator_service.ledger.chain.signing import key_id_of, verifies
from curator_service.privacy.adjacency import Adjacency
from curator_service.readiness import Readiness
from curator_service.settings import Settings

OPEN = {("get", "/v1/sign-in"), ("get", "/v1/surveys/{survey}"), ("post", "/v1/surveys/{survey}/reports")}
"""What anybody may ask under /v1."""
RELEASES = "/v1/datasets/cohort/releases"
QUOTES = "/v1/datasets/cohort/quotes"
ASYNC = {"Prefer": "respond-async"}


def is_signed(world: World, payload: dict[str, Any]) -> bool:
    """Return whether a checkpoint, a receipt or an entry is signed by a key that the curator shows."""
    keys = {key["key_id"]: key["public_key"] for key in world.api().get("/v1/keys").json()["keys"]}
    names = ("entry_hash", "epoch", "key_id", "limit", "pending", "population", "posted", "sequence")
    message = b"curator-checkpoint:1\n" + canonical({name: payload[name] for name in names}).encode()
    return verifies(keys[payload["key_id"]], payload["signature"], message)


def api_quote(world: World, **changes: Any) -> dict[str, Any]:
    """Return ada's quote of a request."""
    answer = world.api().post(QUOTES, json=body(**changes))
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


class TestEveryRoute:
    def test_the_document_asks_for_a_token_wherever_one_is_needed_and_nowhere_else(self, world: World) -> None:
        api = world.api(None)
        document = api.app.openapi()
        assert document["security"] == [{"token": []}]
        for path, item in document["paths"].items():
            for method, operation in item.items():
                is_closed = path.startswith("/v1") and (method, path) not in OPEN
                assert operation.get("security") == (None if is_closed else []), path

    def test_only_health_and_documentation_are_open(self, world: World) -> None:
        api, opened = world.api(None), set()
        for route in api.app.routes:
            path = getattr(route, "path", "")
            if path and not path.startswith("/v1") and api.get(path.replace("{path:path}", "")).status_code == 200:
                opened.add(path)
        assert opened <= {"/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/docs/oauth2-redirect"}

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
            "accountant", "mechanisms", "rows_per_person", "version", "snapshot", "since", "until",
            "ended", "successor",
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

    def test_a_grant_that_was_taken_back_counts_at_once(self, world: World) -> None:
        api = world.api()
        dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
        world.end_grant("ada", dataset.id)
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

    def test_it_has_the_signed_checkpoint_of_the_chain_s_head(self, world: World) -> None:
        assert world.api().post(RELEASES, json=body(), key="k").status_code == 201
        checkpoint, account = world.api().get("/v1/datasets/cohort/budget").json()["checkpoint"], world.account()
        assert checkpoint == SignedCheckpoint.read(checkpoint).payload
        assert (checkpoint["sequence"], checkpoint["entry_hash"]) == (account.sequence, account.head)
        assert (checkpoint["posted"], checkpoint["pending"]) == (str(account.posted), "0")
        assert is_signed(world, checkpoint)
        assert not is_signed(world, checkpoint | {"posted": "0"})

    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_admins_and_auditors_may_read_it(self, world: World, who: str) -> None:
        assert world.api(who).get("/v1/datasets/hidden/budget").status_code == 200

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
            "pass_over_rows", "duration_s", "answer_bytes", "answer_bytes_left", "stored_release", "derivable_from",
            "offers",
        }  # fmt: skip
        assert (content["affordable"], content["pass_over_rows"], content["stored_release"]) == (True, True, None)
        assert (content["derivable_from"], content["offers"]) == (None, [])
        assert 0 < content["duration_s"] < 0.1
        assert api_quote(world, rows={"map": "box"})["duration_s"] == 0
        assert 0 < int(content["cost"]["units"]) <= 2_500_000_000

    def test_a_request_that_was_prepared_before_means_what_it_says(self, world: World) -> None:
        """What is kept of it is one caller's, of one text and of one dataset as it was registered."""
        first = world.api().post(QUOTES, json=body())
        assert world.api().post(QUOTES, json=body()).content == first.content
        other = world.api().post(QUOTES, json=body(features=["age"]))
        assert other.json()["request"]["features"] == ["age"]
        sent = {"content": first.request.content, "headers": {"Content-Type": "text/plain"}}
        problem(world.api().post(QUOTES, **sent), "media-type-unsupported", 415)
        narrow_id = world.register("narrow", "valley", make_rows(40, seed=8), row_capacity=500)
        world.grant("ada", narrow_id)
        narrow = world.api().post("/v1/datasets/narrow/quotes", json=body())
        assert (narrow.json()["dataset"], first.json()["dataset"]) == ("narrow", "cohort")

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
        assert list(content["receipt"])[-2:] == ["entry_hash", "signature"]
        assert is_signed(world, content["receipt"])

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
        world.grant("ben", twin)
        world.api("ben").post(RELEASES, json=body(), key="k1")
        world.api("ben").post("/v1/datasets/twin/releases", json=body(), key="k2")
        assert len(world.api().get(RELEASES).json()["releases"]) == 1


class TestGetRelease:
    def test_success_gives_the_same_bytes(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k")
        for who in ("ada", "ben", "root"):
            assert world.api(who).get(bought.headers["location"]).content == bought.content

    def test_what_the_caller_has_is_not_sent_again(self, world: World) -> None:
        address = world.api().post(RELEASES, json=body(), key="k").headers["location"]
        other = world.api().post(RELEASES, json=body(fresh=True), key="l").headers["location"]
        sent = world.api("ben").get(address)
        etag = sent.headers["etag"]
        assert sent.headers["cache-control"] == "private, no-cache"
        assert etag != world.api().get(other).headers["etag"]
        for held in (etag, f"W/{etag}", f'"another", {etag}', "*"):
            unchanged = world.api().get(address, headers={"If-None-Match": held})
            assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", etag)
            assert unchanged.headers["cache-control"] == "private, no-cache"
        for held in ('"another"', etag.strip('"'), "", etag[:-3] + '"'):
            again = world.api().get(address, headers={"If-None-Match": held})
            assert (again.status_code, again.content) == (200, sent.content)

    def test_who_has_it_is_asked_first_whether_he_may(self, world: World) -> None:
        address = world.api().post(RELEASES, json=body(), key="k").headers["location"]
        held = {"If-None-Match": world.api().get(address).headers["etag"]}
        world.add_token("eve", Role.ANALYST)
        problem(world.api("eve").get(address, headers=held), "not-found", 404)
        problem(world.api("audra").get(address, headers=held), "permission-denied", 403)
        problem(world.api(None).get(address, headers=held), "authentication-required", 401)

    def test_one_that_was_changed_at_rest_is_not_what_anybody_has(self, world: World) -> None:
        address = world.api().post(RELEASES, json=body(), key="k").headers["location"]
        held = {"If-None-Match": world.api().get(address).headers["etag"]}
        world.sql("DROP TRIGGER releases_no_update", "UPDATE releases SET answer = replace(answer, '\"id\"', '\"ID\"')")
        problem(world.api().get(address, headers=held), "ledger-unverified", 503)

    def test_a_release_of_a_dataset_without_a_grant_is_not_there(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k")
        world.add_token("eve", Role.ANALYST)
        api = world.api("eve")
        hidden = api.get(bought.headers["location"])
        nothing = api.get("/v1/releases/rel_000000000000000000000000")
        first, second = problem(hidden, "not-found", 404), problem(nothing, "not-found", 404)
        assert {**first, "instance": ""} == {**second, "instance": ""}


class TestLedger:
    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_success(self, world: World, who: str) -> None:
        world.api().post(RELEASES, json=body(), key="k")
        answer = world.api(who).get("/v1/ledger/town").json()
        assert [entry["kind"] for entry in answer["entries"]] == [
            "open",
            "dataset",
            *["permit"] * 2,
            "reserve",
            "charge",
        ]
        assert answer["posted"]["units"] == answer["entries"][-1]["units"]
        assert all(is_signed(world, entry) for entry in answer["entries"])
        page = world.api(who).get("/v1/ledger/town?after=1&limit=1").json()
        assert [entry["sequence"] for entry in page["entries"]] == [2]

    def test_it_holds_no_token_no_row_and_no_count(self, world: World) -> None:
        world.api().post(RELEASES, json=body(), key="secret-key")
        text = world.api("audra").get("/v1/ledger/town").text
        assert "secret-key" not in text
        assert world.tokens["ada"].split("_", 2)[2] not in text
        assert '"rows"' not in text
        assert "row_count" not in text

    def test_not_found(self, world: World) -> None:
        problem(world.api("audra").get("/v1/ledger/nowhere"), "not-found", 404)


class TestCheckpoint:
    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_success(self, world: World, who: str) -> None:
        checkpoint = world.api(who).get("/v1/ledger/town/checkpoint").json()["checkpoint"]
        assert (checkpoint["population"], checkpoint["entry_hash"]) == ("town", world.account().head)
        assert is_signed(world, checkpoint)

    def test_not_found(self, world: World) -> None:
        for name in ("nowhere", "%00", "a%2Fb"):
            problem(world.api("audra").get(f"/v1/ledger/{name}/checkpoint"), "not-found", 404)


class TestKeys:
    @pytest.mark.parametrize("who", ["ada", "root", "audra"])
    def test_success(self, world: World, who: str) -> None:
        answer = world.api(who).get("/v1/keys").json()
        (key,) = answer["keys"]
        assert set(key) == {"key_id", "public_key", "created_at", "previous", "endorsement"}
        assert (key["previous"], key["endorsement"], answer["active"]) == (None, None, key["key_id"])
        assert key_id_of(base64.b64decode(key["public_key"])) == key["key_id"]

    def test_a_new_key_is_endorsed_by_the_one_before(self, world: World) -> None:
        bought = world.api().post(RELEASES, json=body(), key="k").json()
        world.curator.keys.rotate("2026-03-02T00:00:00Z")
        first, second = world.api().get("/v1/keys").json()["keys"]
        assert (bought["receipt"]["key_id"], second["previous"]) == (first["key_id"], first["key_id"])
        message = canonical({name: second[name] for name in ("created_at", "key_id", "previous", "public_key")})
        assert verifies(first["public_key"], second["endorsement"], b"curator-key:1\n" + message.encode())
        again = world.api().post(RELEASES, json=body(fresh=True), key="k2").json()
        assert again["receipt"]["key_id"] == world.api().get("/v1/keys").json()["active"] == second["key_id"]
        assert world.curator.ledger.verify("town").ok


class TestJobs:
    @pytest.mark.parametrize("prefer", ["respond-async", "return=minimal, respond-async; wait=10"])
    def test_only_a_pass_is_a_job_also_where_one_is_preferred(self, world: World, prefer: str) -> None:
        api, headers = world.api(), {"Prefer": prefer}
        assert api.post(RELEASES, json=body(rows={"map": "box"}), key="k1", headers=headers).status_code == 201
        assert api.post(RELEASES, json=body(), key="k2", headers=headers).status_code == 202
        assert api.post(RELEASES, json=body(), key="k3", headers={"Prefer": "respond-asyncs"}).status_code != 202

    def test_a_job_of_a_dataset_without_a_grant_is_not_there(self, world: World) -> None:
        job = world.api().post(RELEASES, json=body(), key="k", headers=ASYNC).headers["location"]
        world.add_token("eve", Role.ANALYST)
        for method in ("GET", "DELETE"):
            hidden = problem(world.api("eve").request(method, job), "not-found", 404)
            for name in ("job_" + "0" * 24, "job_0", "res_" + "0" * 24, "%00", "x", "job_", "job_" + "0" * 23 + "g"):
                nothing = problem(world.api("eve").request(method, f"/v1/jobs/{name}"), "not-found", 404)
                assert {**hidden, "instance": ""} == {**nothing, "instance": ""}


RESERVATION = {"price": {"mu": 0.1}, "expires_in_s": 3600}
RESERVATIONS = "/v1/datasets/cohort/reservations"


class TestReservations:
    def test_success(self, world: World) -> None:
        api = world.api()
        answer = api.post(RESERVATIONS, json=RESERVATION, key="k")
        content = answer.json()
        assert answer.status_code == 201, answer.text
        assert list(content) == [
            "id", "dataset", "population", "state", "reserved", "drawn", "remaining", "created_at", "expires_at",
            "project", "receipt",
        ]  # fmt: skip
        assert (content["state"], content["project"], content["drawn"]["units"]) == ("open", None, "0")
        assert (content["created_at"], content["expires_at"]) == ("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
        assert (content["receipt"]["kind"], content["receipt"]["reservation"]) == ("reserve", content["id"])
        assert is_signed(world, content["receipt"])
        account = world.account()
        assert (account.posted, account.pending) == (0, int(content["reserved"]["units"]))
        assert api.post(RESERVATIONS, json=RESERVATION, key="k").content == answer.content
        assert api.get(f"/v1/reservations/{content['id']}").content == answer.content
        closed = api.request("DELETE", f"/v1/reservations/{content['id']}")
        assert (closed.status_code, closed.json()["state"]) == (200, "closed")
        assert world.account().pending == 0
        problem(api.request("DELETE", f"/v1/reservations/{content['id']}"), "reservation-ended", 409)

    @pytest.mark.parametrize(
        "change",
        [
            {"price": {}},
            {"price": {"mu": 1e-9}},
            {"expires_in_s": 59},
            {"expires_in_s": 31_536_001},
            {"expires_in_s": 60.5},
            {"project": "A b"},
            {"x": 1},
        ],
        ids=str,
    )
    def test_what_is_not_valid_is_refused(self, world: World, change: dict[str, Any]) -> None:
        before = world.entries()
        problem(world.api().post(RESERVATIONS, json={**RESERVATION, **change}, key="k"), "request-invalid", 422)
        assert world.entries() == before

    def test_problems_of_keys_and_budget(self, world: World) -> None:
        api = world.api()
        problem(api.post(RESERVATIONS, json=RESERVATION), "idempotency-key-missing", 400)
        assert api.post(RESERVATIONS, json=RESERVATION, key="k").status_code == 201
        problem(
            api.post(RESERVATIONS, json={**RESERVATION, "expires_in_s": 60}, key="k"), "idempotency-key-reused", 422
        )
        problem(api.post(RELEASES, json=body(), key="k"), "idempotency-key-reused", 422)
        before = world.entries()
        problem(api.post(RESERVATIONS, json={**RESERVATION, "price": {"mu": 0.5}}, key="k2"), "budget-exceeded", 409)
        assert world.entries() == before
        assert api.post(RELEASES, json=body(), key="k2").status_code == 201


LIMITS = "/v1/admin/populations/town/limits"
LOWER, HIGHER = ({"limit": {"epsilon": epsilon, "delta": 1e-6}, "reason": "a new plan"} for epsilon in (0.5, 2.0))


class TestLimits:
    def test_a_lower_one_holds_at_once(self, world: World) -> None:
        answer = world.api("root").post(LIMITS, json=LOWER)
        assert (answer.status_code, answer.json()["state"]) == (200, "applied")
        assert world.account().limit == int(answer.json()["limit_units"])
        entry = world.entries()[-1]
        assert (entry["kind"], entry["limit"], entry["reason"]) == ("limit", str(world.account().limit), "a new plan")
        problem(world.api().post(RELEASES, json=body(price={"mu": 0.2}), key="k"), "budget-exceeded", 409)
        assert world.curator.ledger.verify("town").ok

    def test_a_higher_one_needs_a_second_admin(self, world: World) -> None:
        world.add_token("ruth", *ADMIN)
        before, root = world.account(), world.api("root")
        answer = root.post(LIMITS, json=HIGHER)
        proposal = answer.json()
        assert (answer.status_code, proposal["state"], proposal["decided_by"]) == (202, "open", None)
        assert world.account() == before
        assert root.get("/v1/admin/proposals").json() == {"proposals": [proposal]}
        decide = f"/v1/admin/proposals/{proposal['id']}"
        problem(root.post(f"{decide}/approve"), "second-admin-needed", 403)
        assert world.account() == before
        approved = world.api("ruth").post(f"{decide}/approve")
        assert (approved.status_code, approved.json()["state"]) == (200, "approved")
        assert world.account().limit == int(proposal["limit_units"]) > before.limit
        entry = world.entries()[-1]
        assert (entry["kind"], entry["actor"] == entry["approved_by"]) == ("limit", False)
        assert world.api("ruth").post(f"{decide}/approve").json() == approved.json()  # where the answer was lost
        problem(world.api("ruth").post(f"{decide}/approve", json={"reason": "x"}), "proposal-decided", 409)
        assert len([one for one in world.entries() if one["kind"] == "limit"]) == 1
        assert world.curator.ledger.verify("town").ok

    def test_a_proposal_may_be_taken_back(self, world: World) -> None:
        before, root = world.account(), world.api("root")
        decide = f"/v1/admin/proposals/{root.post(LIMITS, json=HIGHER).json()['id']}"
        assert root.post(f"{decide}/reject").json()["state"] == "withdrawn"
        world.add_token("ruth", *ADMIN)
        problem(world.api("ruth").post(f"{decide}/approve"), "proposal-decided", 409)
        assert world.account() == before

    @pytest.mark.parametrize(
        "change",
        [
            {"limit": {"epsilon": 1.0}},
            {"limit": {}},
            {"reason": ""},
            {"reason": "two\nlines"},
            {"scope": "analyst", "label": "ada"},
        ],
        ids=str,
    )
    def test_what_is_not_valid_is_refused(self, world: World, change: dict[str, Any]) -> None:
        before = world.account()
        problem(world.api("root").post(LIMITS, json=LOWER | change), "request-invalid", 422)
        assert world.account() == before

    def test_not_found(self, world: World) -> None:
        root = world.api("root")
        problem(root.post("/v1/admin/populations/nowhere/limits", json=LOWER), "not-found", 404)
        for name in ("prp_000000000000000000000000", "prp_0", "%00"):
            for act in ("approve", "reject"):
                problem(root.post(f"/v1/admin/proposals/{name}/{act}"), "not-found", 404)


DATASET = "/v1/datasets/{name}"
HIDDEN: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", DATASET, {}),
    ("GET", f"{DATASET}/budget", {}),
    ("POST", f"{DATASET}/quotes", {"json": body()}),
    ("POST", f"{DATASET}/releases", {"json": body(), "key": "k"}),
    ("GET", f"{DATASET}/releases", {}),
    ("POST", f"{DATASET}/reservations", {"json": RESERVATION, "key": "k"}),
]


@pytest.mark.parametrize(("method", "template", "options"), HIDDEN)
def test_without_a_grant_a_dataset_looks_like_one_that_does_not_exist(
    world: World, method: str, template: str, options: dict[str, Any]
) -> None:
    api = world.api()
    answers = [api.request(method, template.format(name=name), **options) for name in ("hidden", "nothing", "é")]
    first, *others = [(a.status_code, re.sub("req_[0-9a-f]{16}", "", a.text), sorted(a.headers)) for a in answers]
    assert others == [first, first]
    for answer in answers:
        problem(answer, "dataset-not-found", 404)
        assert answer.headers["content-length"] == answers[0].headers["content-length"]
    assert "hidden" not in answers[0].text


ANALYST, STEWARD, OFFICER, AUDITOR, OPERATOR = (role.value for role in Role)
WRONG_ROLES: list[tuple[str, str, str, list[str]]] = [
    ("audra", "POST", QUOTES, [ANALYST, STEWARD, OFFICER]),
    *((who, "POST", RELEASES, [ANALYST]) for who in ("root", "audra")),
    *((who, "POST", RESERVATIONS, [ANALYST]) for who in ("root", "audra")),
    *(("audra", "GET", url, [ANALYST, OFFICER]) for url in (RELEASES, "{release}")),
    *(("audra", "GET", url, [ANALYST, OFFICER, OPERATOR]) for url in ("{job}", "{reservation}")),
    ("audra", "DELETE", "{reservation}", [ANALYST, OFFICER, OPERATOR]),
    *(("ada", "GET", f"/v1/ledger/{name}", [OFFICER, AUDITOR]) for name in ("town", "nowhere", "town/checkpoint")),
    ("ada", "GET", "/v1/admin/seal", [OFFICER, AUDITOR]),
    *((who, "POST", LIMITS, [OFFICER]) for who in ("ada", "audra")),
    ("ada", "GET", "/v1/admin/proposals", [OFFICER, AUDITOR]),
    ("ada", "GET", "{proposal}", [OFFICER, AUDITOR]),
    *((who, "POST", f"{{proposal}}/{act}", [OFFICER]) for who in ("ada", "audra") for act in ("approve", "reject")),
]


def test_a_wrong_role_is_told_which_one_is_needed(world: World) -> None:
    ada = world.api()
    known = {
        "release": ada.post(RELEASES, json=body(), key="k").headers["location"],
        "job": ada.post(RELEASES, json=body(fresh=True), key="j", headers=ASYNC).headers["location"],
        "reservation": f"/v1/reservations/{ada.post(RESERVATIONS, json=RESERVATION, key='reservation').json()['id']}",
        "proposal": f"/v1/admin/proposals/{world.api('root').post(LIMITS, json=HIGHER).json()['id']}",
    }
    told = {}
    for who, method, url, needed in WRONG_ROLES:
        content = LOWER if "admin" in url or url == LIMITS else RESERVATION if url == RESERVATIONS else body()
        answer = world.api(who).request(method, url.format(**known), json=content, key="wrong")
        denied = problem(answer, "permission-denied", 403)
        assert denied["needed_role"] == needed, (who, method, url)
        told[url] = denied | {"instance": ""}
    assert told["/v1/ledger/town"] == told["/v1/ledger/nowhere"]
    assert world.api("root").get(known["job"]).status_code == 200


class TestSealed:
    @pytest.mark.parametrize("who", ["root", "audra"])
    def test_admins_and_auditors_read_why(self, world: World, who: str) -> None:
        assert world.api(who).get("/v1/admin/seal").json() == {"sealed": False, "reason": "", "since": None}
        world.curator.ledger.guard.seal("a reason")
        world.curator.ledger.guard.seal("another one")  # the first stays
        sealed = {"sealed": True, "reason": "a reason", "since": "2026-03-01T12:00:00Z"}
        assert world.api(who).get("/v1/admin/seal").json() == sealed


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

    def test_those_who_ask_at_once_share_a_look_that_began_after_they_asked(self, world: World) -> None:
        readiness, looks = Readiness(world.curator, world.settings.data_dir), []
        look, began, goes_on = readiness._look, threading.Event(), threading.Event()

        def slow_look() -> str:
            looks.append(None)
            began.set()
            assert goes_on.wait(20)
            return look()

        async def ask() -> list[str]:
            first = asyncio.create_task(readiness.status())
            await asyncio.to_thread(began.wait, 20)
            others = [asyncio.create_task(readiness.status()) for _ in range(1000)]
            await asyncio.sleep(0)
            world.curator.ledger.guard.seal("while the first one looks")
            goes_on.set()
            return [await first, *[await other for other in others]]

        readiness._looks._look = slow_look
        statuses = asyncio.run(ask())
        readiness.close()
        assert set(statuses[1:]) == {"sealed"}
        assert len(looks) == 2

    def test_a_look_that_does_not_end_is_an_answer_too(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("curator_service.readiness.ANSWER_S", 0.01)
        readiness, goes_on = Readiness(world.curator, world.settings.data_dir), threading.Event()
        readiness._looks._look = lambda: str(goes_on.wait(20))

        async def ask() -> str:
            status = await readiness.status()
            goes_on.set()
            return status

        assert asyncio.run(ask()) == "not ready"
        readiness.close()

    def test_a_write_that_failed_on_a_disk_shows_for_a_while(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api, curator = world.api(None), world.apps[-1].state.curator
        full, busy = sqlite3.OperationalError("full"), sqlite3.OperationalError("locked")
        full.sqlite_errorcode, busy.sqlite_errorcode = sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY
        for error, status in ((busy, "ready"), (full, "not ready")):
            with pytest.raises(sqlite3.OperationalError), curator.database.begin():
                raise error
            assert api.get("/readyz").json() == {"status": status}
        monkeypatch.setattr("curator_service.readiness.FAILURE_SHOWN_S", 0.0)
        assert api.get("/readyz").json() == {"status": "ready"}

    def test_an_anchor_that_cannot_be_written_shows_for_a_while(self, world: World) -> None:
        api, anchor = world.api(), world.apps[-1].state.curator.ledger.guard.anchor
        anchor.path.unlink()
        anchor.path.mkdir()  # whoever runs the tests may write anywhere else
        assert api.get("/readyz").json() == {"status": "ready"}
        problem(api.post(RELEASES, json=body(rows={"map": "box"}), key="k"), "busy", 503)
        assert api.get("/readyz").json() == {"status": "not ready"}

    def test_not_ready_when_the_database_does_not_answer(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_arguments: object) -> None:
            raise RuntimeError("host=secret password=secret")

        api = world.api(None)
        monkeypatch.setattr("curator_service.kit.db.Database.revisions", fail)
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

    @pytest.mark.parametrize("rows", ["box", "ball"])
    def test_no_text_of_an_exception_leaves(self, tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: str) -> None:
        marker = "patient-4711-weighs-93.5"
        with open_world(tmp_path, noise=BrokenNoise(marker)) as world:
            before = world.account()
            answer = world.api().post(RELEASES, json=body(rows={"map": rows}), key="k")
            content = problem(answer, "internal-error", 500)
            assert set(content) == {"type", "title", "status", "detail", "instance"}
            assert marker not in answer.text + caplog.text + str(dict(answer.headers))
            assert content["instance"] in caplog.text
            after = world.account()
            assert (after.posted, after.pending) == (before.posted, before.pending) == (0, 0)
            assert after == before or rows == "ball"

    def test_exact_statistics_and_counts_do_not_show_in_a_repr(self, world: World) -> None:
        dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
        assert "row_count" not in repr(dataset)
        from curator_service.kinds.gram.kernel import GramKernel
        from curator_service.privacy.design import make_design
        from curator_service.privacy.row_maps import Box

        design = make_design((dataset.manifest.by_name["age"],), (), intercept=True)
        sums = world.curator.datasets.sum_rows(dataset, GramKernel(design, Box()))
        assert str(int(sums.values[0, 0])) not in repr(sums)
