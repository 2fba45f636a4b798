"""Authorization: every route × every caller × every object, as the policy and this page say."""

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dashboard_worlds import Person, token_of
from fastapi import FastAPI
from fastapi.routing import APIRoute
from guarded_world import MALFORMED, NOBODY_KNOWS, PEOPLE, SMOKING, UNKNOWN, Guarded, Object, guarded_world
from httpx import Response
from support import Api, body

from curator_service.api.endpoint import endpoint
from curator_service.dashboard.page import page
from curator_service.identity.policy import POLICY, PUBLIC, READING, Action, Objects, Role
from curator_service.ledger.chain.entries import canonical

CHEAP = body(rows={"map": "box"}, price={"mu": 0.001}, fresh=True)
GRANT = {"analyst": "ada", "dataset": "nothing", "reason": "over"}
LIMIT = {"limit": {"epsilon": 50.0, "delta": 1e-6}, "reason": "a second study"}
TERMS = {
    "project": "other", "people": ["ada"], "datasets": ["cohort"], "purpose": "p", "legal_basis": "l", "reason": "r",
    "expires_at": "2199-01-01T00:00:00Z",
}  # fmt: skip
TERMS_FORM = TERMS | {"people": "ada", "datasets": "cohort", "expires_at": "2199-01-01T00:00"}
EXPIRED, CLOSED = {"of a permit that has expired": 403}, {"of a dataset that has ended": 409}
"""What a charge is told where the dataset is seen all the same."""
ENDED = {"ended": 409}


@dataclass(frozen=True)
class Route:
    """Declaration of a route.

    Attributes
    ----------
    action : Action or None
        None is what anybody may ask for, without a token.
    kind : str
        What its address names.
    sent : mapping
        A body, or the fields of a form.
    status : int
        What whoever may do this is told.
    besides : mapping of str to int
        What they are told of some objects instead.
    for_analysts : mapping of str to int
        What those are told instead who act on granted objects alone.
    hides : set of str
        Objects that an analyst may see elsewhere and not here.
    """

    action: Action | None
    kind: str = ""
    sent: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    besides: Mapping[str, int] = field(default_factory=dict)
    for_analysts: Mapping[str, int] = field(default_factory=dict)
    hides: frozenset[str] = frozenset()


