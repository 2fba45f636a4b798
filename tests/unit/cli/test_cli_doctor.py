"""Findings of the doctor: of a new curator, of a sound one, and of one with a fault at each place."""

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import World
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.identity.oidc.providers import IdentityProviders
from curator_service.kit.milestones import Milestone, note


def examine(folder: Path, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status, and what was found by what was looked at: the worst, where there are several."""
    found = CliRunner().invoke(app, ["doctor", "--json"], env={"CURATOR_DATA_DIR": str(folder / "data"), **environment})
    order = ["well", "care", "ill"]
    listed = sorted(json.loads(found.stdout), key=lambda finding: order.index(finding["state"]))
    return found.exit_code, {finding["what"]: finding for finding in listed}


def test_of_a_new_one_nothing_is_wrong_yet(tmp_path: Path) -> None:
    status, found = examine(tmp_path)
    assert status == 0
    assert found["arithmetic"]["state"] == "well"
    assert found["schema"]["found"] == "the database is empty"


def test_a_sound_one_is_told_what_to_take_care_of(world: World) -> None:
    status, found = examine(world.folder)
    assert (status, found["ledger"]["state"], found["rows"]["state"]) == (0, "well", "well")
    assert found["disk of the anchor"]["remedy"].startswith("put CURATOR_ANCHOR_DIR on a disk")
    assert found["backup written"]["found"] == "never"
    note(world.settings.data_dir, Milestone.BACKUP_WRITTEN)
    assert examine(world.folder)[1]["backup written"]["state"] == "well"
    old = time.time() - 3 * 86_400
    os.utime(world.settings.data_dir / Milestone.BACKUP_WRITTEN, (old, old))
    assert examine(world.folder)[1]["backup written"]["state"] == "care"


def break_seal(world: World) -> None:
    world.curator.ledger.guard.seal("somebody changed it")


def lose_rows(world: World) -> None:
    for folder in (world.settings.data_dir / "datasets").glob("ds_*"):
        shutil.rmtree(folder)


def open_the_keys(world: World) -> None:
    world.settings.keys_folder.chmod(0o755)


def age_the_schema(world: World) -> None:
    world.sql("UPDATE alembic_version SET version_num = '0008'")


def fail_to_verify(world: World) -> None:
    note(world.settings.data_dir, Milestone.LEDGER_VERIFIED, is_well=False)


def wind_back(world: World) -> None:
    world.sql(
        "DROP TRIGGER ledger_entries_no_delete",
        "DELETE FROM ledger_entries WHERE population = 'town' AND sequence = 4",
        "UPDATE populations SET head_sequence = 3 WHERE name = 'town'",
    )


@pytest.mark.parametrize(
    ("fault", "what", "remedy"),
    [
        (break_seal, "ledger", "reconcile"),
        (lose_rows, "rows", "backup"),
        (open_the_keys, "keys", "chmod 700"),
        (age_the_schema, "schema", "db upgrade"),
        (fail_to_verify, "ledger verified", "curator ledger verify"),
        (wind_back, "ledger", "docs/ledger.md#recovery"),
    ],
)
def test_a_fault_is_named_with_what_to_do(world: World, fault: Any, what: str, remedy: str) -> None:
    fault(world)
    status, found = examine(world.folder)
    assert (status, found[what]["state"]) == (1, "ill"), found
    assert remedy in found[what]["remedy"]


def providers(secret: Path, **changes: Any) -> str:
    """Return the setting of a provider that nobody can reach."""
    browser = {"client_id": "dashboard", "client_secret_file": str(secret)}
    told = {"issuer": "http://127.0.0.1:1", "name": "hospital", "audience": "curator", "roles": {}, "browser": browser}
    return json.dumps([told | changes])


def test_a_browser_s_client_is_looked_at(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret", encoding="utf-8")
    setting = {"CURATOR_PROVIDERS": providers(secret)}
    status, found = examine(world.folder, **setting)
    assert status == 1
    assert "public_url, which is not set" in found["settings"]["found"]
    setting["CURATOR_PUBLIC_URL"] = "https://curator.example"
    status, found = examine(world.folder, **setting)
    assert (status, found["sign-in at hospital"]["state"]) == (1, "ill")
    assert "does not describe itself" in found["sign-in at hospital"]["found"]
    described = {"issuer": "http://127.0.0.1:1", "jwks_uri": "https://h/keys", "authorization_endpoint": "https://h/a"}
    for more, said in (
        ({"token_endpoint": "http://h/t"}, "names no address of https"),
        ({"token_endpoint": "https://h/t", "code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"token_endpoint": "https://h/t"}, "https://curator.example/admin/sign-in/hospital/callback"),
    ):
        told = described | more
        monkeypatch.setattr(IdentityProviders.__init__, "__defaults__", (lambda *_, told=told: told,))
        assert said in examine(world.folder, **setting)[1]["sign-in at hospital"]["found"]
    assert "a secret" not in json.dumps(found)


def test_a_client_that_would_mix_up_tokens_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret", encoding="utf-8")
    setting = {"CURATOR_PROVIDERS": providers(tmp_path / "secret", audience="dashboard")}
    found = examine(tmp_path, CURATOR_PUBLIC_URL="https://curator.example", **setting)[1]["settings"]["found"]
    assert "providers.0: browser.client_id is another than audience" in found


def test_a_setting_that_cannot_be_read_is_named_and_its_value_is_not(tmp_path: Path) -> None:
    for name in ("port", "proxy"):
        status, found = examine(tmp_path, **{f"CURATOR_{name.upper()}": "a secret"})
        assert status == 1
        assert name in found["settings"]["found"]
        assert "a secret" not in json.dumps(found)


@pytest.mark.parametrize(("days", "state"), [(-3, "ill"), (0, "well"), (200, "well")])
def test_a_clock_that_is_behind_the_ledger_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, days: int, state: str
) -> None:
    moment = datetime.fromisoformat(world.curator.ledger.find_newest_moment()) + timedelta(days=days)
    monkeypatch.setattr("curator_service.cli.doctor.utc_now", lambda: moment)
    monkeypatch.setattr("curator_service.kit.db.Database.now", lambda _: moment)
    status, found = examine(world.folder)
    assert (found["clock"]["state"], status) == (state, int(state == "ill"))
    if days < 0:
        assert "3.0 days before the newest entry of the ledger" in found["clock"]["found"]
    assert ("200.0 days after the newest entry of the ledger" in found["clock"]["found"]) is (days > 0)


def test_a_task_of_a_clock_that_was_ahead_is_not_taken_for_a_fresh_one(world: World) -> None:
    for milestone, days in ((Milestone.LEDGER_VERIFIED, 30), (Milestone.BACKUP_WRITTEN, 0)):
        note(world.settings.data_dir, milestone)
        moment = time.time() + days * 86_400
        os.utime(world.settings.data_dir / milestone, (moment, moment))
    found = examine(world.folder)[1]
    assert [found[name]["state"] for name in ("ledger verified", "backup written")] == ["care", "well"]


def test_a_clock_apart_from_the_database_server_s_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    monkeypatch.setattr("curator_service.kit.db.Database.now", lambda _: ahead)
    status, found = examine(world.folder)
    assert status == 1
    assert "60 minutes from that of the database's server" in found["clock"]["found"]
