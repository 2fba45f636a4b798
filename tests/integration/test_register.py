"""The register: a chain of the curator's own acts, which verifies as every chain, and by which tokens count."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dashboard_worlds import Person
from entry_examples import EXAMPLES
from support import ADMIN, Api, World, make_rows, problem, service_url

from curator_service.backup import read_backup, write_backup
from curator_service.container import Curator, make_curator
from curator_service.entries.base import REGISTER
from curator_service.identity.attestation import commitment
from curator_service.identity.policy import Role
from curator_service.identity.service import AuthenticationRequired, IdentityError
from curator_service.identity.tokens import make_token
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.ledger.trust.recovery import reconcile


def acts(world: World, after: int = 0) -> list[dict[str, Any]]:
    return world.curator.register.list_entries(after=after, count=1000)


def last_act(world: World) -> dict[str, Any]:
    return acts(world)[-1]


def works(api: Api, token: str) -> bool:
    return api.get("/v1/me", token=token).status_code == 200


# --- The chain


def test_every_act_is_an_entry_and_no_secret_is_in_one(both: World) -> None:
    token = both.curator.identity.create_token("cleo", Role.ANALYST, actor="operator:test")
    principal, issued = acts(both)[-2:]
    assert (principal["kind"], principal["name"], principal["roles"]) == ("principal", "cleo", ["analyst"])
    assert (issued["kind"], issued["token"], issued["holder"], issued["scopes"]) == (
        "token", token.id, "cleo", ["analyst"],
    )  # fmt: skip
    assert issued["actor"] == "operator:test"
    text = json.dumps(acts(both))
    for secret in (token.secret, token.text, token.secret_hash):
        assert secret not in text
    both.curator.identity.revoke_token(token.id, actor="operator:test")
    assert (last_act(both)["kind"], last_act(both)["token"]) == ("token-revoked", token.id)
    both.curator.identity.set_roles("cleo", Role.AUDITOR, actor="operator:test")
    assert (last_act(both)["kind"], last_act(both)["roles"]) == ("principal", ["auditor"])
    assert both.curator.ledger.verify(REGISTER).ok
    assert both.curator.start() == ""


def test_an_act_that_is_undone_leaves_nothing(world: World) -> None:
    before = acts(world)
    with pytest.raises(IdentityError, match="changes none"):
        world.curator.identity.create_token("ada", Role.OPERATOR)
    assert acts(world) == before


def test_the_register_is_no_population(both: World) -> None:
    curator = both.curator
    assert {found.name for found in curator.ledger.list_populations()} == {"town", "valley"}
    root = both.api("root")
    problem(root.get(f"/v1/ledger/{REGISTER}"), "not-found", 404)
    problem(root.get(f"/v1/ledger/{REGISTER}/checkpoint"), "not-found", 404)
    limit = {"limit": {"mu": 1.0}, "reason": "a budget of its own"}
    problem(root.post(f"/v1/admin/populations/{REGISTER}/limits", json=limit), "not-found", 404)
    with pytest.raises(Exception, match="should match pattern"):
        both.register("another", REGISTER, make_rows(3))


def test_nothing_can_be_charged_to_it(both: World) -> None:
    """Neither by its limit, nor by the verification, whatever its rows say."""
    both.sql(f"UPDATE populations SET limit_units = 1000, highest_limit_units = 1000 WHERE name = '{REGISTER}'")
    assert both.curator.ledger.verify(REGISTER).bad_sequence is not None
    assert "limit" in both.curator.start()


@pytest.mark.parametrize("kind", ["dataset", "permit", "limit", "reserve", "derive", "confirmation"])
def test_an_entry_of_another_kind_does_not_belong_into_it(world: World, kind: str) -> None:
    with world.curator.ledger.unit() as ledger:
        ledger.act(EXAMPLES[kind])
    found = world.curator.ledger.verify(REGISTER)
    assert not found.ok
    assert "does not belong into the register" in found.reason


@pytest.mark.parametrize("kind", sorted(kind for kind, event in EXAMPLES.items() if not event.in_populations))
def test_an_act_does_not_belong_into_a_population(world: World, kind: str) -> None:
    with world.curator.ledger.unit() as ledger:
        ledger.note("town", EXAMPLES[kind])
    assert world.curator.ledger.verify("town").reason == f"an entry of kind {kind!r} with 0 units does not belong here"


def test_a_new_key_is_announced_in_it(world: World) -> None:
    world.curator.keys.rotate("2026-03-01T12:00:00Z")
    assert last_act(world)["kind"] == "key"
    world.curator.identity.create_token("cleo", Role.ANALYST)
    assert world.curator.ledger.verify(REGISTER).ok


def test_a_register_that_was_wound_back_seals_the_curator(world: World) -> None:
    folder = world.settings.data_dir
    world.curator.database.dispose()
    shutil.copy(folder / "curator.sqlite3", folder / "before")
    world.curator.identity.create_token("cleo", Role.ANALYST)
    world.curator.database.dispose()
    for path in folder.glob("curator.sqlite3-*"):
        path.unlink()
    shutil.copy(folder / "before", folder / "curator.sqlite3")
    again = make_curator(world.settings, now=world.clock)
    assert f"{REGISTER!r} has no entry" in again.start()
    again.close()


# --- Backups and recovery


def test_a_register_of_which_a_backup_has_the_beginning_goes_on_after_a_reconciliation(
    both: World, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.tar"
    write_backup(both.curator, backup)
    lost = both.curator.identity.create_token("cleo", Role.ANALYST)
    with restored(both, tmp_path / "again", backup) as curator:
        done = {one.population: one for one in reconcile(curator.ledger, actor="operator:test", anchor_lost=False)}
        assert done[REGISTER].lost_through == done[REGISTER].kept_through + 2
        assert done[REGISTER].written_off == 0
        assert curator.start() == ""
        curator.identity.create_token("dan", Role.ANALYST)
        assert curator.ledger.verify(REGISTER).ok
        with pytest.raises(AuthenticationRequired):
            curator.identity.authenticate(f"Bearer {lost.text}")
        curator.identity.authenticate(f"Bearer {both.tokens['ada']}")


@contextmanager
def restored(world: World, folder: Path, backup: Path) -> Iterator[Curator]:
    """Return a curator on an empty database, restored from a backup, with the anchor and the keys of the lost one."""
    folder.mkdir()
    lost = world.settings
    places = {"data_dir": folder / "data", "keys_dir": lost.keys_folder, "anchor_dir": lost.anchor_folder}
    curator = make_curator(lost.model_copy(update={**places, "database_url": None}), now=world.clock)
    try:
        read_backup(curator, backup)
        curator.keys.recover("2026-03-01T12:00:00Z")
        yield curator
    finally:
        curator.close()


# --- Tokens count as far as the register attests them


def invent_token(world: World, name: str, roles: str, run: Callable[..., Any]) -> str:
    """Write rows of a principal and a token, as whoever has the database's login can."""
    token = make_token()
    run(
        f"INSERT INTO principals (id, name, roles, created_at) VALUES ('prn_{'f' * 24}', '{name}', '{roles}', 'x')",
        "INSERT INTO tokens (id, principal_id, secret_hash, created_at, expires_at) VALUES "
        f"('{token.id}', 'prn_{'f' * 24}', '{token.secret_hash}', '2026-01-01T00:00:00Z', '2036-01-01T00:00:00Z')",
    )
    return token.text


