"""From a question to a permitted, answered, checkable output: one human decision, by the commands that people have."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from served_worlds import serve_world
from support import World

from analyst_client import CuratorAdmin, CuratorClient
from analyst_client.admin.command import main
from analyst_client.errors import PermitExpiredError, PermitNeededError
from analyst_client.verify import main as verify
from curator_service.identity.policy import Role

TERMS = {
    "purpose": "kidneys",
    "legal_basis": "consent",
    "expires_at": "2099-01-01T00:00:00Z",
    "reason": "the study of protocol 14",
}


class Desk:
    """Somebody's own machine: the address of the curator, and their token."""

    def __init__(self, url: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url, self.token, self.monkeypatch = url, token, monkeypatch

    def run(self, *words: str) -> tuple[int, str]:
        """Run the command; return its status, and what it wrote."""
        self.monkeypatch.setenv("CURATOR_TOKEN", self.token)
        self.monkeypatch.setenv("CURATOR_SERVER", self.url)
        written = io.StringIO()
        with redirect_stdout(written), redirect_stderr(written):
            status = main(words)
        return status, written.getvalue()

    def json(self, *words: str) -> Any:
        status, written = self.run("--json", *words)
        assert status == 0, written
        return json.loads(written)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[World, str]]:
    with serve_world(tmp_path / "world") as (world, url):
        for officer in ("olga", "otto"):
            world.add_token(officer, Role.PRIVACY_OFFICER)
        yield world, url


def test_from_a_question_to_a_checkable_output(
    served: tuple[World, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, url = served
    with CuratorClient(url, world.tokens["ada"], memory=None) as client:
        with pytest.raises(PermitNeededError) as needed:
            client.release("cohort", ["age"], target="kappa", mu=0.02, project="kidney")
        assert needed.value.projects == ()
        asked = client.ask_permit("kidney", ["cohort"], people=["ada"], limit={"mu": 0.1}, **TERMS)
        officer = Desk(url, world.tokens["olga"], monkeypatch)
        (shown,) = officer.json("proposals", "list")
        assert (shown["id"], shown["state"], shown["terms"]["purpose"]) == (asked.id, "open", "kidneys")
        assert (
            officer.json("proposals", "approve", asked.id, "--yes", "--reason", "as discussed")["state"] == "approved"
        )
        (permit, plain) = client.permits()
        assert (permit.project, permit.limits, plain.project) == ("kidney", {"town": 10**10}, "")
        release = client.release("cohort", ["age"], target="kappa", rows="box", mu=0.02, project="kidney")
        assert release.receipt["permit"] == permit.id
        release.save(tmp_path / "release.json")
        keys = tmp_path / "keys.json"
        keys.write_text(world.api("ada").get("/v1/keys").text, encoding="utf-8")
        assert verify([str(tmp_path / "release.json"), "--key", str(keys)]) == 0
        (spent,) = (s for s in officer.json("spending", "--by", "project") if s["group"]["project"] == "kidney")
        assert (spent["charges"], spent["spent"]["units"]) == (1, int(release.receipt["units"]))
        ended = officer.json("permits", "end", permit.id, "--reason", "done", "--yes")
        assert (ended["id"], bool(ended["ended_at"])) == (permit.id, True)
        assert [use["permit"] for use in ended["still_usable"]] == [plain.id]
        with pytest.raises(PermitNeededError):
            client.release("cohort", ["age"], target="lambda", mu=0.02, project="kidney")
        entry = officer.json("ledger", "show", "town")[-1]
        assert (entry["kind"], entry["people"]) == ("permit", {})


def test_a_budget_is_given_and_raised_by_two(served: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    world, url = served
    olga, otto = (Desk(url, world.tokens[name], monkeypatch) for name in ("olga", "otto"))
    words = ("city", "--adjacency", "add_remove", "--epsilon", "1", "--delta", "1e-6", "--reason", "a second cohort")
    proposed = olga.json("populations", "propose", *words)
    assert (proposed["scope"], proposed["state"]) == ("population", "open")
    status, written = olga.run("proposals", "approve", proposed["id"], "--yes")
    assert (status, "another privacy officer" in written) == (1, True)
    assert otto.json("proposals", "approve", proposed["id"], "--yes")["state"] == "approved"
    city = next(account for account in otto.json("populations", "list") if account["population"] == "city")
    assert city["limit"]["epsilon"] == pytest.approx(1.0)
    assert world.curator.ledger.verify("city").ok
    opened = world.entries("city")[0]
    assert opened["actor"] != opened["approved_by"]
    assert olga.run("populations", "propose", *words)[0] == 1
    limit = ("limits", "set", "city", "--mu", "0.1", "--reason", "less")
    assert olga.run(*limit)[0] == 1  # nobody can be asked whether it is meant
    assert olga.json(*limit, "--yes")["state"] == "applied"


def test_a_command_says_what_went_wrong(served: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    world, url = served
    ada = Desk(url, world.tokens["ada"], monkeypatch)
    assert ada.run("spending")[0] == 1
    assert Desk(url, f"cur_{'0' * 60}", monkeypatch).run("permits", "list")[0] == 3
    assert Desk("http://127.0.0.1:9", world.tokens["ada"], monkeypatch).run("ledger", "status")[0] == 3
    with pytest.raises(SystemExit, match="2"):
        ada.run("permits", "end")
    status, shown = ada.run("permits", "list")
    assert (status, "cohort" in shown, world.tokens["ada"] in shown) == (0, True, False)


def test_lists_show_themselves_as_tables(served: tuple[World, str]) -> None:
    world, url = served
    with CuratorAdmin(url, world.tokens["root"]) as admin:
        assert "town" in str(admin.list_populations())
        assert "ada" in str(admin.list_permits())
        assert admin.get_seal().sealed is False
        assert "Spending" in str(admin.list_spending())
        assert len(admin.list_proposals()) == 0
        assert [entry["kind"] for entry in admin.list_entries("valley")] == ["open", "dataset"]


def test_an_expired_permit_is_an_error_of_its_own(served: tuple[World, str]) -> None:
    world, url = served
    permit = world.permit()
    world.sql(f"UPDATE shares SET expires_at = '2020-01-01T00:00:00Z' WHERE permit_id = '{permit}'")
    with CuratorClient(url, world.tokens["ada"], memory=None) as client, pytest.raises(PermitExpiredError):
        client.release("cohort", ["age"], target="kappa", mu=0.02, project="kidney")


def test_it_needs_nothing_of_the_server() -> None:
    """An officer's desk has the client alone."""
    import analyst_client.admin.command

    source = Path(analyst_client.admin.command.__file__).read_text(encoding="utf-8")
    assert "curator_service" not in source
    assert "typer" not in source
