"""Entries rewritten with the private key, and the rest of the chain signed anew: tables tell most of it."""

import json
from pathlib import Path
from typing import Any

from support import ADMIN, World, body, open_world
from test_ledger_tampering import sign

from curator_service.cli.ledger import verify_one
from curator_service.ledger.chain.entries import canonical, entry_hash

RELEASES = "/v1/datasets/cohort/releases"
RESERVATIONS = "/v1/datasets/cohort/reservations"
UNHELD = {
    ("open", "actor"),
    ("dataset", "actor"),
    ("void", "actor"),
    ("void", "time"),
    ("derive", "permit"),
    ("permit", "actor"),  # where one person alone acted, who restricted it or has the machine
    ("permit", "approved_by"),
    ("permit", "reason"),
    ("permit", "permit_limit"),  # of a version before the last
    ("permit", "version"),
    ("principal", "actor"),
    ("principal", "roles"),
    ("principal", "time"),
    ("token", "actor"),
    ("token", "token"),
}
"""What no table states: docs/ledger.md lists it."""


def live(world: World) -> None:
    """Let something of nearly every kind happen."""
    api, officer = world.api(), world.api("root")
    world.add_token("rita", *ADMIN)
    permit = world.permit(purpose="p", conditions="c", limit={"mu": 0.1})
    for i, asked in enumerate(
        [
            body(rows={"map": "box"}, price={"mu": 0.01}),
            body(rows={"map": "ball"}, price={"mu": 0.01}),
            body(features=["age", "sex"], rows={"map": "box"}, price={"mu": 0.02}, project="kidney"),
            body(features=["age"], rows={"map": "box"}, price={"mu": 0.001}),
        ]
    ):
        assert api.post(RELEASES, json=asked, key=f"k{i}").status_code in {200, 201}
    held = api.post(RESERVATIONS, json={"price": {"mu": 0.02}, "expires_in_s": 3600}, key="held").json()["id"]
    paid = body(fresh=True, price={"mu": 0.01}, reservation=held)
    assert api.post(RELEASES, json=paid, key="paid").status_code == 201
    assert api.request("DELETE", f"/v1/reservations/{held}").status_code == 200
    for mu, decision in ((0.1, ""), (0.3, "approve"), (5.0, "reject")):
        limit = {"limit": {"mu": mu}, "reason": "why"}
        proposal = officer.post("/v1/admin/populations/town/limits", json=limit).json()["id"]
        if decision:
            answer = world.api("rita").post(f"/v1/admin/proposals/{proposal}/{decision}")
            assert answer.status_code == 200, answer.text
    terms = {
        "project": "kidney", "people": ["ada", "ben"], "datasets": ["cohort"], "purpose": "q",
        "legal_basis": "consent", "expires_at": "2099-01-01T00:00:00Z", "reason": "more",
    }  # fmt: skip
    asked = world.api("otto").post(f"/v1/permits/{permit}", json=terms).json()["id"]
    assert world.api("olga").post(f"/v1/admin/proposals/{asked}/approve").status_code == 200
    assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
    world.clock.advance(days=31)
    world.curator.versions.cut_due()


def other_than(value: Any, name: str) -> Any:
    """Return another value that such a member might have."""
    if name == "time" or name.endswith("_at"):
        return "2026-02-02T02:02:02Z"
    if isinstance(value, int):
        return value + 1
    if isinstance(value, dict):
        return {key: f"{text}x" for key, text in value.items()} or {"x": "x"}
    if isinstance(value, list):
        return value[:-1]
    if value.isdigit():
        return str(int(value) + 1)
    return f"{value[:-1]}{'1' if value.endswith('0') else '0'}"


def write(world: World, population: str, rows: list[tuple[Any, ...]]) -> None:
    with world.curator.database.begin() as connection:
        cursor = connection.cursor()
        for sequence, text, digest, signature in rows:
            cursor.execute(
                "UPDATE ledger_entries SET payload = ?, entry_hash = ?, signature = ? "
                "WHERE population = ? AND sequence = ?",
                (text, digest, signature, population, sequence),
            )
        cursor.execute("UPDATE populations SET head_hash = ? WHERE name = ?", (rows[-1][2], population))


def sign_again(world: World, rows: list[tuple[Any, ...]], name: str) -> list[tuple[Any, ...]] | None:
    """Return entries from one with another member on, signed anew; None where no signature is possible."""
    signed, previous = [], None
    for sequence, text, _, _ in rows:
        payload = json.loads(text)
        payload |= {name: other_than(payload[name], name)} if previous is None else {"previous_hash": previous}
        text_now = canonical(payload)
        previous = entry_hash(text_now)
        try:
            signed.append((sequence, text_now, previous, sign(world, text_now)))
        except (ValueError, TypeError):
            return None
    return signed


def test_what_no_table_states_is_all_that_goes_unseen(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        live(world)
        for (trigger,) in world.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            world.sql(f"DROP TRIGGER {trigger}")
        tried, unseen = set(), set()
        for population in [chain.name for chain in world.curator.ledger.list_chains()]:
            assert verify_one(world.curator, population)["ok"]
            rows = world.sql(
                "SELECT sequence, payload, entry_hash, signature FROM ledger_entries "
                f"WHERE population = '{population}' ORDER BY sequence"
            )
            for i, (_, text, _, _) in enumerate(rows):
                payload = json.loads(text)
                shape = (payload["kind"], "proposal" in payload, payload.get("version"), payload["actor"][:3])
                for name in payload:
                    if (shape, name) in tried:
                        continue
                    tried.add((shape, name))
                    forged = sign_again(world, rows[i:], name)
                    if forged is None:
                        continue
                    write(world, population, forged)
                    if verify_one(world.curator, population)["ok"]:
                        unseen.add((payload["kind"], name))
                    write(world, population, rows[i:])
        assert len(tried) > 200
        assert {kind for (kind, *_), _ in tried} >= {"dataset", "limit", "permit", "reserve", "void", "derive", "token"}
        assert unseen == UNHELD


def test_what_differs_is_named_with_its_sequence(tmp_path: Path) -> None:
    """Of an older version of rows the digest of the manifest, too, which was compared at the last one alone."""
    with open_world(tmp_path) as world:
        live(world)
        for (trigger,) in world.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            world.sql(f"DROP TRIGGER {trigger}")
        rows = world.sql(
            "SELECT sequence, payload, entry_hash, signature FROM ledger_entries WHERE population = 'town' "
            "ORDER BY sequence"
        )
        for kind, name in (("dataset", "manifest_digest"), ("limit", "reason"), ("limit", "approved_by")):
            place = next(i for i, row in enumerate(rows) if json.loads(row[1])["kind"] == kind)
            forged = sign_again(world, rows[place:], name)
            assert forged is not None
            write(world, "town", forged)
            assert f"the {name} of sequence {rows[place][0]}" in world.discrepancies()
            write(world, "town", rows[place:])
            assert world.discrepancies() == []