def test_whoever_writes_rows_invents_no_analyst(both: World) -> None:
    api = both.api(None)
    assert works(api, both.tokens["ada"])
    invented = invent_token(both, "mallory", "analyst,privacy_officer", both.sql)
    assert not works(api, invented)
    assert both.curator.ledger.verify(REGISTER).ok  # nothing is wrong with the chain: the rows are worth nothing


def test_an_entry_that_the_curator_did_not_sign_attests_nothing(both: World) -> None:
    invented = invent_token(both, "mallory", "analyst", both.sql)
    token_id = invented.split("_")[1]
    ((secret_hash,),) = both.sql(f"SELECT secret_hash FROM tokens WHERE id = '{token_id}'")
    said = {"kind": "principal", "principal": f"prn_{'f' * 24}", "name": "mallory", "roles": ["analyst"]}
    issued = {"kind": "token", "token": token_id, "principal": f"prn_{'f' * 24}", "holder": "mallory", "scopes": []}
    issued |= {"expires_at": "2036-01-01T00:00:00Z", "commitment": commitment(token_id, secret_hash)}
    model = last_act(both)
    for sequence, payload in ((10_000, said), (10_001, issued)):
        text = json.dumps({name: model[name] for name in ("format", "epoch", "limit", "posted", "pending", "key_id")}
                          | {"population": REGISTER, "sequence": sequence, "units": "0", "actor": "x", "time": "x"}
                          | {"previous_hash": "0" * 64} | payload)  # fmt: skip
        both.sql(
            "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) VALUES "
            f"('{REGISTER}', {sequence}, '{text}', '{'0' * 64}', '{model['signature']}')"
        )
    api = both.api(None)
    assert not works(api, invented)
    # Nor does what stands there hide what is true below it.
    assert works(api, both.tokens["ada"])


