"""Administration from afar, over HTTP: every command by every role, answers that are lost, one's own proposals."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_worlds import serve_world
from support import World

import analyst_client.admin.curator_admin
from analyst_client import CuratorAdmin, CuratorClient, RequestInvalidError
from analyst_client.admin.command import TABLE, main
from analyst_client.admin.listing import write_csv
from analyst_client.errors import ConflictError, JobEndedError, PermissionDeniedError, ReservationEndedError
from analyst_client.schema.administration import Spent
from analyst_client.schema.amounts import Amount
from curator_service.cli.main import Commands
from curator_service.entries.base import REGISTER
from curator_service.identity.policy import POLICY, READING, Action, Role
from curator_service.ledger.trust.recovery import reconcile

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
LIMIT = ("--mu", "0.1")
WHY = ("--reason", "why")
PERMIT, PROPOSAL = f"prm_{'0' * 24}", f"prp_{'0' * 24}"
TERMS = {"people": ["ada"], "datasets": ["cohort"], "project": "kidney", "purpose": "kidneys", "legal_basis": "consent"}
TERMS |= {"expires_at": "2099-01-01T00:00:00Z", "reason": "a study"}

# Of each command what it is tried with, and what the policy asks of whoever gives it. Nothing that is named is there.
TRIED: Mapping[str, tuple[tuple[str, ...], Action]] = {
    "whoami": ((), Action.READ_SELF),
    "populations list": ((), Action.READ_POPULATIONS),
    "populations propose": (("town", "--adjacency", "add_remove", *LIMIT, *WHY), Action.SET_LIMIT),
    "limits set": (("nowhere", *LIMIT, *WHY), Action.SET_LIMIT),
    "datasets list": ((), Action.READ_DATASET),
    "datasets show": (("nothing",), Action.READ_DATASET),
    "proposals list": ((), Action.READ_PROPOSALS),
    "proposals show": ((PROPOSAL,), Action.READ_PROPOSALS),
    "proposals own": ((), Action.READ_OWN_PROPOSALS),
    "proposals show-own": ((PROPOSAL,), Action.READ_OWN_PROPOSALS),
    "proposals approve": ((PROPOSAL,), Action.SET_LIMIT),
    "proposals reject": ((PROPOSAL, *WHY), Action.SET_LIMIT),
    "proposals withdraw": ((PROPOSAL,), Action.WITHDRAW),
    "proposals ask-back": ((PROPOSAL, "--text", "why?"), Action.SET_LIMIT),
    "proposals answer": ((PROPOSAL, "--text", "so"), Action.DISCUSS),
    "permits list": ((), Action.READ_PERMIT),
    "permits show": ((PERMIT,), Action.READ_PERMIT),
    "permits grant": (("not a name", "cohort", *WHY), Action.ASK_PERMIT),
    "permits revoke": (("nobody", "cohort", *WHY), Action.END_PERMIT),
    "permits ask": (("{past}",), Action.ASK_PERMIT),
    "permits change": ((PERMIT, "{file}"), Action.ASK_PERMIT),
    "permits end": ((PERMIT, *WHY), Action.END_PERMIT),
    "principals list": ((), Action.READ_PRINCIPALS),
    "principals name": (("nobody-here", "--display-name", "Ada"), Action.NAME),
    "principals forget": (("nobody-here",), Action.ERASE_NAME),
    "tokens list": ((), Action.READ_PRINCIPALS),
    "tokens create": (("root", "--role", "analyst"), Action.ISSUE),
    "tokens rotate": (("--grace", "604801"), Action.ROTATE),
    "tokens revoke": (("0" * 16,), Action.REVOKE),
    "jobs list": ((), Action.READ_JOB),
    "jobs cancel": ((f"job_{'0' * 24}",), Action.END_RESERVATION),
    "reservations list": ((), Action.READ_RESERVATION),
    "sessions list": ((), Action.READ_RESERVATION),
    "sessions close": ((f"ses_{'0' * 24}",), Action.END_RESERVATION),
    "reservations release": ((f"res_{'0' * 24}",), Action.END_RESERVATION),
    "surveys list": ((), Action.READ_REPORTS),
    "surveys open": (("{file}",), Action.COLLECT),
    "surveys invite": (("unheard-of",), Action.COLLECT),
    "surveys close": (("unheard-of",), Action.COLLECT),
    "spending": ((), Action.READ_SPENDING),
    "evidence": ((PERMIT, "--out", "{out}"), Action.READ_PERMIT_EVIDENCE),
    "ledger show": (("town",), Action.READ_LEDGER),
    "ledger register": ((), Action.READ_REGISTER),
    "ledger questions": (("nowhere",), Action.READ_LEDGER),
    "ledger question": (("rel_" + "0" * 24,), Action.READ_LEDGER),
    "ledger checkpoint": (("town",), Action.READ_LEDGER),
    "ledger status": ((), Action.READ_LEDGER),
    "keys list": ((), Action.READ_KEYS),
    "health": ((), Action.READ_HEALTH),
}


class Desk:
    """Somebody's own machine: the address of the curator, and their token."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run the command, away from a terminal; return its status, and what it wrote."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("CURATOR_TOKEN", self.token)
            patch.setenv("CURATOR_SERVER", self.url)
            status = main(words)
        return status, out.getvalue(), err.getvalue()

    def json(self, *words: str) -> Any:
        status, out, err = self.run(*words, "--json")
        assert status == 0, err
        return json.loads(out)