A = Action
REPORT = {"question": SMOKING.digest, "token": "0" * 32, "answer": 1}
ENDED_JOBS = frozenset({"a colleague's"})
NAMED = {"display_name": "Ada Lovelace", "email": "ada@hospital.example"}
SESSION = {"positives": 1, "direction": "any", "price": {"epsilon": 0.0001}}
ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/v1/datasets"): Route(A.READ_DATASET),
    ("GET", "/v1/datasets/{name}"): Route(A.READ_DATASET, "dataset"),
    ("GET", "/v1/datasets/{name}/budget"): Route(A.READ_BUDGET, "dataset"),
    ("POST", "/v1/datasets/{name}/quotes"): Route(A.QUOTE, "dataset", CHEAP, for_analysts=EXPIRED),
    ("GET", "/v1/datasets/{name}/releases"): Route(A.READ_RELEASE, "dataset"),
    ("POST", "/v1/datasets/{name}/releases"): Route(A.REQUEST_RELEASE, "dataset", CHEAP, 201, EXPIRED | CLOSED),
    ("POST", "/v1/datasets/{name}/reservations"): Route(
        A.RESERVE, "dataset", {"price": {"mu": 0.001}, "expires_in_s": 60}, 201, EXPIRED
    ),
    ("GET", "/v1/releases/{release_id}"): Route(A.READ_RELEASE, "release"),
    ("GET", "/v1/releases/{release_id}/evidence"): Route(A.READ_EVIDENCE, "release"),
    ("GET", "/v1/jobs"): Route(A.READ_JOB),
    ("GET", "/v1/jobs/{job_id}"): Route(A.READ_JOB, "job"),
    ("DELETE", "/v1/jobs/{job_id}"): Route(A.END_RESERVATION, "job", status=409, hides=ENDED_JOBS),  # they are over
    ("GET", "/v1/reservations"): Route(A.READ_RESERVATION),
    ("GET", "/v1/reservations/{reservation_id}"): Route(A.READ_RESERVATION, "reservation"),
    ("DELETE", "/v1/reservations/{reservation_id}"): Route(
        A.END_RESERVATION, "reservation to end", besides={"closed": 409}
    ),
    ("POST", "/v1/datasets/{name}/sessions/quotes"): Route(A.QUOTE, "dataset", SESSION),
    ("POST", "/v1/datasets/{name}/sessions"): Route(A.REQUEST_RELEASE, "dataset", SESSION, 201, EXPIRED | CLOSED),
    ("GET", "/v1/sessions"): Route(A.READ_RESERVATION),
    ("GET", "/v1/sessions/{session_id}"): Route(A.READ_RESERVATION, "session"),
    ("POST", "/v1/sessions/{session_id}/questions"): Route(
        A.REQUEST_RELEASE, "session to end", {"threshold": 5, "direction": "above"}, 201, {"closed": 409}
    ),
    ("DELETE", "/v1/sessions/{session_id}"): Route(A.END_RESERVATION, "session to end", besides={"closed": 409}),
    ("GET", "/v1/ledger/{population}"): Route(A.READ_LEDGER, "population"),
    ("GET", "/v1/ledger/{population}/checkpoint"): Route(A.READ_LEDGER, "population"),
    ("GET", "/v1/keys"): Route(A.READ_KEYS),
    ("GET", "/v1/sign-in"): Route(A.SIGN_IN),
    ("GET", "/v1/surveys"): Route(A.READ_REPORTS),
    ("POST", "/v1/surveys"): Route(A.COLLECT, sent={"name": "other"}, status=422),
    ("GET", "/v1/surveys/{survey}"): Route(A.READ_SURVEY, "survey"),
    ("POST", "/v1/surveys/{survey}/reports"): Route(A.ANSWER, "survey", REPORT, 201),
    ("GET", "/v1/surveys/{survey}/reports"): Route(A.READ_REPORTS, "survey"),
    ("POST", "/v1/surveys/{survey}/invitations"): Route(A.COLLECT, "survey", status=422),  # anybody may answer it
    ("POST", "/v1/surveys/{survey}/close"): Route(A.COLLECT, "survey to close", besides={"closed": 409}),
    ("GET", "/v1/permits"): Route(A.READ_PERMIT),
    ("POST", "/v1/permits"): Route(A.ASK_PERMIT, sent=TERMS, status=202),
    ("GET", "/v1/permits/{permit_id}"): Route(A.READ_PERMIT, "permit"),
    ("POST", "/v1/permits/{permit_id}"): Route(A.ASK_PERMIT, "permit", TERMS, 202, ENDED),
    ("POST", "/v1/permits/{permit_id}/end"): Route(A.END_PERMIT, "permit to end", {"reason": "over"}, 200, ENDED),
    ("GET", "/v1/permits/{permit_id}/evidence"): Route(A.READ_PERMIT_EVIDENCE, "permit"),
    ("POST", "/v1/admin/permits/grant"): Route(A.ASK_PERMIT, sent=GRANT | {"dataset": "cohort"}, status=202),
    ("POST", "/v1/admin/permits/revoke"): Route(A.END_PERMIT, sent=GRANT, status=404),
    ("GET", "/v1/proposals"): Route(A.READ_OWN_PROPOSALS),
    ("GET", "/v1/proposals/{proposal_id}"): Route(A.READ_OWN_PROPOSALS, "proposal of one's own"),
    ("POST", "/v1/proposals/{proposal_id}/withdraw"): Route(
        A.WITHDRAW, "proposal of one's own", {"reason": "no more"}, besides={"decided": 409}
    ),
    ("POST", "/v1/proposals/{proposal_id}/messages"): Route(
        A.DISCUSS, "proposal of one's own", {"text": "as before"}, besides={"decided": 409}
    ),
    ("GET", "/v1/me"): Route(A.READ_SELF),
    ("POST", "/v1/me/token/rotate"): Route(A.ROTATE, sent={"grace_s": -1}, status=422),  # it would be over
    ("POST", "/v1/principals/{name}/display-name"): Route(A.NAME, "person", NAMED),
    ("POST", "/v1/principals/{name}/display-name/erase"): Route(A.ERASE_NAME, "person"),
    ("GET", "/v1/admin/populations"): Route(A.READ_POPULATIONS),
    ("POST", "/v1/admin/populations"): Route(A.SET_LIMIT, sent={"name": "town"}, status=422),
    ("POST", "/v1/admin/populations/{population}/limits"): Route(A.SET_LIMIT, "population", LIMIT, 202),
    ("GET", "/v1/admin/proposals"): Route(A.READ_PROPOSALS),
    ("GET", "/v1/admin/proposals/{proposal_id}"): Route(A.READ_PROPOSALS, "proposal"),
    ("POST", "/v1/admin/proposals/{proposal_id}/approve"): Route(
        A.SET_LIMIT, "proposal", {"reason": "yes"}, besides={"own": 403, "decided": 409}
    ),
    ("POST", "/v1/admin/proposals/{proposal_id}/messages"): Route(
        A.SET_LIMIT, "proposal", {"text": "why?"}, besides={"decided": 409}
    ),
    ("POST", "/v1/admin/proposals/{proposal_id}/reject"): Route(
        A.SET_LIMIT, "proposal", {"reason": "no"}, besides={"decided": 409}
    ),
    ("GET", "/v1/admin/seal"): Route(A.READ_LEDGER),
    ("GET", "/v1/admin/questions/{release_id}"): Route(A.READ_LEDGER, "release"),
    ("GET", "/v1/admin/populations/{population}/questions"): Route(A.READ_LEDGER, "population"),
    ("GET", "/v1/admin/spending"): Route(A.READ_SPENDING),
    ("GET", "/v1/admin/principals"): Route(A.READ_PRINCIPALS),
    ("GET", "/v1/admin/tokens"): Route(A.READ_PRINCIPALS),
    ("POST", "/v1/admin/tokens"): Route(A.ISSUE, sent={"name": "x"}, status=422),
    ("POST", "/v1/admin/tokens/{token_id}/revoke"): Route(A.REVOKE, "token"),
    ("GET", "/v1/admin/register"): Route(A.READ_REGISTER),
    ("GET", "/v1/admin/health"): Route(A.READ_HEALTH),
}
PAGES: dict[tuple[str, str], Route] = {
    ("GET", "/admin"): Route(A.READ_KEYS),
    ("GET", "/admin/populations/{name}"): Route(A.READ_BUDGET, "population"),
    ("POST", "/admin/populations/{population}/limit"): Route(
        A.SET_LIMIT, "population", {"notion": "epsilon", "epsilon": "50", "delta": "1e-6", "reason": "more"}, 303
    ),
    ("GET", "/admin/ledger"): Route(A.READ_LEDGER),
    ("POST", "/admin/ledger/receipt"): Route(A.READ_LEDGER, status=422),
    ("GET", "/admin/releases"): Route(A.READ_LEDGER),
    ("GET", "/admin/releases/{release_id}"): Route(A.READ_LEDGER, "release"),
    ("GET", "/admin/releases/{release_id}/evidence"): Route(A.READ_EVIDENCE, "release"),
    ("GET", "/admin/populations/{name}/ledger"): Route(A.READ_LEDGER, "population"),
    ("GET", "/admin/populations/{name}/ledger/{sequence}"): Route(A.READ_LEDGER, "entry"),
    ("GET", "/admin/spending"): Route(A.READ_SPENDING),
    ("GET", "/admin/spending.csv"): Route(A.READ_SPENDING),
    ("GET", "/admin/permits"): Route(A.READ_PERMIT),
    ("GET", "/admin/permits/{permit_id}"): Route(A.READ_PERMIT, "permit"),
    ("GET", "/admin/permits/ask"): Route(A.ASK_PERMIT),
    ("POST", "/admin/permits/ask"): Route(A.ASK_PERMIT, sent=TERMS_FORM, status=303),
    ("GET", "/admin/permits/{permit_id}/change"): Route(A.ASK_PERMIT, "permit"),
    ("POST", "/admin/permits/{permit_id}/change"): Route(A.ASK_PERMIT, "permit", TERMS_FORM, 303, ENDED),
    ("POST", "/admin/permits/{permit_id}/end"): Route(A.END_PERMIT, "permit to end", {"reason": "over"}, 303, ENDED),
    ("GET", "/admin/proposals"): Route(A.READ_PROPOSALS),
    ("GET", "/admin/proposals/population"): Route(A.SET_LIMIT),
    ("POST", "/admin/proposals/population"): Route(A.SET_LIMIT, sent={"name": "town"}, status=422),
    ("GET", "/admin/proposals/{proposal_id}"): Route(A.READ_PROPOSALS, "proposal"),
    ("GET", "/admin/asked/{proposal_id}"): Route(A.READ_OWN_PROPOSALS, "proposal of one's own"),
    ("POST", "/admin/proposals/{proposal_id}/messages"): Route(
        A.SET_LIMIT, "proposal", {"text": "why?"}, 303, {"decided": 409}
    ),
    ("POST", "/admin/asked/{proposal_id}/messages"): Route(
        A.DISCUSS, "proposal of one's own", {"text": "so"}, 303, {"decided": 409}
    ),
    ("POST", "/admin/proposals/{proposal_id}/confirm"): Route(
        A.SET_LIMIT, "proposal", {"outcome": "reject", "reason": "no"}, besides={"decided": 409}
    ),
    ("POST", "/admin/proposals/{proposal_id}/approve"): Route(
        A.SET_LIMIT, "proposal", {"reason": "yes"}, 303, {"own": 403, "decided": 409}
    ),
    ("POST", "/admin/proposals/{proposal_id}/reject"): Route(
        A.SET_LIMIT, "proposal", {"reason": "no"}, 303, {"decided": 409}
    ),
    ("POST", "/admin/proposals/{proposal_id}/withdraw"): Route(
        A.WITHDRAW, "proposal of one's own", {}, 303, {"decided": 409}
    ),
    ("GET", "/admin/datasets"): Route(A.READ_DATASET),
    ("GET", "/admin/datasets/{name}"): Route(A.READ_DATASET, "dataset"),
    ("GET", "/admin/surveys"): Route(A.READ_REPORTS),
    ("GET", "/admin/surveys/{survey}"): Route(A.READ_REPORTS, "survey"),
    ("POST", "/admin/surveys/{survey}/close"): Route(A.COLLECT, "survey to close", status=303, besides={"closed": 409}),
    ("GET", "/admin/sessions"): Route(A.READ_RESERVATION),
    ("GET", "/admin/sessions/{session_id}"): Route(A.READ_RESERVATION, "session"),
    ("POST", "/admin/sessions/{session_id}/close"): Route(
        A.END_RESERVATION, "session to end", status=303, besides={"closed": 409}
    ),
    ("GET", "/admin/inbox"): Route(A.REGISTER),
    ("GET", "/admin/inbox/{file_id}"): Route(A.REGISTER, "inbox file"),
    ("POST", "/admin/inbox/{file_id}"): Route(A.REGISTER, "inbox file", {}, 422),
    ("GET", "/admin/tokens"): Route(A.READ_PRINCIPALS),
    ("GET", "/admin/tokens/new"): Route(A.ISSUE),
    ("POST", "/admin/tokens/new"): Route(A.ISSUE, sent={"name": "x"}, status=422),
    ("GET", "/admin/tokens/{token_id}/rotate"): Route(A.ISSUE, "token"),
    ("POST", "/admin/tokens/{token_id}/rotate"): Route(
        A.ISSUE, "token", {"grace_s": "0"}, 201, {"expired": 422, "revoked": 422}
    ),
    ("POST", "/admin/tokens/{token_id}/revoke"): Route(A.REVOKE, "token", {}, 303),
    ("GET", "/admin/people"): Route(A.READ_PRINCIPALS),
    ("GET", "/admin/people/{name}"): Route(A.ERASE_NAME, "person"),
    ("POST", "/admin/people/{name}/name"): Route(A.NAME, "person", NAMED, 303),
    ("POST", "/admin/people/{name}/erase"): Route(A.ERASE_NAME, "person", {}, 303),
    ("GET", "/admin/keys"): Route(A.READ_KEYS),
    ("GET", "/admin/health"): Route(A.READ_HEALTH),
    ("GET", "/admin/acts/permits/grant"): Route(A.ASK_PERMIT),
    ("POST", "/admin/acts/permits/grant"): Route(A.ASK_PERMIT, sent=GRANT | {"dataset": "cohort"}, status=303),
    ("GET", "/admin/acts/permits/revoke"): Route(A.END_PERMIT),
    ("POST", "/admin/acts/permits/revoke"): Route(A.END_PERMIT, sent=GRANT, status=404),
    ("GET", "/admin/{path:path}"): Route(A.READ_KEYS, "page", status=404),
    ("GET", "/admin/confirm"): Route(A.READ_SELF, status=303),
    ("GET", "/admin/sign-in"): Route(None),
    ("GET", "/admin/sign-in/{name}"): Route(None, "provider", status=403),
    ("GET", "/admin/sign-in/{name}/callback"): Route(None, "provider", status=403),
    ("POST", "/admin/sign-in"): Route(None, status=415),
    ("POST", "/admin/sign-out"): Route(None, status=403),
    ("GET", "/admin/static/{name}"): Route(None, "file", status=404),
}
"""What each page takes: those of the interface that does the same."""
FORMS = {
    "/admin/acts/permits/grant",
    "/admin/acts/permits/revoke",
    "/admin/inbox",
    "/admin/inbox/{file_id}",
    "/admin/people/{name}",
    "/admin/permits/ask",
    "/admin/permits/{permit_id}/change",
    "/admin/proposals/population",
    "/admin/tokens/new",
    "/admin/tokens/{token_id}/rotate",
}
"""Pages that only begin an act: whoever may only look has no use for them."""