def test_whoever_writes_rows_widens_no_role(both: World) -> None:
    api = both.api(None)
    both.sql("UPDATE principals SET roles = 'analyst,privacy_officer' WHERE name = 'ada'")
    both.sql("UPDATE tokens SET scopes = 'analyst,privacy_officer'")
    problem(api.get("/v1/admin/proposals", token=both.tokens["ada"]), "permission-denied", 403)
    assert api.get("/v1/me", token=both.tokens["ada"]).json()["roles"] == ["analyst"]


def test_a_token_does_not_get_with_its_row_what_it_was_not_made_for(both: World) -> None:
    token = both.curator.identity.create_token("root", Role.AUDITOR, read_only=True)
    both.sql("UPDATE tokens SET scopes = 'auditor,operator'")
    found = both.api(None).get("/v1/me", token=token.text).json()
    assert (found["roles"], found["read_only"]) == (["auditor"], True)
    both.sql("UPDATE tokens SET scopes = ''")
    problem(both.api(None).get("/v1/me", token=token.text), "permission-denied", 403)


def test_a_role_that_was_taken_away_does_not_come_back_with_its_row(both: World) -> None:
    """The token was made with it, and the row says it again."""
    api = both.api(None)
    both.curator.identity.set_roles("root", Role.AUDITOR, actor="operator:test")
    both.sql("UPDATE principals SET roles = 'steward,privacy_officer,auditor,operator' WHERE name = 'root'")
    assert api.get("/v1/me", token=both.tokens["root"]).json()["roles"] == ["auditor"]


def test_whoever_writes_rows_narrows_a_role_at_most(both: World) -> None:
    api = both.api(None)
    both.sql("UPDATE principals SET roles = 'auditor' WHERE name = 'root'")
    assert api.get("/v1/me", token=both.tokens["root"]).json()["roles"] == ["auditor"]


@pytest.mark.parametrize("change", ["tokens SET scopes", "principals SET roles"])
def test_a_row_with_a_word_that_is_no_role_hides_no_other(both: World, change: str) -> None:
    both.add_token("opal", Role.OPERATOR)
    both.add_token("mallory", Role.ANALYST)
    ((token,),) = both.sql("SELECT t.id FROM tokens t JOIN principals p ON p.id = principal_id WHERE name = 'mallory'")
    place = f"id = '{token}'" if change.startswith("tokens") else "name = 'mallory'"
    both.sql(f"UPDATE {change} = 'analyst,king' WHERE {place}")
    api, opal = both.api("opal"), Person(both, "opal")
    assert len(api.get("/v1/admin/tokens").json()["tokens"]) == len(both.tokens)
    for page in ("/admin/tokens", "/admin/people", f"/admin/tokens/{token}/rotate"):
        assert opal.get(page).status_code == 200
    assert both.api("mallory").get("/v1/me").json()["roles"] == ["analyst"]
    assert both.curator.start() == ""
    assert api.post(f"/v1/admin/tokens/{token}/revoke", json={}).status_code == 200
    assert not works(api, both.tokens["mallory"])


@pytest.mark.parametrize("payload", ["x", "[]", "{}"])
def test_a_row_of_the_log_that_is_no_entry_hides_no_other(both: World, payload: str) -> None:
    both.add_token("olga", Role.PRIVACY_OFFICER)
    for chain in (REGISTER, "town"):
        both.sql(
            "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) "
            f"VALUES ('{chain}', 1000, '{payload}', '{'0' * 64}', '')"
        )
    for address in ("/v1/admin/register?limit=1000", "/v1/ledger/town?limit=1000"):
        entries = both.api("olga").get(address).json()["entries"]
        assert (len(entries) > 1, entries[-1]["entry_hash"]) == (True, "0" * 64)


@pytest.mark.parametrize("previous", ["nothing", ""])
def test_keys_that_were_put_beside_the_curator_s_attest_nobody(both: World, previous: str) -> None:
    """Whoever can insert keys could otherwise make every process forget what attestation is."""
    invented = invent_token(both, "mallory", "analyst,privacy_officer", both.sql)
    stray = f"INSERT INTO signing_keys VALUES ('key_{'0' * 32}', 'x', '2026-03-01T12:00:00Z', '{previous}', 'x')"
    if previous:
        both.sql(stray)
    else:  # in the place of the first one, as only the database's owner can put it there
        forget_keys(both)
        both.sql(stray)
    api = both.api(None)
    assert not works(api, invented)
    # What is stored is served, as ever while the ledger is in doubt, to those of whom the curator's own keys tell.
    assert works(api, both.tokens["ada"]) is bool(previous)


def forget_keys(world: World) -> None:
    if world.curator.database.is_sqlite:
        ((trigger,),) = world.sql("SELECT sql FROM sqlite_master WHERE name = 'signing_keys_no_delete'")
        world.sql("DROP TRIGGER signing_keys_no_delete", "DELETE FROM signing_keys", trigger)
    else:
        switch = "ALTER TABLE signing_keys {} TRIGGER USER"
        world.sql(switch.format("DISABLE"), "DELETE FROM signing_keys", switch.format("ENABLE"))