class LosingAnswers(httpx.BaseTransport):
    """Carries every request, and loses the first answer to each that changes something."""

    def __init__(self) -> None:
        self.carrier, self.lost = httpx.HTTPTransport(), 0
        self.seen: set[tuple[str, str, bytes]] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.carrier.handle_request(request)
        asked = (request.method, str(request.url), request.read())
        if request.method == "GET" or asked in self.seen:
            return answer
        self.seen.add(asked)
        answer.read()
        answer.close()
        self.lost += 1
        raise httpx.ReadError("the answer was lost", request=request)

    def close(self) -> None:
        self.carrier.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    with serve_world(tmp_path_factory.mktemp("remote")) as (world, url):
        for officer in ("olga", "otto"):
            world.add_token(officer, Role.PRIVACY_OFFICER)
        world.add_token("stella", Role.STEWARD)
        world.add_token("oscar", Role.OPERATOR)
        yield world, url


@pytest.fixture
def forgetful(served: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], CuratorAdmin]:
    """Return what makes an administrator whose first answers are lost."""
    monkeypatch.setattr("analyst_client.http.transport.delay_before", lambda *_: 0.0)
    world, url = served

    def make(who: str) -> CuratorAdmin:
        return CuratorAdmin(url, world.tokens[who], transport=LosingAnswers())

    return make


def acts(world: World) -> list[dict[str, Any]]:
    return world.curator.register.list_entries(after=0, count=10_000)


def assert_register_holds(world: World) -> None:
    found = world.curator.ledger.verify(REGISTER)
    assert found.ok, found.reason


# --- The table: commands at the machine, and from afar


def list_host_commands() -> set[str]:
    found = set()
    for name in Commands.places:
        command = Commands.load(name)
        found |= {f"{name} {one}" for one in command.commands} if hasattr(command, "commands") else {name}
    return found


