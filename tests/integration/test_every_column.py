"""Rows are deleted and columns changed, of each table: nobody gets more by it, whatever a column is believed for.

Of each case a copy of one busy world is opened. The row is changed before a process starts, or under one that runs.
Then everybody tries what they may not: to spend more, to read what is another one's, to act with a token, a permit, a
session or a proposal that has ended.
"""

import itertools
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from dashboard_worlds import Person
from scenes import RELEASES, register_private
from support import Api, CountingNoise, Ticking, World, body, open_world

from curator_service.app import create_app
from curator_service.identity.policy import Role
from curator_service.kit.db import Base
from curator_service.ledger.trust.beliefs import BELIEFS, Belief
from curator_service.privacy.accountant import Price
from curator_service.settings import Settings

pytestmark = pytest.mark.crashes

TABLES = {table.name: table for table in Base.metadata.sorted_tables}
OF = {(one.table, name): one.belief for one in BELIEFS for name in one.names}
PRICE = {"mu": 0.1}
"""10**10 units."""
YES = {"threshold": 10**9, "direction": "below"}
"""A question whose answer is yes, whatever the noise."""
Act = tuple[str, tuple[Any, ...] | dict[str, Any]]
EVERY_ROW = os.environ.get("CURATOR_TEST_LONG") == "1"


def test_every_column_has_one_reason() -> None:
    named = [(one.table, name) for one in BELIEFS for name in one.names]
    assert len(named) == len({*named})
    assert {*named} == {(table.name, column.name) for table in TABLES.values() for column in table.columns}