@dataclass(frozen=True)
class Caller:
    """Somebody who calls: with which roles, whether it may only look, and whether the objects are theirs."""

    who: str
    roles: tuple[Role, ...]
    looks: bool = False

    @property
    def is_ada(self) -> bool:
        """Return whether what is granted is granted to them."""
        return self.who == "ada"

    def reach(self, action: Action) -> Objects | None:
        """Return on which objects they may act, read off the table without what reads it for the curator."""
        found = {POLICY[action][role] for role in self.roles if role in POLICY[action]}
        if not found or (self.looks and action not in READING):
            return None
        return Objects.ALL if Objects.ALL in found else Objects.GRANTED


CALLERS: dict[str, Caller] = {
    **{who: Caller(who, roles) for who, roles in PEOPLE.items()},
    **{f"{who} who only looks": Caller(who, roles, looks=True) for who, roles in PEOPLE.items()},
    "max, of two roles": Caller("max", (Role.ANALYST, Role.AUDITOR)),
    "max as an analyst": Caller("max", (Role.ANALYST,)),
    "max as an auditor": Caller("max", (Role.AUDITOR,)),
    "nemo, whose role was taken": Caller("nemo", ()),
}
STRANGERS = ("nobody", "expired", "revoked", "rotated", "forged", "of nobody")