def read_table(heading: str) -> dict[str, str]:
    """Return the rows of a table of the page, by the command in their first cell."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    rows: dict[str, str] = {}
    for line in section.splitlines():
        if rows and not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for command in re.findall(r"`([a-z -]+)`", cells[0]) if line.startswith("| `") else ():
            rows[command] = cells[1]
    return rows


def test_a_command_of_the_machine_is_given_from_afar_or_the_page_says_why_not() -> None:
    stays = read_table("### What stays at the machine")
    host = list_host_commands()
    assert len(host) > 40
    assert host - set(TABLE) == set(stays)
    assert all(len(reason.split()) >= 4 for reason in stays.values())
    assert set(TABLE) - host == set(read_table("### What there is from afar alone"))


def test_every_method_of_the_client_is_a_command() -> None:
    methods = {name for name in dir(CuratorAdmin) if not name.startswith("_")} - {"sign_in"}
    assert {command.method for command in TABLE.values()} | {"iterate_entries", "iterate_register"} == methods
    folder = Path(analyst_client.admin.curator_admin.__file__ or "").parent
    assert not [path for path in folder.glob("*.py") if "curator_service" in path.read_text(encoding="utf-8")]


def test_every_command_is_tried() -> None:
    assert TRIED.keys() == TABLE.keys()


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("role", list(Role))
def test_every_command_by_every_role(served: tuple[World, str], tmp_path: Path, role: Role, looks: bool) -> None:
    """Over HTTP: whoever may not is told so, and nobody else is; what may only look changes nothing."""
    world, url = served
    desk = Desk(url, world.curator.identity.create_token(f"only-{role}", role, read_only=looks).text)
    (tmp_path / "terms.json").write_text(json.dumps(TERMS), encoding="utf-8")
    (tmp_path / "past.json").write_text(json.dumps(TERMS | {"expires_at": "2020-01-01T00:00:00Z"}), encoding="utf-8")
    chains = (REGISTER, "town", "valley")
    before = [world.curator.ledger.list_entries(chain, count=10_000) for chain in chains]
    wrong = []
    for words, (arguments, action) in TRIED.items():
        yes = ("--yes",) if TABLE[words].consequence else ()
        given = [
            one.format(file=tmp_path / "terms.json", past=tmp_path / "past.json", out=tmp_path / "pack.zip")
            for one in arguments
        ]
        status, _, err = desk.run(*words.split(), *given, *yes)
        is_denied = "may not" in err or "may only look" in err
        may = role in POLICY[action] and (not looks or action in READING)
        if is_denied is may or status not in {0, 1} or (is_denied and status != 1):
            wrong.append((words, status, err))
    assert wrong == []
    assert [world.curator.ledger.list_entries(chain, count=10_000) for chain in chains] == before


# --- What commands do


def test_a_command_says_what_it_did_in_text_and_in_json(served: tuple[World, str], tmp_path: Path) -> None:
    world, url = served
    olga, oscar, audra = (Desk(url, world.tokens[who]) for who in ("olga", "oscar", "audra"))
    assert olga.json("whoami")["roles"] == ["privacy_officer"]
    assert {one["population"] for one in olga.json("populations", "list")} == {"town", "valley"}
    assert olga.json("datasets", "show", "cohort")["population"] == "town"
    assert "cohort" in olga.run("datasets", "list")[1]
    made = oscar.json("tokens", "create", "cleo", "--role", "analyst", "--days", "3")
    status, shown, said = oscar.run("tokens", "create", "cleo", "--role", "analyst", "--read-only")
    assert (status, shown.startswith("cur_"), "cleo (analyst)" in said, shown.count("\n")) == (0, True, True, 1)
    assert made["token"] not in oscar.run("tokens", "list")[1]
    cleo = Desk(url, made["token"])
    rotated = cleo.json("tokens", "rotate", "--grace", "0", "--yes")
    assert cleo.run("whoami")[0] == 3
    assert Desk(url, rotated["token"]).json("whoami")["name"] == "cleo"
    assert oscar.json("tokens", "revoke", rotated["id"], "--yes")["revoked_at"]
    assert Desk(url, rotated["token"]).run("whoami")[0] == 3
    assert "cleo" in {one["name"] for one in oscar.json("principals", "list")}
    (key,) = olga.json("keys", "list")
    assert audra.json("ledger", "checkpoint", "town")["key_id"] == key["key_id"]
    lines = audra.run("ledger", "register", "--all")[1].splitlines()
    assert [json.loads(line) for line in lines] == acts(world)
    assert audra.json("ledger", "register", "--after", "1", "--limit", "1")[0]["sequence"] == 2
    status, shown, _ = audra.run("ledger", "status")
    assert (status, shown) == (0, "open\n")


def test_open_sessions_are_listed_for_people(served: tuple[World, str]) -> None:
    world, url = served
    with (
        CuratorClient(url, world.tokens["ben"], memory=None) as client,
        client.threshold_session("cohort", positives=3, epsilon=0.01) as session,
    ):
        status, shown, err = Desk(url, world.tokens["olga"]).run("sessions", "list")
        assert (status, err) == (0, "")
        (row,) = [line for line in shown.splitlines() if session.opened.id in line]
        assert row.split()[1:] == ["ben", "cohort", "3", "0", "0.04295"]


def test_spending_is_written_for_programs_and_spreadsheets(served: tuple[World, str]) -> None:
    world, url = served
    audra = Desk(url, world.tokens["audra"])
    with CuratorClient(url, world.tokens["ben"], memory=None) as client:
        release = client.release("cohort", ["age"], target="kappa", rows="box", mu=0.02)
    (line,) = audra.run("spending", "--format", "jsonl", "--by", "analyst", "--population", "town")[1].splitlines()
    assert json.loads(line)["group"] == {"analyst": "ben"}
    head, *rows = audra.run("spending", "--format", "csv", "--by", "analyst", "--by", "month")[1].splitlines()
    assert head == "population,analyst,month,charges,units,epsilon,delta,mu,rho"
    assert rows[0].startswith("town,ben,20")
    assert audra.json("spending", "--population", "valley") == []
    status, _, err = audra.run("spending", "--population", "nowhere")
    assert (status, "no population" in err) == (1, True)
    with CuratorAdmin(url, world.tokens["audra"]) as admin:
        assert sum(one["kind"] == "charge" for one in admin.iterate_entries("town")) == 1
    assert release.receipt["kind"] == "charge"


def test_no_cell_is_a_formula() -> None:
    amount = Amount(0.1, 0.005, 0.5, 1e-6, 10)
    text = write_csv([Spent("=1+1", {"analyst": "@cmd"}, 1, amount)], ["analyst"])
    assert text.splitlines()[1].startswith("'=1+1,'@cmd,1,10,")


def test_pages_of_entries_go_on_to_the_end(served: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    world, url = served
    monkeypatch.setattr("analyst_client.admin.curator_admin.PAGE", 2)
    with CuratorAdmin(url, world.tokens["audra"]) as admin:
        assert list(admin.iterate_register()) == acts(world)
        assert list(admin.iterate_entries("valley")) == world.entries("valley")
        assert list(admin.iterate_entries("valley", after=1)) == world.entries("valley")[1:]


def test_evidence_of_a_release_and_of_a_permit(served: tuple[World, str], tmp_path: Path) -> None:
    world, url = served
    olga, audra = Desk(url, world.tokens["olga"]), Desk(url, world.tokens["audra"])
    with CuratorClient(url, world.tokens["ben"], memory=None) as client:
        release = client.release("cohort", ["age"], target="lambda", mu=0.02)
    permit = release.receipt["permit"]

    def names(desk: Desk, subject: str, *words: str) -> set[str]:
        out = tmp_path / "pack.zip"
        assert desk.json("evidence", subject, "--out", str(out), *words)["file"] == str(out)
        with zipfile.ZipFile(out) as archive:
            return {name.rsplit("/", 1)[-1] for name in archive.namelist()}

    assert "answer.json" in names(olga, release.id)
    assert "answer.json" not in names(audra, release.id)
    assert {"receipt.json", "check.html"} <= names(audra, permit)
    assert "answer.json" not in names(olga, permit)
    assert "answer.json" in names(olga, permit, "--with-answers")
    status, _, err = audra.run("evidence", permit, "--with-answers", "--out", str(tmp_path / "no.zip"))
    assert (status, "may not read release" in err, (tmp_path / "no.zip").exists()) == (1, True, False)
    assert olga.run("evidence", "something")[0] == 2


def test_what_is_held_is_listed_to_whoever_may_see_it_and_given_back(served: tuple[World, str]) -> None:
    world, url = served
    asked = {"price": {"mu": 0.1}, "expires_in_s": 600}
    post = {
        who: httpx.Client(base_url=url, headers={"Authorization": f"Bearer {world.tokens[who]}"})
        for who in ("ada", "ben")
    }
    with post["ada"], post["ben"]:
        held = post["ada"].post("/v1/datasets/cohort/reservations", json=asked, headers={"Idempotency-Key": "r"}).json()
        assert [one["id"] for one in post["ada"].get("/v1/reservations").json()["reservations"]] == [held["id"]]
        assert post["ben"].get("/v1/reservations").json() == {"reservations": []}
        assert post["ben"].get("/v1/jobs").json() == {"jobs": []}
    oscar = Desk(url, world.tokens["oscar"])
    (shown,) = oscar.json("reservations", "list")
    assert (shown["id"], shown["holder"], shown["dataset"]) == (held["id"], "ada", "cohort")
    assert shown["remaining"]["units"] == int(held["reserved"]["units"])
    assert oscar.run("reservations", "release", held["id"])[0] == 1  # nobody can be asked whether it is meant
    assert world.account().pending > 0
    assert oscar.json("reservations", "release", held["id"], "--yes")["state"] == "closed"
    assert (world.account().pending, oscar.json("reservations", "list")) == (0, [])
    with CuratorAdmin(url, world.tokens["oscar"]) as admin:
        assert admin.close_reservation(held["id"])["state"] == "closed"  # as for one whose answer was lost
        with pytest.raises(RequestInvalidError):
            admin.cancel_job(f"job_{'0' * 24}")


def test_what_somebody_may_still_use_is_said(served: tuple[World, str]) -> None:
    world, url = served
    olga, otto = Desk(url, world.tokens["olga"]), Desk(url, world.tokens["otto"])
    asked = olga.json("permits", "grant", "ben", "hidden", "--reason", "the study of protocol 7")
    assert (asked["state"], asked["terms"]["people"]) == ("open", ["ben"])
    otto.json("proposals", "approve", asked["id"], "--yes")
    with CuratorClient(url, world.tokens["ben"], memory=None) as client:
        assert {dataset.name for dataset in client.datasets()} == {"cohort", "hidden"}
        project = world.permit("liver", people=["ben"], datasets=["hidden"])
        words = ("permits", "revoke", "ben", "hidden", "--reason", "over", "--yes")
        revoked = olga.json(*words)
        assert revoked["still_usable"] == [
            {"analyst": "ben", "dataset": "hidden", "permit": project, "project": "liver",
             "expires_at": "2099-01-01T00:00:00Z"}
        ]  # fmt: skip
        assert olga.json(*words) == revoked  # asked again, where the answer was lost
        assert otto.run(*words)[0] == 1
        status, shown, _ = olga.run("permits", "end", project, "--reason", "over", "--yes")
        assert (status, "still" in shown) == (0, False)
        assert {dataset.name for dataset in client.datasets()} == {"cohort"}
    assert world.curator.ledger.verify("valley").ok


# --- Proposals


def test_a_proposal_shows_what_would_change(served: tuple[World, str]) -> None:
    world, url = served
    permit = world.permit("spleen", limit={"mu": 0.1})
    terms = TERMS | {"project": "spleen", "people": ["ada", "ben"], "limit": {"mu": 0.2}}
    terms |= {"expires_at": "2099-06-01T00:00:00Z"}
    with CuratorAdmin(url, world.tokens["olga"]) as olga, CuratorAdmin(url, world.tokens["audra"]) as audra:
        asked = olga.change_permit(permit, terms)
        for shown in (audra.get_proposal(asked), olga.get_own_proposal(asked)):
            assert shown.proposer == "olga"
            assert shown.changes["people"] == ("ada", "ada, ben")
            assert shown.changes["limit"] == ("mu = 0.1", "mu = 0.2")
            assert shown.changes["expires_at"] == ("2099-01-01T00:00:00Z", "2099-06-01T00:00:00Z")
            assert shown.changes["datasets"] == ("cohort", "cohort")
            assert "ada → ada, ben" in re.sub(r"\s+", " ", str(shown))
        raised = audra.get_proposal(olga.set_limit("valley", {"mu": 2.0}, "more"))
        before, after = raised.changes["limit"]
        assert (before != after, "→" in str(raised), raised.amounts["to"].mu) == (True, True, pytest.approx(2.0))
        with pytest.raises(PermissionDeniedError):
            audra.approve_proposal(raised)
        olga.withdraw_proposal(raised)
        olga.withdraw_proposal(asked)


@pytest.mark.parametrize("answered", ["y", "n"])
def test_whoever_approves_sees_first_what_would_change(served: tuple[World, str], answered: str) -> None:
    world, url = served
    permit = world.permit(f"eye-{answered}")
    with CuratorAdmin(url, world.tokens["olga"]) as olga:
        asked = olga.change_permit(permit, TERMS | {"project": f"eye-{answered}", "people": ["ada", "ben"]})

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Terminal(f"{answered}\n"))
        status, _, said = Desk(url, world.tokens["otto"]).run("proposals", "approve", asked.id)
    assert "ada → ada, ben" in re.sub(r"\s+", " ", said)
    assert "Is that meant?" in said
    expected = (0, "approved") if answered == "y" else (1, "open")
    assert (status, world.curator.approvals.get_proposal(asked.id).state) == expected
    with CuratorAdmin(url, world.tokens["olga"]) as olga:
        if answered == "n":
            olga.withdraw_proposal(asked)


def test_an_analyst_sees_and_withdraws_their_own_proposals_and_nobody_else_s(served: tuple[World, str]) -> None:
    world, url = served
    with (
        CuratorClient(url, world.tokens["ada"], memory=None) as ada,
        CuratorClient(url, world.tokens["ben"], memory=None) as ben,
        CuratorAdmin(url, world.tokens["olga"]) as olga,
    ):
        texts = {"purpose": "p", "legal_basis": "l", "expires_at": "2099-01-01T00:00:00Z", "reason": "r"}
        first, second = (ada.ask_permit(name, ["cohort"], people=["ada"], **texts) for name in ("one", "two"))
        hidden, absent = (ben.ask_permit("x", [name], people=["ben", "nobody"], **texts) for name in ("hidden", "none"))
        assert {one.id for one in ada.proposals()} == {first.id, second.id}
        for theirs in (hidden, first):
            with pytest.raises(RequestInvalidError) as caught:
                (ada if theirs is hidden else ben).withdraw(theirs)
            with pytest.raises(RequestInvalidError) as unknown:
                ada.withdraw(PROPOSAL)
            assert str(caught.value) == str(unknown.value)
            with pytest.raises(RequestInvalidError):
                (ada if theirs is hidden else ben).proposal(theirs)
        # Whether names are there is not told: what is shown of both is the same.
        seen = [ben.proposal(one) for one in (hidden, absent)]
        assert [(one.state, one.population, one.before, [*one.changes]) for one in seen[:1]] == [
            (one.state, one.population, one.before, [*one.changes]) for one in seen[1:]
        ]
        assert ada.withdraw(first, "not needed").state == "withdrawn"
        assert ada.withdraw(first, "not needed").state == "withdrawn"
        olga.reject_proposal(second, reason="no legal basis is named")
        told = ada.proposal(second)
        assert (told.state, told.decision, told.decider) == ("rejected", "no legal basis is named", "olga")
        with pytest.raises(ConflictError) as decided:
            ada.withdraw(second)
        assert decided.value.slug == "proposal-decided"
        for one in (hidden, absent):
            ben.withdraw(one)
    (asked, *closed) = [act for act in acts(world) if act.get("proposal") == first.id]
    assert (asked["kind"], asked["about"], asked["reason"]) == ("proposed", "permit", "r")
    ((withdrawn),) = closed
    assert (withdrawn["kind"], withdrawn["actor"], withdrawn["reason"]) == (
        "proposal-withdrawn",
        asked["actor"],
        "not needed",
    )
    refused = [act for act in acts(world) if act.get("proposal") == second.id][-1]
    assert (refused["kind"], refused["reason"]) == ("proposal-rejected", "no legal basis is named")
    assert refused["actor"] != refused["asked_by"] == asked["actor"]
    assert_register_holds(world)


def test_terms_that_hold_now_are_shown_to_those_who_may_see_the_permit(served: tuple[World, str]) -> None:
    """Who asked for a change and is no more of its people hears nothing of what became of it."""
    world, url = served
    permit = world.permit("lung", people=["ada", "ben"])
    terms = TERMS | {"project": "lung", "people": ["ada", "ben"]}
    with CuratorClient(url, world.tokens["ada"], memory=None) as ada, CuratorAdmin(url, world.tokens["olga"]) as olga:
        texts = {name: str(terms[name]) for name in ("purpose", "legal_basis", "reason")}
        asked = ada.ask_permit(
            "lung", ["cohort"], people=["ada", "ben"], expires_at="2098-01-01T00:00:00Z", permit=permit, **texts
        )
        assert ada.proposal(asked).before is not None
        assert olga.change_permit(permit, terms | {"people": ["ben"]}).state == "applied"
        shown = ada.proposal(asked)
        assert (shown.state, shown.before) == ("superseded", None)
        with pytest.raises(RequestInvalidError):
            ada.ask_permit(
                "lung", ["cohort"], people=["ada"], expires_at="2097-01-01T00:00:00Z", permit=permit, **texts
            )


# --- Answers that are lost


def test_what_is_asked_again_after_a_lost_answer_happens_once(
    served: tuple[World, str], forgetful: Callable[[str], CuratorAdmin]
) -> None:
    world, _ = served
    with forgetful("olga") as olga, forgetful("otto") as otto, forgetful("oscar") as oscar:
        waiting = len(world.curator.approvals.list_proposals())
        asked = olga.ask_permit(TERMS | {"project": "brain", "people": ["ada"]})
        raised = olga.set_limit("town", {"mu": 3.0}, "more")
        lowered = olga.set_limit("valley", {"mu": 0.15}, "less")
        opened = olga.propose_population("river", adjacency="add_remove", limit={"mu": 0.1}, reason="people")
        assert len(world.curator.approvals.list_proposals()) == waiting + 4
        assert (asked.state, raised.state, lowered.state, opened.state) == ("open", "open", "applied", "open")
        assert [one["kind"] for one in world.entries("valley")].count("limit") == 1
        for proposal in (asked, opened):
            assert otto.approve_proposal(proposal, reason="as decided").state == "approved"
        assert [one["kind"] for one in world.entries("river")] == ["open"]
        assert otto.reject_proposal(raised, reason="too much").state == "rejected"
        ended = olga.end_permit(asked.label, "over")
        assert ended.permit.ended_at
        assert [one["people"] for one in world.entries() if one.get("permit") == asked.label][1:] == [{}]
        with pytest.raises(ConflictError) as again:
            otto.end_permit(asked.label, "over")
        assert again.value.slug == "permit-ended"
        tokens = len(oscar.list_tokens())
        made = oscar.create_token("dora", ["analyst"], days=2)
        assert len(oscar.list_tokens()) == tokens + 1
        assert world.curator.identity.authenticate(f"Bearer {made.text}").name == "dora"
        assert oscar.revoke_token(made.about).revoked_at
        assert oscar.whoami().name == "oscar"
        before = world.tokens["oscar"].split("_")[1]
        rotated = oscar.rotate_token()
        assert oscar.whoami().token == rotated.about.id
        assert world.curator.identity.get_token(before).replaced_by == rotated.about.id
        world.tokens["oscar"] = rotated.text
        for admin in (olga, otto, oscar):
            carrier = admin._transport._http._transport
            assert isinstance(carrier, LosingAnswers)
            assert carrier.lost > 0
    assert_register_holds(world)


def test_the_same_key_for_something_else_is_refused_by_its_name(served: tuple[World, str]) -> None:
    world, url = served
    key = "a-key-of-more-than-22-characters"
    with CuratorAdmin(url, world.tokens["olga"]) as olga, CuratorAdmin(url, world.tokens["otto"]) as otto:
        terms = TERMS | {"project": "bone"}
        first = olga.ask_permit(terms, idempotency_key=key)
        assert olga.ask_permit(terms, idempotency_key=key).id == first.id
        others: list[Callable[[], Any]] = [
            lambda: olga.ask_permit(terms | {"reason": "another"}, idempotency_key=key),
            lambda: olga.ask_permit(terms | {"people": ["ben"]}, idempotency_key=key),
            lambda: olga.set_limit("town", {"mu": 4.0}, "a study", idempotency_key=key),
        ]
        for ask in others:
            with pytest.raises(RequestInvalidError) as reused:
                ask()
            assert reused.value.slug == "idempotency-key-reused"
        theirs = otto.ask_permit(terms, idempotency_key=key)  # a key is whoever's who sends it
        assert theirs.id != first.id
        otto.approve_proposal(first)
        assert olga.ask_permit(terms, idempotency_key=key).state == "approved"
        otto.withdraw_proposal(theirs)
    with CuratorAdmin(url, world.tokens["oscar"]) as oscar:
        made = oscar.create_token("elsa", ["analyst"], idempotency_key=key)
        assert oscar.create_token("elsa", ["analyst"], idempotency_key=key).text == made.text
        for change in ({"days": 3}, {"read_only": True}):
            with pytest.raises(RequestInvalidError, match="another request"):
                oscar.create_token("elsa", ["analyst"], idempotency_key=key, **change)  # type: ignore[arg-type]
        with pytest.raises(RequestInvalidError, match="22"):
            oscar.create_token("elsa", ["analyst"], idempotency_key="guessed")
    assert made.text not in repr(made)


def test_refusals_have_their_own_names(served: tuple[World, str]) -> None:
    world, url = served
    with CuratorAdmin(url, world.tokens["olga"]) as olga, CuratorAdmin(url, world.tokens["otto"]) as otto:

        def slug(act: Callable[[], Any]) -> str | None:
            with pytest.raises((ConflictError, PermissionDeniedError)) as refused:
                act()
            return refused.value.slug

        assert slug(lambda: olga.propose_population("town", adjacency="add_remove", limit={"mu": 1}, reason="r")) == (
            "population-exists"
        )
        raised = olga.set_limit("town", {"mu": 5.0}, "more")
        assert slug(lambda: olga.approve_proposal(raised)) == "second-admin-needed"
        olga.withdraw_proposal(raised)
        assert slug(lambda: otto.approve_proposal(raised)) == "proposal-decided"
        assert slug(lambda: olga.set_limit("town", {"mu": 0.0001}, "less than is spent")) == "limit-conflict"
        permit = world.permit("heart", limit={"mu": 0.05})
        with CuratorClient(url, world.tokens["ada"], memory=None) as ada:
            ada.release("cohort", ["age"], target="kappa", mu=0.04, project="heart")
        terms = TERMS | {"project": "heart", "limit": {"mu": 0.01}}
        assert slug(lambda: olga.change_permit(permit, terms)) == "limit-conflict"
        change = olga.change_permit(permit, terms | {"limit": {"mu": 0.06}})
        olga.end_permit(permit, "over")
        assert slug(lambda: otto.approve_proposal(change)) == "permit-ended"
        assert slug(lambda: olga.change_permit(permit, terms)) == "permit-ended"


def test_a_seal_is_said_with_its_way_out(served: tuple[World, str]) -> None:
    world, url = served
    world.curator.ledger.guard.seal("somebody changed it")
    try:
        status, shown, _ = Desk(url, world.tokens["audra"]).run("ledger", "status")
        assert (status, "somebody changed it" in shown, "curator restore --reconcile" in shown) == (1, True, True)
        olga = Desk(url, world.tokens["olga"])
        for words in (("limits", "set", "town", *LIMIT, *WHY, "--yes"), ("permits", "grant", "ada", "cohort", *WHY)):
            status, _, err = olga.run(*words)
            assert (status, "verif" in err) == (1, True)
        revoked = Desk(url, world.tokens["oscar"]).json("tokens", "revoke", world.tokens["ben"].split("_")[1], "--yes")
        assert revoked["revoked_at"]
    finally:
        reconcile(world.curator.ledger, actor="operator:test", anchor_lost=False)
    assert Desk(url, world.tokens["audra"]).run("ledger", "status")[0] == 0


def test_names_of_errors_are_of_the_client(served: tuple[World, str]) -> None:
    assert issubclass(JobEndedError, Exception)
    assert issubclass(ReservationEndedError, Exception)


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "latin-1"])
def test_commands_print_in_every_encoding(served: tuple[World, str], encoding: str) -> None:
    world, url = served
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    environment = os.environ | paths | {"CURATOR_TOKEN": world.tokens["root"], "CURATOR_SERVER": url}
    for words in (("--help",), ("populations", "list"), ("populations", "list", "--json"), ("ledger", "show", "town")):
        command = [sys.executable, "-m", "analyst_client.admin.command", *words]
        ended = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        text = ended.stdout.decode("utf-8" if words[0] == "ledger" else encoding)
        if words == ("populations", "list"):
            assert ("ε" in text, "epsilon" in text) == (encoding == "cp437", encoding != "cp437")
            assert max(map(len, text.splitlines())) <= 80