class Busy:
    """A world with a past, of which copies are opened.

    Attributes
    ----------
    found : dict of str to int
        What everybody can do in an unchanged copy.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.folder, self.tokens, self.moment = world.folder, world.tokens, world.clock.moment
        self.settings = world.settings
        self.scratch, self.count = folder, 0
        register_private(world, "ben")
        self.world = world
        api, officer = world.api(), world.api("root")
        self.early = folder / "early.sqlite3"
        now, copy = (sqlite3.connect(str(one)) for one in (self.folder / "data" / "curator.sqlite3", self.early))
        with closing(now), closing(copy):
            now.backup(copy)
        world.permit("kidney", limit={"mu": 0.15})
        world.end_grant("ada", next(one.id for one in world.curator.datasets.list_all() if one.name == "cohort"))
        ended = world.permit("over")
        assert api.post(RELEASES, json=body(project="over", price=PRICE), key="over").status_code == 201
        self.bens = world.api("ben").post("/v1/datasets/private/releases", json=body(price=PRICE), key="b").json()["id"]
        assert officer.post(f"/v1/permits/{ended}/end", json={"reason": "over"}).status_code == 200
        held = {"price": {"mu": 0.1}, "expires_in_s": 9000}
        self.held = world.api("ben").post("/v1/datasets/cohort/reservations", json=held, key="held").json()["id"]
        ben, terms = world.api("ben"), {"positives": 2, "direction": "any", "price": {"epsilon": 0.001}}
        opened = [ben.post("/v1/datasets/cohort/sessions", json=terms, key=f"s{i}").json()["id"] for i in range(2)]
        self.sessions = [f"/v1/sessions/{one}" for one in opened]
        for place in (0, 1, 1):  # the first one may say yes once more, the second has ended
            self.count += 1
            assert ben.post(f"{self.sessions[place]}/questions", json=YES, key=f"q{self.count}").json()["is_positive"]
        self.questions = [ben.get(one).json()["questions"] for one in self.sessions]
        self.revoked = world.add_token("cleo", Role.ANALYST)
        world.curator.identity.revoke_token(self.revoked.split("_")[1])
        raised = {"limit": {"mu": 5.0}, "reason": "more"}
        asked = world.api("olga").post("/v1/admin/populations/town/limits", json=raised)
        self.asked = asked.json()["id"]
        refused = world.api("olga").post("/v1/admin/populations/valley/limits", json=raised).json()["id"]
        assert world.api("otto").post(f"/v1/admin/proposals/{refused}/reject", json={"reason": "no"}).status_code == 200
        self.refused = refused
        browser = Person(world, "audra")
        assert browser.get("/admin").status_code == 200
        self.cookies = browser.cookies

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        with closing(sqlite3.connect(str(self.folder / "data" / "curator.sqlite3"))) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]

    def known(self) -> dict[str, list[Any]]:
        """Return who and what there is, by the columns that name it: what may do most stands first."""
        officers = sorted(self.rows("principals"), key=lambda row: len(row["roles"]), reverse=True)
        holders = [row["id"] for row in officers]
        tokens = sorted(self.rows("tokens"), key=lambda row: holders.index(row["principal_id"]))
        named = {"token_id": tokens, "session_id": self.rows("sessions")}
        ids = {column: [row["id"] for row in rows] for column, rows in named.items()}
        return {"principal_id": holders, "proposed_by": holders} | ids

    def look(self, *acts: Act, running: bool, database: Path | None = None) -> dict[str, int] | None:
        """Return what everybody can do in a copy that was changed; None where the database refuses the change."""
        self.count += 1
        folder = self.scratch / f"copy{self.count}"
        for part in ("data", "data-anchor"):
            shutil.copytree(self.folder / part, folder / part)
        if database is not None:
            for part in (folder / "data").glob("curator.sqlite3*"):
                part.unlink()
            shutil.copyfile(database, folder / "data" / "curator.sqlite3")
        settings: Settings = self.settings.model_copy(update={"data_dir": folder / "data", "anchor_dir": None})
        app: Any = None
        clock = Ticking(self.moment)
        try:
            if running:
                app = create_app(settings, noise=CountingNoise(), now=clock)
                for who in ("ada", "ben", "root"):
                    ask(app, self.tokens[who], "GET", "/v1/datasets")
            if not write(folder / "data" / "curator.sqlite3", *acts):
                return None
            if app is None:
                app = create_app(settings, noise=CountingNoise(), now=clock)
                try:
                    app.state.curator.start()
                except (ValueError, LookupError):  # what is not even a manifest, or an accountant, ends a start
                    return {}
            return self.probe(app, clock)
        finally:
            if app is not None:
                app.state.curator.close()
                vars(app).clear()
            shutil.rmtree(folder)

    def probe(self, app: Any, clock: Ticking) -> dict[str, int]:
        """Try everything that somebody may not, and count what passes."""
        found: dict[str, int] = {}

        def tell(what: str, answer: httpx.Response, passes: Callable[[httpx.Response], bool] | None = None) -> None:
            passed = answer.status_code < 300 if passes is None else passes(answer)
            found[what] = found.get(what, 0) + passed

        tokens = self.tokens | {"cleo": self.revoked}
        for who in ("ada", "ben", "cleo", "audra", "olga", "root"):
            seen = ask(app, tokens[who], "GET", "/v1/me")
            for role in Role:
                tell(f"{who} is {role}", seen, lambda answer, role=role: role in str(answer.json().get("roles")))
        ada, ben = tokens["ada"], tokens["ben"]
        tell("ada reads ben's", ask(app, ada, "GET", f"/v1/releases/{self.bens}"))
        tell("ben reads ben's", ask(app, ben, "GET", f"/v1/releases/{self.bens}"))
        tell("ada uses ben's dataset", ask(app, ada, "POST", "/v1/datasets/private/releases", body(price=PRICE), "p"))
        tell("ada uses hidden", ask(app, ada, "POST", "/v1/datasets/hidden/releases", body(price=PRICE), "h"))
        over = body(price=PRICE, project="over", fresh=True)
        tell("ada spends under an ended permit", ask(app, ada, "POST", RELEASES, over, "o"))
        drawn = body(price={"mu": 0.05}, reservation=self.held, fresh=True)
        tell("ada draws on ben's reservation", ask(app, ada, "POST", RELEASES, drawn, "d"))
        for who, session, asked in itertools.product(("ada", "ben"), (0, 1), range(2)):
            told = ask(app, tokens[who], "POST", f"{self.sessions[session]}/questions", YES, f"y{session}{asked}")
            tell(f"{who} is answered by ben's session {session}", told)
        for session, known in zip(self.sessions, self.questions, strict=True):
            told = ask(app, ben, "GET", f"{session}?limit={len(known)}")
            tell("other answers are shown", told, lambda it, known=known: it.json().get("questions", known) != known)
            tell("ada reads ben's session", ask(app, ada, "GET", session))
        for decided in (self.asked, self.refused):
            for who in ("ben", "olga"):
                approve = f"/v1/admin/proposals/{decided}/approve"
                tell(f"{who} approves {decided}", ask(app, tokens[who], "POST", approve))
        for key in range(8):
            asked = body(price=PRICE, project="kidney", fresh=True)
            bought = ask(app, ada, "POST", RELEASES, asked, f"k{key}")
            tell("ada spends under her permit", bought)
            if bought.status_code == 201:
                scales = [int(scale) for part in bought.json()["receipt"]["mechanism"] for scale in part["scales"]]
                found["precision"] = max(found.get("precision", 0), 10**30 // min(scales))
            else:
                break
        for key in range(8):
            bought = ask(app, ben, "POST", RELEASES, body(price=PRICE, fresh=True), f"b{key}")
            found["all spend"] = found["ada spends under her permit"] + key
            if bought.status_code != 201:
                break
        page = show(app, "/admin", self.cookies)
        tell("a session is signed in", page, lambda answer: answer.status_code == 200)
        tell("a session is another's", page, lambda answer: "<b>root</b>" in answer.text)
        clock.advance(days=1)
        late = show(app, "/admin", self.cookies)
        tell("a session lasts a day", late, lambda answer: answer.status_code == 200)
        return found


def ask(app: Any, token: str, method: str, path: str, sent: Any = None, key: str | None = None) -> httpx.Response:
    api = Api(app, token)
    try:
        return api.request(method, path, json=sent, key=key)
    finally:
        api.close()


def show(app: Any, path: str, cookies: httpx.Cookies) -> httpx.Response:
    api = Api(app, None)
    try:
        sent = "; ".join(f"{cookie.name}={cookie.value}" for cookie in cookies.jar)
        return api.request("GET", f"https://curator.test{path}", headers={"Cookie": sent})
    finally:
        api.close()


def write(database: Path, *acts: Act) -> bool:
    """Write as the service could, past foreign keys; False where a trigger or a constraint refuses it."""
    with closing(sqlite3.connect(str(database))) as connection:
        try:
            for statement, values in acts:
                connection.execute(statement, values)
        except sqlite3.IntegrityError:
            return False
        connection.commit()
        return True


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    with open_world(tmp_path_factory.mktemp("busy"), limit=Price(mu=0.28)) as world:
        made = Busy(world, tmp_path_factory.mktemp("copies"))
        yield made


@pytest.fixture(scope="module")
def most(busy: Busy) -> dict[str, int]:
    """Return what can be done in a copy that nobody changed."""
    found = busy.look(running=False)
    assert found is not None
    return found


def others(value: Any, rows: list[dict[str, Any]], column: str, known: dict[str, list[Any]]) -> list[Any]:
    """Return values that somebody might put in the place of one: another row's, wider ones, and none."""
    found: list[Any] = [row[column] for row in rows if row[column] != value][:1]
    found += [one for one in known.get(column, []) if one not in {value, *found}][:2]
    if isinstance(value, int):
        return [*found, 0, value + 10**12]
    if value is None:
        return [*found, "", 0]
    text = str(value)
    widened = text.replace("2026", "2099").replace("2099-01", "2100-01")
    return [
        *found,
        "",
        *([widened] if widened != text else []),
        *(["analyst,operator,privacy_officer"] if column in {"roles", "scopes"} else []),
    ]