@dataclass
class Place:
    """The world, one application of it, and tokens of whoever calls."""

    guarded: Guarded
    api: Api
    tokens: dict[str, str | None]
    people: dict[str, Person]
    forms: dict[str, str] = field(default_factory=dict)

    def ask(self, caller: str, method: str, address: str, route: Route, **changes: Any) -> Response:
        """Send a request to the interface; of the changes, those of the body with a method that has one."""
        sent = {"json": dict(route.sent), "key": f"{caller}{address}".encode().hex()[:120]} | changes
        if method != "POST":
            sent = {name: value for name, value in sent.items() if name in {"key", "headers"}}
        return self.api.request(method, address, token=self.tokens[caller], **sent)

    def open(self, caller: str, method: str, address: str, route: Route) -> Response:
        """Open a page, or post a form of one's own."""
        person = self.people[caller]
        if method == "GET":
            return person.get(address)
        if caller not in self.forms:
            self.forms[caller] = token_of(person.get("/admin"))
        shown = re.fullmatch(r"/admin/proposals/(prp_\w+)/(?:confirm|approve|reject)", address)
        found = [one for one in self.guarded.world.curator.approvals.list_proposals() if shown and one.id == shown[1]]
        seen = {"seen": found[0].digest} if found else {}  # as the page has it
        return person.post(address, {"form_token": self.forms[caller], **route.sent, **seen})

    def reject_proposals(self) -> None:
        """Let nothing wait: of each person no more than some may."""
        approvals = self.guarded.world.curator.approvals
        otto = next(one for one in self.guarded.world.curator.identity.list_principals() if one.name == "otto")
        for proposal in approvals.list_proposals():
            if proposal.state == "open":
                approvals.decide(proposal.id, otto, approve=False)

    def objects(self, route: Route) -> dict[str, Object]:
        """Return what can stand in the address of a route; a kind without objects is an error."""
        return self.guarded.objects[route.kind] if route.kind else {UNKNOWN: Object("")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with open_place(tmp_path_factory.mktemp("guarded")) as place:
        yield place


@contextmanager
def open_place(folder: Path) -> Iterator[Place]:
    """Open a world of every kind of object, with everybody who calls."""
    with guarded_world(folder) as guarded:
        world, identity = guarded.world, guarded.world.curator.identity
        guarded.add("page", UNKNOWN, "nothing", exists=False)
        guarded.add("provider", UNKNOWN, "nowhere", exists=False)
        guarded.add("file", UNKNOWN, "nothing.js", exists=False)
        tokens: dict[str, str | None] = {}
        for called, caller in CALLERS.items():
            if caller.roles:
                asked = (Role.ANALYST, Role.AUDITOR) if caller.who == "max" else caller.roles
                identity.create_token(caller.who, *asked)  # whoever is new has all of them
                tokens[called] = identity.create_token(caller.who, *caller.roles, read_only=caller.looks).text
        nemo = identity.create_token("nemo", Role.STEWARD).text
        identity.set_roles("nemo", Role.OPERATOR, actor="operator:test")
        tokens |= {"nemo, whose role was taken": nemo, "nobody": None}
        tokens["of nobody"] = f"cur_{'0' * 16}_{'A' * 43}"
        tokens["forged"] = nemo[:-4] + ("AAAA" if nemo[-4:] != "AAAA" else "BBBB")
        for dead in ("expired", "revoked", "rotated"):
            tokens[dead] = identity.create_token("ada", Role.ANALYST, days=1).text
        ids = {dead: str(tokens[dead]).split("_")[1] for dead in ("revoked", "rotated")}
        identity.revoke_token(ids["revoked"])
        identity.rotate_token(ids["rotated"], actor="operator:test")
        world.clock.advance(days=1)
        api = world.api(None)
        people = {called: Person(world, app=api.app) for called in (*CALLERS, "nobody")}
        for called in CALLERS:
            assert people[called].sign_in(str(tokens[called])).status_code == 303, called
        yield Place(guarded, api, tokens, people)


def routes_of(app: FastAPI, prefix: str) -> dict[tuple[str, str], Any]:
    """Return the endpoint of each route under a prefix, however routers are nested."""
    found, pending = {}, list(app.routes)
    while pending:
        route = pending.pop()
        pending += getattr(route, "routes", None) or []
        pending += getattr(getattr(route, "original_router", None), "routes", None) or []
        if isinstance(route, APIRoute) and route.path.startswith(prefix):
            found |= {(method, route.path): route.endpoint for method in route.methods}
    return found


def fill(path: str, name: str) -> str:
    """Put what an object is called into an address; where that has two names, both with what is between them."""
    return re.sub(r"{.*}", lambda _: name, path)


def told(answer: Response, name: str) -> tuple[int, str, dict[str, str]]:
    """Return all that an answer tells but its id, the time, and what the caller called the object himself."""
    request = answer.headers["x-request-id"]
    said, varying = answer.text.replace(request, ""), {"x-request-id", "date"}
    if answer.headers.get("content-type") == "application/problem+json" and name in said:
        said, varying = said.replace(name, "NAME"), {*varying, "content-length"}
    return answer.status_code, said, {key: text for key, text in answer.headers.items() if key not in varying}


def is_denied(answer: Response) -> bool:
    """Return whether an answer says that no role of the caller's allows this, or that the token only looks."""
    if answer.headers.get("content-type") == "application/problem+json":
        return bool(answer.json()["type"] == "/problems/permission-denied")
    return answer.status_code == 403 and "<h1>Your role does not allow this</h1>" in answer.text


def expected(caller: Caller, route: Route, relation: str, found: Object) -> int | None:
    """Return the status that is declared of a cell; None is a denial."""
    assert route.action is not None
    reach = Objects.ALL if route.action in PUBLIC else caller.reach(route.action)
    if reach is None:
        return None
    is_seen = found.exists if reach is Objects.ALL else found.is_granted and found.exists and caller.is_ada
    if route.kind and (not is_seen or (reach is Objects.GRANTED and relation in route.hides)):
        return 404
    besides = {**route.besides, **(route.for_analysts if reach is Objects.GRANTED else {})}
    return besides.get(relation, route.status)


def judge(place: Place, called: str, method: str, path: str, route: Route) -> list[Any]:
    """Ask as somebody about every object of a route; return what is not as declared."""
    objects, caller, wrong = place.objects(route), CALLERS[called], []
    names, answers = ask_about_all(place, called, method, path, route)
    for relation, found in objects.items():
        status = expected(caller, route, relation, found)
        answer = answers[relation]
        if is_denied(answer) is not (status is None) or answer.status_code != (status or 403):
            wrong.append(f"{called}: {relation}: {answer.status_code}, not {status}: {answer.text[-900:]}")
        # Whoever may not see what there is cannot tell it from what there is not; nor can whoever may do nothing.
        is_hidden = status is None or (status == 404 and objects[relation].exists)
        if is_hidden and told(answer, names[relation]) != told(answers[UNKNOWN], names[UNKNOWN]):
            wrong.append(f"{called}: {relation} is told from what is unknown: {answer.text[-900:]}")
    return wrong


def ask_about_all(
    place: Place, called: str, method: str, path: str, route: Route
) -> tuple[dict[str, str], dict[str, Response]]:
    """Ask as somebody about every object of a route; return what each is called, and the answer about it."""
    assert route.action is not None
    acts = method != "GET" and called in CALLERS and CALLERS[called].reach(route.action) is not None
    names = {relation: found.make(is_new=acts) for relation, found in place.objects(route).items()}
    ask = place.ask if path.startswith("/v1") else place.open
    return names, {relation: ask(called, method, fill(path, name), route) for relation, name in names.items()}


def test_every_route_is_declared(place: Place) -> None:
    """What is added is added here, with its objects: else this fails."""
    app = place.api.app
    documented = {
        (method.upper(), path)
        for path, item in app.openapi()["paths"].items()
        for method in item
        if path.startswith("/v1")
    }
    assert documented == set(routes_of(app, "/v1")) == set(ROUTES)
    assert {path for path in app.openapi()["paths"] if not path.startswith("/v1")} == {"/healthz", "/readyz"}
    assert set(routes_of(app, "/admin")) == set(PAGES)
    for declared, prefix in ((ROUTES, "/v1"), (PAGES, "/admin")):
        actions = {key: getattr(found, "action", None) for key, found in routes_of(app, prefix).items()}
        assert actions == {key: route.action for key, route in declared.items()}
        for (method, path), route in declared.items():
            assert bool(route.kind) is ("{" in path), path
            assert UNKNOWN in place.objects(route) or not route.kind, path
            assert {*route.besides, *route.for_analysts, *route.hides} <= {*place.objects(route)}, path
            assert not (method == "GET" and route.sent), path
    assert {route.action for route in (ROUTES | PAGES).values() if route.action} == set(Action) == set(POLICY)
    for decorator in (endpoint, page):
        with pytest.raises(TypeError):
            decorator()  # type: ignore[call-arg]


def test_every_kind_of_object_has_those_that_somebody_may_not_see(place: Place) -> None:
    for kind in NOBODY_KNOWS:
        found = place.guarded.objects[kind]
        assert {UNKNOWN, MALFORMED} <= set(found)
        assert any(one.exists for one in found.values())
        reach = {POLICY[route.action].get(Role.ANALYST) for route in (ROUTES | PAGES).values() if route.kind == kind}  # type: ignore[index]
        if Objects.GRANTED in reach:
            assert any(one.exists and not one.is_granted for one in found.values()), kind


def test_what_only_reads_is_open_to_whoever_only_looks() -> None:
    for (method, path), route in (ROUTES | PAGES).items():
        if method == "GET" and route.action is not None and path not in FORMS:
            assert route.action in READING, path
        is_look = route.action in {None, Action.QUOTE, Action.ROTATE} or path == "/admin/ledger/receipt"
        acts = method != "GET" and not is_look
        assert not (acts and route.action in READING), path


PUBLISHED = {
    "read the curator's keys; learn where to sign in": {A.READ_KEYS, A.SIGN_IN},
    "read [surveys](local.md#surveys) and reports; give a report": {A.READ_SURVEY, A.READ_REPORTS, A.ANSWER},
    "open and close surveys, invite to them": {A.COLLECT},
    "read datasets and budgets": {A.READ_DATASET, A.READ_BUDGET},
    "list every population": {A.READ_POPULATIONS},
    "quote": {A.QUOTE},
    "request releases, reserve": {A.REQUEST_RELEASE, A.RESERVE},
    "read jobs and reservations": {A.READ_JOB, A.READ_RESERVATION},
    "end jobs and reservations": {A.END_RESERVATION},
    "read releases": {A.READ_RELEASE},
    "read [evidence](evidence.md) of releases": {A.READ_EVIDENCE},
    "read evidence of permits": {A.READ_PERMIT_EVIDENCE},
    "read the ledger, its checkpoints and the seal": {A.READ_LEDGER},
    "ask for a permit, or a change of one": {A.ASK_PERMIT},
    "read permits": {A.READ_PERMIT},
    "read and withdraw one's own proposals, answer questions about them": {A.READ_OWN_PROPOSALS, A.WITHDRAW, A.DISCUSS},
    "read everybody's proposals": {A.READ_PROPOSALS},
    "end permits; set limits; decide proposals": {A.END_PERMIT, A.SET_LIMIT},
    "read who spent what": {A.READ_SPENDING},
    "read oneself, rotate one's own token": {A.READ_SELF, A.ROTATE},
    "set a [displayed name](identity.md#displayed-names)": {A.NAME},
    "erase a displayed name": {A.ERASE_NAME},
    "read principals and tokens": {A.READ_PRINCIPALS},
    "read the [register](identity.md#the-register)": {A.READ_REGISTER},
    "make tokens of analysts and auditors": {A.ISSUE},
    "read the [health](dashboard.md#what-pages-show) of the service": {A.READ_HEALTH},
    "revoke tokens": {A.REVOKE},
    "register files of the [inbox](dashboard.md#the-inbox)": {A.REGISTER},
}
"""The rows of the table in docs/problems.md."""


def test_the_published_table_is_the_policy() -> None:
    text = Path("docs/problems.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = {what: cells for what, *cells in lines if len(cells) == len(Role) and what in PUBLISHED}
    assert set(rows) == set(PUBLISHED)
    assert set().union(*PUBLISHED.values()) == set(Action)
    words = {None: {"no"}, Objects.ALL: {"all", "yes"}, Objects.GRANTED: {"permitted ones", "own ones", "yes"}}
    for what, cells in rows.items():
        for action in PUBLISHED[what]:
            for role, cell in zip(Role, cells, strict=True):
                assert cell in words[POLICY[action].get(role)], (what, role)


@pytest.mark.parametrize(("method", "path"), list(ROUTES), ids=map(" ".join, ROUTES))
def test_the_interface_answers_as_declared(place: Place, method: str, path: str) -> None:
    wrong = [cell for called in CALLERS for cell in judge(place, called, method, path, ROUTES[method, path])]
    place.reject_proposals()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("method", "path"), list(ROUTES), ids=map(" ".join, ROUTES))
def test_strangers_are_told_one_thing_whatever_they_name(place: Place, method: str, path: str) -> None:
    route = ROUTES[method, path]
    names = {found.make(is_new=False) for found in place.objects(route).values()}
    answers = {name: [place.ask(who, method, fill(path, name), route) for who in STRANGERS] for name in names}
    for name, heard in answers.items():
        first = told(heard[0] if route.action in PUBLIC else answers[min(names)][0], "\n")
        assert first[0] in ({200, 201, 404} if route.action in PUBLIC else {401}), name
        assert all(told(answer, "\n") == first for answer in heard)


@pytest.mark.parametrize(("method", "path"), list(PAGES), ids=map(" ".join, PAGES))
def test_pages_answer_as_declared(place: Place, method: str, path: str) -> None:
    route = PAGES[method, path]
    names = {relation: found.make(is_new=False) for relation, found in place.objects(route).items()}
    if route.action is None:
        person, fields = place.people["nobody"], {"json": {}} if path.endswith("/sign-in") else {}
        for name in names.values():
            answer = person._request(method, fill(path, name), **fields if method == "POST" else {})
            assert answer.status_code == route.status
        return
    wrong = [cell for called in CALLERS for cell in judge(place, called, method, path, route)]
    place.reject_proposals()
    assert not wrong, "\n".join(wrong)
    sent_on = [place.people["nobody"].get(fill(path, name)) for name in names.values()] if method == "GET" else [
        place.people["nobody"].post(fill(path, name), {}) for name in names.values()
    ]  # fmt: skip
    for answer in sent_on:
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/admin/sign-in")
        assert answer.text == ""


def hidden_from(place: Place, route: Route) -> dict[str, str]:
    """Return what is there and ada may not see, by the relation."""
    found = place.objects(route).items()
    return {relation: one.make(is_new=False) for relation, one in found if one.exists and not one.is_granted}


GRANTED = [
    key
    for key, route in ROUTES.items()
    if route.kind and POLICY[route.action].get(Role.ANALYST) is Objects.GRANTED  # type: ignore[index]
]


@pytest.mark.parametrize(("method", "path"), GRANTED, ids=map(" ".join, GRANTED))
@pytest.mark.parametrize("what", ["no body", "no JSON", "nonsense", "an entity tag", "a checkpoint", "no key"])
def test_what_is_hidden_is_unknown_whatever_else_is_sent(place: Place, method: str, path: str, what: str) -> None:
    route = ROUTES[method, path]
    seen = place.api.get("/v1/ledger/valley/checkpoint", token=place.tokens["audra"]).json()["checkpoint"]
    encoded = base64.urlsafe_b64encode(canonical(seen).encode()).decode().rstrip("=")
    changes: dict[str, Any] = {
        "no body": {"json": None, "content": b""},
        "no JSON": {"json": None, "content": b"{", "headers": {"Content-Type": "application/json"}},
        "nonsense": {"json": {"nonsense": 1}},
        "an entity tag": {"headers": {"If-None-Match": "*"}},
        "a checkpoint": {"headers": {"Curator-Checkpoint": encoded}},
        "no key": {"key": None},
    }[what]
    unknown = place.objects(route)[UNKNOWN].make()
    asked = {
        name: place.ask("ada", method, fill(path, name), route, **{"key": "a-key"} | changes)
        for name in {unknown, *hidden_from(place, route).values()}
    }
    for name, answer in asked.items():
        assert told(answer, name) == told(asked[unknown], unknown), name
        assert answer.status_code in {400, 404, 415, 422}


@pytest.mark.parametrize(
    ("address", "member"),
    [(address, "project") for address in ("quotes", "releases", "reservations")]
    + [(address, "reservation") for address in ("quotes", "releases")],
)
def test_what_a_body_names_and_is_somebody_else_s_is_unknown(place: Place, address: str, member: str) -> None:
    """A project or a reservation of others is told from none at all by no status and no word."""
    others = {
        "project": ["liver", "nothing"],
        "reservation": [
            *(str(place.guarded.objects["reservation"][of].name) for of in ("a colleague's", "of another project")),
            NOBODY_KNOWS["reservation"],
        ],
    }[member]
    sent = ROUTES["POST", f"/v1/datasets/{{name}}/{address}"].sent
    answers = {
        name: place.api.post(
            f"/v1/datasets/cohort/{address}", json={**sent, member: name}, token=place.tokens["ada"], key="body"
        )
        for name in others
    }
    unknown = told(answers[others[-1]], others[-1])
    for name, answer in answers.items():
        assert told(answer, name) == unknown


def test_an_analyst_who_asks_for_a_permit_does_not_hear_which_names_there_are(place: Place) -> None:
    answers = []
    for people, datasets in ((["cleo"], ["hidden"]), (["nobo"], ["nothin"])):
        answer = place.api.post(
            "/v1/permits", json=TERMS | {"people": people, "datasets": datasets}, token=place.tokens["ada"]
        )
        assert answer.status_code == 202
        found = re.sub(r"pr[mp]_[0-9a-f]{24}", "", answer.text)
        answers.append(found.replace(people[0], "").replace(datasets[0], ""))
    assert answers[0] == answers[1]


def test_lists_hold_what_the_caller_may_see_and_no_more(place: Place) -> None:
    ada = {"token": place.tokens["ada"]}
    objects = place.guarded.objects
    shown = {one["name"] for one in place.api.get("/v1/datasets", **ada).json()["datasets"]}
    granted = {one.name for one in objects["dataset"].values() if one.exists and one.is_granted}
    assert shown - {"spare"} == granted | {"private"}  # it is of permits that are there to be ended
    text = "".join(place.api.get(f"/v1/datasets/{name}/releases", **ada).text for name in shown)
    for one in objects["release"].values():
        assert (str(one.name) in text) is (one.exists and one.is_granted)
    listed = {one["id"] for one in place.api.get("/v1/permits", **ada).json()["permits"]}
    for relation, one in objects["permit"].items():
        assert (one.name in listed) is (one.exists and one.is_granted and relation != "ended"), relation
