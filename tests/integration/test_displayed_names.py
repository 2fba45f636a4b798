"""Displayed names: who sets and erases them, what a changed row is shown as, and what is left of an erased one."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from issuers import ISSUER, Documents, T, claims, providers, sign
from support import Api, World, open_world, problem
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.entries.base import REGISTER
from curator_service.identity.attestation import NAMINGS_PER_DAY_MAX
from curator_service.identity.people import UNSHOWN, Person
from curator_service.identity.policy import Role
from curator_service.identity.repository import PersonName, StoredName, find_name
from curator_service.kit.clock import timestamp

ADA, EMAIL = "Ada Lovelace", "ada@hospital.example"
OWN = "/v1/principals/ada/display-name"
DAY_S = 24 * 3600


def acts(world: World) -> list[dict[str, Any]]:
    return world.curator.register.list_entries(after=0, count=1000)


def id_of(world: World, name: str = "ada") -> str:
    ((found,),) = world.sql(f"SELECT id FROM principals WHERE name = '{name}'")
    return str(found)


def person(world: World, name: str = "ada") -> Person:
    return world.curator.identity.people.look().named(name)


def call(world: World, api: Api, name: str = ADA, *, who: str = "ada", of: str = "ada", email: str = EMAIL) -> Any:
    sent = {"display_name": name, "email": email}
    return api.post(f"/v1/principals/{of}/display-name", json=sent, token=world.tokens[who])


def erase(world: World, api: Api, *, who: str = "ada", of: str = "ada") -> Any:
    return api.post(f"/v1/principals/{of}/display-name/erase", json={}, token=world.tokens[who])


@pytest.fixture
def place(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    with open_world(tmp_path, url=database_url) as world:
        for who, role in {"opal": Role.OPERATOR, "olga": Role.PRIVACY_OFFICER, "stella": Role.STEWARD}.items():
            world.add_token(who, role)
        yield world


class TestNaming:
    def test_a_name_stands_in_one_row_and_its_digest_in_the_register(self, place: World) -> None:
        api, before = place.api(None), len(acts(place))
        found = call(place, api).json()
        assert (found["name"], found["shown_name"], found["email"]) == ("ada", ADA, EMAIL)
        ((stored_id, name, email, key),) = place.sql("SELECT principal_id, name, email, key FROM person_names")
        (act,) = acts(place)[before:]
        assert act["kind"] == "person-name"
        assert act["principal"] == act["actor"] == stored_id == id_of(place)
        assert act["commitment"] == StoredName(PersonName(name, email), key).commit(stored_id)
        assert "Lovelace" not in json.dumps(acts(place))
        assert person(place) == Person(stored_id, "ada", ADA, EMAIL)
        assert person(place).label == "ada (Ada Lovelace)"
        assert api.get("/v1/me", token=place.tokens["ada"]).json()["shown_name"] == ADA
        listed = api.get("/v1/admin/principals", token=place.tokens["opal"]).json()["principals"]
        assert {one["name"]: one["shown_name"] for one in listed if one["name"] in {"ada", "ben"}} == {
            "ada": ADA, "ben": "ben",
        }  # fmt: skip

    def test_another_name_takes_the_place_of_the_one_before_under_another_key(self, place: World) -> None:
        api = place.api(None)
        call(place, api)
        (before,) = place.sql("SELECT key FROM person_names")
        call(place, api, "Ada King", who="opal", email="")
        ((name, email, key),) = place.sql("SELECT name, email, key FROM person_names")
        assert (name, email) == ("Ada King", "")
        assert (key,) != before
        assert person(place).shown == "Ada King"

    def test_a_name_that_deceives_is_refused_and_nothing_is_written(self, place: World) -> None:
        api, before = place.api(None), len(acts(place))
        for sent, member in ((("\u0410da",), "/display_name"), (("Ada", "a\u0430@x"), "/email")):
            answer = problem(call(place, api, sent[0], email=sent[-1] if len(sent) > 1 else ""), "request-invalid", 422)
            assert [error["pointer"] for error in answer["errors"]] == [member]
        assert len(acts(place)) == before
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]

    def test_everybody_names_themselves_and_an_operator_everybody(self, place: World) -> None:
        api = place.api(None)
        for who, of, status in (
            ("ada", "ada", 200), ("ada", "ben", 404), ("stella", "stella", 200), ("stella", "ada", 404),
            ("olga", "olga", 200), ("olga", "ada", 404), ("opal", "ada", 200), ("opal", "nobody-here", 404),
            ("opal", "operator", 404), ("ada", "no name", 404), ("opal", "%00", 404),
        ):  # fmt: skip
            assert call(place, api, who=who, of=of).status_code == status, (who, of)
        for who, of, status in (
            ("ada", "ben", 404),
            ("stella", "ada", 404),
            ("olga", "ada", 200),
            ("opal", "olga", 200),
        ):
            assert erase(place, api, who=who, of=of).status_code == status, (who, of)

    def test_whoever_names_somebody_at_once_names_them_in_turns(self, place: World) -> None:
        people, ada, names = place.curator.identity.people, id_of(place), [f"Ada {letter}" for letter in "abcdefgh"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: people.name(ada, name, "", actor="operator:test"), names))
        assert person(place).shown in names
        assert len([act for act in acts(place) if act["kind"] == "person-name"]) == len(names)
        with ThreadPoolExecutor(2) as pool:
            naming = pool.submit(people.name, ada, "Ada i", "", actor="operator:test")
            pool.submit(people.erase, ada, actor="operator:test").result()
            naming.result()
        assert person(place).shown in {"", "Ada i"}

    def test_under_a_seal_nobody_is_named_and_none_erased(self, place: World) -> None:
        api = place.api(None)
        call(place, api)
        place.curator.ledger.guard.seal("an incident")
        for answer in (call(place, api, "Ada King"), erase(place, api)):
            problem(answer, "ledger-unverified", 503)
        assert place.sql("SELECT name FROM person_names") == [(ADA,)]
        assert person(place).shown == ADA

    def test_another_process_shows_the_name_at_once(self, place: World) -> None:
        api, other = place.api(None), place.api(None)
        assert other.app.state.curator is not api.app.state.curator
        look = other.app.state.curator.identity.people.look
        assert look().named("ada").shown == ""
        call(place, api)
        assert look().named("ada").shown == ADA
        call(place, api, "Ada King")
        assert look().named("ada").shown == "Ada King"
        erase(place, api)
        assert look().named("ada").shown == ""

    def test_nobody_is_displayed_as_two(self, place: World) -> None:
        assert call(place, place.api(None), "Ada (IT)").status_code == 200
        assert person(place).label == "ada (Ada [IT])"
        call(place, place.api(None), "Ada) and olga (Olga")
        assert person(place).label == "ada (Ada] and olga [Olga)"

    def test_an_actor_who_is_no_principal_has_no_name(self, place: World) -> None:
        """A principal may be called `provider`: an entry by that actor is not theirs."""
        place.add_token("provider", Role.ANALYST)
        call(place, place.api(None), of="provider", who="opal")
        look = place.curator.identity.people.look()
        assert look.named("provider").shown == ADA
        for actor in ("provider", "curator", "operator:ada", ""):
            assert look.find(actor) == Person("", actor)


CHANGES = {
    "another name": "UPDATE person_names SET name = 'Grace Hopper'",
    "another e-mail": "UPDATE person_names SET email = 'grace@hospital.example'",
    "another key": f"UPDATE person_names SET key = '{'0' * 64}'",
    "no row": "DELETE FROM person_names",
    "somebody else's row": "UPDATE person_names SET principal_id = (SELECT id FROM principals WHERE name = 'ben')",
}


class TestChangedRows:
    @pytest.mark.parametrize("change", CHANGES)
    def test_a_row_that_was_changed_is_not_shown_and_the_id_is(self, place: World, change: str) -> None:
        api = place.api(None)
        call(place, api)
        place.sql(CHANGES[change])
        assert person(place) == Person(id_of(place), "ada", UNSHOWN)
        assert person(place, "ben") == Person(id_of(place, "ben"), "ben")
        listed = {one.name: one.shown for one in place.curator.identity.people.look().find_all([id_of(place)])}
        assert listed == {"ada": UNSHOWN}
        found = api.get("/v1/me", token=place.tokens["ada"]).json()
        assert (found["name"], found["shown_name"], found["email"]) == ("ada", UNSHOWN, None)
        call(place, api, "Ada King")
        assert person(place).shown == "Ada King"

    def test_names_of_two_people_cannot_be_exchanged(self, place: World) -> None:
        api, ids = place.api(None), [id_of(place), id_of(place, "ben")]
        call(place, api)
        call(place, api, "Ben Nevis", of="ben", who="ben", email="")
        with place.curator.database.read() as connection:
            rows = [find_name(connection, one) for one in ids]
        for one, row in zip(ids, reversed(rows), strict=True):
            assert row is not None
            told = f"name = '{row.said.name}', email = '{row.said.email}', key = '{row.key}'"
            place.sql(f"UPDATE person_names SET {told} WHERE principal_id = '{one}'")
        assert [person(place, who).shown for who in ("ada", "ben")] == [UNSHOWN, UNSHOWN]

    def test_a_row_without_an_entry_is_no_name(self, place: World) -> None:
        place.sql(f"INSERT INTO person_names VALUES ('{id_of(place)}', 'Grace Hopper', '', '{'0' * 64}')")
        assert person(place) == Person(id_of(place), "ada")

    def test_a_row_that_came_back_after_it_was_erased_is_no_name(self, place: World) -> None:
        api = place.api(None)
        call(place, api)
        (row,) = place.sql("SELECT principal_id, name, email, key FROM person_names")
        erase(place, api)
        place.sql(f"INSERT INTO person_names VALUES {tuple(row)}")
        assert person(place) == Person(id_of(place), "ada")
        erase(place, api)
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]

    def test_the_name_of_the_chain_is_the_register_s_whatever_the_table_says(self, place: World) -> None:
        ids = {who: id_of(place, who) for who in ("ada", "ben")}
        call(place, place.api(None))
        place.sql(
            "UPDATE principals SET name = 'x' WHERE name = 'ada'",
            "UPDATE principals SET name = 'ada' WHERE name = 'ben'",
        )
        look = place.curator.identity.people.look()
        assert look.find(ids["ada"]) == Person(ids["ada"], "ada", ADA, EMAIL)
        assert look.named("ada") == look.find(ids["ada"])
        assert look.find(ids["ben"]).name == "ben"


class TestErasing:
    def test_the_chain_verifies_and_the_id_remains(self, place: World) -> None:
        api = place.api(None)
        call(place, api)
        before = len(acts(place))
        found = erase(place, api).json()
        assert (found["name"], found["shown_name"], found["email"]) == ("ada", "ada", None)
        (act,) = acts(place)[before:]
        assert (act["kind"], act["principal"]) == ("person-name-erased", id_of(place))
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]
        assert place.curator.ledger.verify(REGISTER).ok
        assert erase(place, api).status_code == 200  # a retry after a lost answer
        assert len(acts(place)) == before + 1
        call(place, api, "Ada King", who="opal")
        assert person(place).shown == "Ada King"
        assert place.curator.ledger.verify(REGISTER).ok

    def test_no_byte_of_an_erased_name_is_left_in_the_embedded_database(self, tmp_path: Path) -> None:
        """Of many names, set and changed in turns, so that pages were split and joined."""
        people = [f"p{number}" for number in range(60)]
        with open_world(tmp_path) as world:
            identity = world.curator.identity
            for who in people:
                identity.create_token(who, Role.ANALYST)
            ids = {who: id_of(world, who) for who in people}
            for turn in range(3):
                for number, who in enumerate(people):
                    name = f"Marked{turn} {who}x {'y' * (number * 37 % 80)}"
                    identity.people.name(ids[who], name, f"{who}.{turn}@marked.example", actor="operator:test")
            for who in people[::2]:
                identity.people.erase(ids[who], actor="operator:test")
            kept = people[1::2]
            left = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("curator.sqlite3*"))
            assert left.count(b"Marked") == left.count(b"@marked") == len(kept)
            assert all(f"Marked2 {who}x ".encode() in left for who in kept)
            assert [identity.people.look().find(ids[who]).shown[:9] for who in people[:2]] == ["", "Marked2 p"]
            assert identity.people.attestation.find(ids["p0"]).naming == ""  # type: ignore[union-attr]
            assert world.curator.ledger.verify(REGISTER).ok

    def test_the_name_is_in_no_file_of_the_curator_but_the_database(self, tmp_path: Path) -> None:
        with open_world(tmp_path) as world:
            world.curator.identity.people.name(id_of(world), "Marked Name", "marked@x", actor="operator:test")
            world.curator.ledger.verify(REGISTER)
            holding = [path.name for path in tmp_path.rglob("*") if path.is_file() and b"arked" in path.read_bytes()]
        assert {name.removesuffix("-wal") for name in holding} == {"curator.sqlite3"}

    @pytest.mark.postgres
    def test_the_owner_of_postgresql_removes_the_bytes_as_the_page_says(
        self, tmp_path: Path, postgres_url: str
    ) -> None:
        with open_world(tmp_path, url=postgres_url) as world:
            api = world.api(None)
            call(world, api, "Marked Name")
            erase(world, api)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("VACUUM FULL person_names")
            connection.execute("CHECKPOINT")
            (file,) = connection.execute("SELECT pg_read_binary_file(pg_relation_filepath('person_names'))").fetchone()  # type: ignore[misc]
        assert b"Marked" not in file

    def test_a_linked_person_is_erased_as_one(self, place: World) -> None:
        api = place.api(None)
        curator = api.app.state.curator
        curator.identity.providers = providers(Documents(), now=place.clock)
        old = sign(claims(oid="of-ada", tid="tenant"))
        before = api.get("/v1/me", token=old).json()["id"]
        other = api.get("/v1/me", token=sign(claims(sub="2", name="Ada L."))).json()["id"]
        curator.identity.providers = providers(Documents(), now=place.clock, subject_claim="oid")
        api.get("/v1/me", token=sign(claims(oid="of-ada", tid="tenant")))
        api.get("/v1/me", token=sign(claims(sub="2", oid="of-ada", tid="tenant", iat=T - 5)))
        assert place.sql("SELECT count(*) FROM person_names") == [(2,)]
        assert curator.identity.attestation.person_of(other) == before
        erase(place, api, who="opal", of="hospital.2")
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]


class TestBounds:
    def test_so_many_of_ones_own_a_day_and_no_more(self, place: World) -> None:
        api = place.api(None)
        for number in range(NAMINGS_PER_DAY_MAX):
            assert call(place, api, f"Ada {number}").status_code == 200
        before = len(acts(place))
        for answer in (call(place, api), erase(place, api)):
            assert "24 hours" in problem(answer, "too-many-requests", 429)["detail"]
            assert answer.headers["retry-after"] == str(DAY_S + 1)
        assert len(acts(place)) == before
        assert call(place, api, who="opal").status_code == 200
        place.clock.advance(seconds=DAY_S)
        assert call(place, api, "Ada King").status_code == 200

    def test_a_provider_names_somebody_once_a_day(self, place: World) -> None:
        api = place.api(None)
        api.app.state.curator.identity.providers = providers(Documents(), now=place.clock)
        start = len(acts(place))
        for number in range(6):  # two applications that state other names
            said = claims(iat=T - 9 + number, name=("Ada Lovelace", "Lovelace, Ada")[number % 2])
            assert api.get("/v1/me", token=sign(said)).json()["shown_name"] == "Ada Lovelace"
        assert [act["kind"] for act in acts(place)[start:]] == ["principal", "person-name"]
        place.clock.advance(seconds=DAY_S)
        later = T + DAY_S
        old = sign(claims(iat=later - 100, exp=later + 600, name="Ada the Old"))
        new = sign(claims(iat=later + 1, nbf=later, exp=later + 600, name="Ada King", email="a@x"))
        place.clock.advance(seconds=5)
        assert api.get("/v1/me", token=old).json()["shown_name"] == "Ada Lovelace"  # said before the day was over
        found = api.get("/v1/me", token=new).json()
        assert (found["shown_name"], found["email"]) == ("Ada King", "a@x")
        count = len(acts(place))
        assert api.get("/v1/me", token=new).json()["shown_name"] == "Ada King"
        assert len(acts(place)) == count


class TestProviders:
    @pytest.fixture
    def signed(self, place: World) -> tuple[World, Api]:
        api = place.api(None)
        api.app.state.curator.identity.providers = providers(Documents(), now=place.clock)
        return place, api

    @pytest.mark.parametrize("how", ["erased", "named"])
    def test_what_an_operator_erased_or_named_no_provider_changes(self, signed: tuple[World, Api], how: str) -> None:
        place, api = signed
        name = api.get("/v1/me", token=sign(claims())).json()["name"]
        answer = erase(place, api, who="opal", of=name) if how == "erased" else call(place, api, who="opal", of=name)
        expected = answer.json()["shown_name"]
        assert expected == (name if how == "erased" else ADA)
        place.clock.advance(days=3)
        later = T + 3 * DAY_S
        said = claims(iat=later, nbf=later, exp=later + 600, name="Ada King")
        assert api.get("/v1/me", token=sign(said)).json()["shown_name"] == expected

    def test_what_another_process_erased_no_provider_states_again(self, signed: tuple[World, Api]) -> None:
        place, api = signed
        who = api.get("/v1/me", token=sign(claims())).json()["id"]
        place.clock.advance(days=3)
        place.curator.identity.people.erase(who, actor="operator:test")
        later = T + 3 * DAY_S
        said = sign(claims(iat=later, nbf=later, exp=later + 600))
        found = api.get("/v1/me", token=said).json()
        assert found["shown_name"] == found["name"]
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]

    def test_what_is_erased_while_somebody_signs_in_stays_erased(
        self, signed: tuple[World, Api], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place, api = signed
        who = api.get("/v1/me", token=sign(claims())).json()["id"]
        place.clock.advance(days=3)
        people = api.app.state.curator.identity.people
        find = people._find

        def erase_behind(principal_id: str) -> Any:
            found = find(principal_id)
            place.curator.identity.people.erase(who, actor="operator:test")
            return found

        monkeypatch.setattr(people, "_find", erase_behind)
        people.state(who, PersonName("Ada King", ""), timestamp(place.clock()))
        monkeypatch.undo()
        assert place.sql("SELECT count(*) FROM person_names") == [(0,)]
        assert person(place, "hospital.1").shown == ""

    def test_a_token_without_a_name_takes_none_away(self, signed: tuple[World, Api]) -> None:
        place, api = signed
        api.get("/v1/me", token=sign(claims()))
        place.clock.advance(days=3)
        later = T + 3 * DAY_S
        said = claims(iat=later, nbf=later, exp=later + 600, name=...)
        assert api.get("/v1/me", token=sign(said)).json()["shown_name"] == ADA

    def test_a_hostile_name_of_a_provider_is_visible(self, signed: tuple[World, Api]) -> None:
        _, api = signed
        found = api.get("/v1/me", token=sign(claims(name="\u0410da \u202e<b>", email="\u0430da@x"))).json()
        assert (found["shown_name"], found["email"]) == ("\\u0410da \\u202e<b>", "\\u0430da@x")

    def test_a_changed_row_is_stated_again_the_next_day(self, signed: tuple[World, Api]) -> None:
        place, api = signed
        api.get("/v1/me", token=sign(claims()))
        place.sql("UPDATE person_names SET name = 'Grace Hopper'")
        assert api.get("/v1/me", token=sign(claims(iat=T - 5))).json()["shown_name"] == UNSHOWN
        place.clock.advance(days=2)
        later = T + 2 * DAY_S
        said = claims(iat=later, nbf=later, exp=later + 600)
        assert api.get("/v1/me", token=sign(said)).json()["shown_name"] == ADA

    def test_under_a_seal_a_person_comes_in_unnamed(self, signed: tuple[World, Api]) -> None:
        place, api = signed
        api.get("/v1/me", token=sign(claims(name=...)))
        place.curator.ledger.guard.seal("an incident")
        found = api.get("/v1/me", token=sign(claims(iat=T - 5))).json()
        assert found["shown_name"] == found["name"]

    def test_no_claim_is_read_where_settings_name_none(self, place: World) -> None:
        api = place.api(None)
        trusted = providers(Documents(), now=place.clock, shown_name_claim="", email_claim="")
        api.app.state.curator.identity.providers = trusted
        found = api.get("/v1/me", token=sign(claims(email="a@x"))).json()
        assert (found["shown_name"], found["email"], found["issuer"]) == (found["name"], None, ISSUER)


def run(world: World, *words: str) -> Any:
    environment = {"CURATOR_DATA_DIR": str(world.folder / "data"), "COLUMNS": "200"}
    return CliRunner().invoke(app, list(words), env=environment)


def test_commands_name_show_and_forget(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        call(world, world.api(None), "Ben Nevis", who="ben", of="ben")
        named = run(world, "principals", "name", "ada", "--display-name", ADA, "--email", EMAIL)
        assert (named.exit_code, named.stdout) == (0, "ada is displayed as Ada Lovelace from now on\n")
        assert "ada (Ada Lovelace)" in run(world, "ledger", "register", "--limit", "1000").stdout
        assert EMAIL in run(world, "principals", "list").stdout
        assert "ada (Ada Lovelace)" in run(world, "permits", "list").stdout
        assert "ada (Ada Lovelace)" in run(world, "tokens", "list").stdout
        refused = run(world, "principals", "name", "ada", "--display-name", "\u0410da")
        assert (refused.exit_code, "U+0410, is Cyrillic" in refused.stderr) == (1, True)
        assert run(world, "principals", "name", "nobody", "--display-name", ADA).exit_code == 1
        forgotten = run(world, "principals", "forget", "ada")
        assert (forgotten.exit_code, "erased" in forgotten.stdout) == (0, True)
        assert "Lovelace" not in run(world, "ledger", "register", "--limit", "1000").stdout
        with sqlite3.connect(world.folder / "data" / "curator.sqlite3") as connection:
            assert connection.execute("SELECT name FROM person_names").fetchall() == [("Ben Nevis",)]


def test_the_ledger_and_spending_say_who_asked(tmp_path: Path) -> None:
    from support import body

    with open_world(tmp_path) as world:
        api = world.api("ada")
        assert api.post("/v1/datasets/cohort/releases", json=body(), key="a").status_code == 201
        call(world, api)
        for words in (("ledger", "show", "town"), ("spending",)):
            assert "ada (Ada Lovelace)" in run(world, *words).stdout
        world.sql("UPDATE person_names SET name = 'Grace Hopper'")
        shown = run(world, "ledger", "show", "town").stdout
        assert f"ada ({UNSHOWN})" in shown
        assert "Grace" not in shown