def test_nobody_does_what_they_may_not(most: dict[str, int]) -> None:
    """The world is as the cases need it: what may be done is done, and the rest is refused."""
    allowed = {what for what, times in most.items() if times and what != "precision"}
    assert allowed == {
        "ada is analyst", "ben is analyst", "audra is auditor", "olga is privacy_officer", "root is steward",
        "root is operator", "root is privacy_officer", "root is auditor", "ben reads ben's", "all spend",
        "ada spends under her permit", "a session is signed in", "ben is answered by ben's session 0",
    }  # fmt: skip
    assert most["ben is answered by ben's session 0"] == 1
    assert (most["ada spends under her permit"], most["all spend"]) == (2, 4)


def list_cases(table: str, rows: list[dict[str, Any]], known: dict[str, list[Any]]) -> Iterator[tuple[str, Act]]:
    """Yield what is done to a table, in words and in SQL: of hints, and of many rows, to the first ones alone."""
    key = [column.name for column in TABLES[table].primary_key]
    this = " AND ".join(f"{name} = ?" for name in key)
    for place, row in enumerate(rows if EVERY_ROW else rows[:3]):
        where = tuple(row[name] for name in key)
        yield f"row {place} deleted", (f"DELETE FROM {table} WHERE {this}", where)
        for name, value in row.items():
            if EVERY_ROW or place == 0 or OF[table, name] is not Belief.HINT:
                for other in others(value, rows, name, known)[: None if EVERY_ROW else 2]:
                    change = f"UPDATE {table} SET {name} = ? WHERE {this}"
                    yield f"row {place}, {name} = {other!r:.60}", (change, (other, *where))