def test_another_secret_in_somebody_s_row_is_nobody_s(both: World) -> None:
    api, mine = both.api(None), make_token()
    ada = both.tokens["ada"].split("_")[1]
    both.sql(f"UPDATE tokens SET secret_hash = '{mine.secret_hash}' WHERE id = '{ada}'")
    assert not works(api, f"cur_{ada}_{mine.secret}")


def test_another_holder_of_a_row_is_nobody(both: World) -> None:
    """Ben's token, moved to ada's principal, who may do the same, is neither's."""
    api = both.api(None)
    both.sql(
        "UPDATE tokens SET principal_id = (SELECT id FROM principals WHERE name = 'ada') WHERE principal_id = "
        "(SELECT id FROM principals WHERE name = 'ben')"
    )
    assert not works(api, both.tokens["ben"])


def test_a_token_whose_holder_is_gone_is_nobody_s(world: World) -> None:
    """No way of the curator's leads there; whoever writes rows may have deleted one, or a restore lost it."""
    api, person = world.api(None), Person(world, "ada")
    assert works(api, world.tokens["ada"])
    assert person.get("/admin").status_code == 200
    with sqlite3.connect(world.settings.data_dir / "curator.sqlite3") as connection:
        connection.execute("DELETE FROM principals WHERE name = 'ada'")
    for one in (api, world.api(None)):
        assert not works(one, world.tokens["ada"])
    assert person.get("/admin").status_code == 303
    assert works(api, world.tokens["ben"])


def test_a_token_that_was_revoked_does_not_come_back_with_its_row(both: World) -> None:
    api, ada = both.api(None), both.tokens["ada"].split("_")[1]
    assert works(api, both.tokens["ada"])
    both.curator.identity.revoke_token(ada)
    both.sql("UPDATE tokens SET revoked_at = NULL, expires_at = '2099-01-01T00:00:00Z'")
    assert not works(both.api(None), both.tokens["ada"])


def test_a_token_does_not_outlive_what_was_registered(both: World) -> None:
    api = both.api(None)
    both.sql("UPDATE tokens SET expires_at = '2099-01-01T00:00:00Z'")
    assert works(api, both.tokens["ada"])
    both.clock.advance(days=91)
    assert not works(api, both.tokens["ada"])


@pytest.mark.postgres
def test_the_service_s_login_invents_no_analyst(town: World) -> None:
    import psycopg

    def run(*statements: str) -> None:
        assert town.settings.database_url is not None
        with psycopg.connect(service_url(town.settings.database_url)) as connection:
            for statement in statements:
                connection.execute(statement)

    assert not works(town.api(None), invent_token(town, "mallory", "analyst", run))


def test_a_worker_that_runs_knows_what_another_one_issued_and_revoked(both: World) -> None:
    api = both.api(None)
    assert works(api, both.tokens["ada"])  # it has read the register
    token = both.curator.identity.create_token("cleo", Role.ANALYST)
    assert works(api, token.text)
    both.curator.identity.set_roles("cleo", Role.ANALYST, Role.AUDITOR, actor="operator:test")
    wider = both.curator.identity.create_token("cleo", Role.AUDITOR)
    assert api.get("/v1/me", token=wider.text).json()["roles"] == ["auditor"]
    both.curator.identity.revoke_token(token.id)
    assert not works(api, token.text)


# --- Under a seal


def test_a_token_is_revoked_under_a_seal_and_the_entry_follows(both: World) -> None:
    api, identity = both.api(None), both.curator.identity
    ada = both.tokens["ada"].split("_")[1]
    before = acts(both)
    both.curator.ledger.guard.seal("an incident")
    assert api.post(f"/v1/admin/tokens/{ada}/revoke", token=both.tokens["root"]).status_code == 200
    assert not works(api, both.tokens["ada"])
    assert acts(both) == before
    with pytest.raises(LedgerUnverified):
        identity.create_token("cleo", Role.ANALYST)
    reconcile(both.curator.ledger, actor="operator:test", anchor_lost=False)
    identity.start()
    assert (last_act(both)["kind"], last_act(both)["token"]) == ("token-revoked", ada)
    assert last_act(both)["actor"] == both.api("root").get("/v1/me").json()["id"]
    count = len(acts(both))
    identity.settle()
    assert len(acts(both)) == count
    assert both.curator.ledger.verify(REGISTER).ok


def test_roles_of_admin_are_all_but_the_analyst_s() -> None:
    assert set(ADMIN) == set(Role) - {Role.ANALYST}