@pytest.mark.parametrize("table", list(TABLES))
def test_a_change_of_a_table_gives_nobody_more(busy: Busy, most: dict[str, int], table: str) -> None:
    gained = []
    for number, (what, act) in enumerate(list_cases(table, busy.rows(table), busy.known())):
        found = busy.look(act, running=number % 2 == 0)
        more = {name: times for name, times in (found or {}).items() if times > most.get(name, 0)}
        gained += [(what, more)] if more else []
    assert gained == []


TOGETHER = {
    "a session of an officer": (
        "UPDATE browser_sessions SET principal_id = :officer, token_id = :token",
        "a session is another's",
    ),
    "a session without an end": (
        "UPDATE browser_sessions SET ends_at = :later, seen_at = :later",
        "a session lasts a day",
    ),
    "a token of an officer": (
        "UPDATE tokens SET principal_id = :officer, scopes = (SELECT scopes FROM tokens WHERE id = :token) "
        "WHERE principal_id IN (SELECT id FROM principals WHERE name = 'ada')",
        "ada is privacy_officer",
    ),
    "a permit that has no end": (
        "UPDATE permits SET ended_at = '', version = version + 1 WHERE project = 'over'",
        "ada spends under an ended permit",
    ),
    "a threshold session that goes on": (
        "INSERT INTO session_noise SELECT id, key_id, sealed FROM session_noise JOIN sessions ON id <> session_id",
        "ben is answered by ben's session 1",
    ),
}
"""Columns that are changed together, and what would be gained if they were believed."""


@pytest.mark.parametrize("what", list(TOGETHER))
def test_columns_that_are_changed_together_give_nobody_more(busy: Busy, most: dict[str, int], what: str) -> None:
    known, (statement, gain) = busy.known(), TOGETHER[what]
    values = {"officer": known["principal_id"][0], "token": known["token_id"][0], "later": "2099-01-01T00:00:00Z"}
    for running in (False, True):
        found = busy.look((statement, values), running=running)
        assert found is not None
        assert {name: times for name, times in found.items() if times > most.get(name, 0)} == {}
        assert most[gain] == 0


def test_a_deleted_session_is_signed_out(busy: Busy, most: dict[str, int]) -> None:
    for running in (False, True):
        found = busy.look(("DELETE FROM browser_sessions", ()), running=running)
        assert found is not None
        assert (most["a session is signed in"], found["a session is signed in"]) == (1, 0)


def test_a_database_that_was_wound_back_gives_nobody_more(busy: Busy, most: dict[str, int], tmp_path: Path) -> None:
    """The anchor stays: what was charged since is not forgotten."""
    early = tmp_path / "early.sqlite3"
    shutil.copyfile(busy.early, early)
    found = busy.look(running=False, database=early)
    assert found is not None
    assert {name: times for name, times in found.items() if times > most.get(name, 0)} == {}
    assert found["all spend"] == 0
