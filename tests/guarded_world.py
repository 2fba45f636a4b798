"""A world in which everything that an address can name is there in every relation to whoever asks.

An object is *somebody's own*, a colleague's of the same project, of another project, under a permit that was ended or
has expired, ended itself, or not there at all. `ada` is whoever asks; `ben` is her colleague; `cleo` works elsewhere.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from canaries import mark
from patience import scaled
from support import NUMBERS, Api, World, body, csv_text, make_rows, manifest_text, open_population, open_world

from analyst_client.local import RandomizedResponse, survey_terms
from curator_service.identity.policy import Role
from curator_service.kit.clock import timestamp
from curator_service.privacy.accountant import Price

PEOPLE: dict[str, tuple[Role, ...]] = {
    "ada": (Role.ANALYST,),
    "stella": (Role.STEWARD,),
    "olga": (Role.PRIVACY_OFFICER,),
    "audra": (Role.AUDITOR,),
    "opal": (Role.OPERATOR,),
}
"""One of each role."""
UNKNOWN, MALFORMED = "unknown", "malformed"
SMOKING = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
NOBODY_KNOWS = {
    "dataset": "nothing", "population": "nowhere", "release": f"rel_{'0' * 24}", "job": f"job_{'0' * 24}",
    "reservation": f"res_{'0' * 24}", "session": f"ses_{'0' * 24}",
    "survey": "unheard-of", "permit": f"prm_{'0' * 24}", "proposal": f"prp_{'0' * 24}", "token": "0" * 16,
    "inbox file": "0" * 32, "person": "nobody-here",
}  # fmt: skip
_TERMS = {"purpose": "kidneys", "legal_basis": "consent"}


@dataclass(frozen=True)
class Object:
    """Something that an address names.

    Attributes
    ----------
    name : str or callable
        What stands in the address; a callable makes a new object of this sort each time.
    exists : bool
        Whether it is there for whoever may see all.
    is_granted : bool
        Whether ada may see it.
    """

    name: str | Callable[[], str]
    exists: bool = True
    is_granted: bool = True
    made: list[str] = field(default_factory=list, compare=False)

    def make(self, *, is_new: bool = True) -> str:
        """Return what stands in the address; of a sort that is made anew, the one that was made first if not new."""
        if isinstance(self.name, str):
            return self.name
        if is_new or not self.made:
            self.made.append(self.name())
        return self.made[-1 if is_new else 0]


@dataclass
class Guarded:
    """A world with its objects, by kind and relation."""

    world: World
    objects: dict[str, dict[str, Object]] = field(default_factory=dict)

    def add(self, kind: str, relation: str, name: str | Callable[[], str], **how: bool) -> None:
        """Note an object."""
        self.objects.setdefault(kind, {})[relation] = Object(name, **how)


def _register(world: World, name: str, population: str, *, library: str = "shared") -> None:
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    text = manifest_text(name, population).replace("row_capacity", f'library = "{library}"\nrow_capacity', 1)
    manifest.write_text(text, encoding="utf-8")
    data.write_text(csv_text(mark(make_rows(30, seed=sum(name.encode())), NUMBERS)), encoding="utf-8")
    world.curator.datasets.register(manifest, data, actor="operator:test")


def _grant(api: Api, world: World, project: str, people: list[str], datasets: list[str], expires_at: str) -> str:
    asked = {"project": project, "people": people, "datasets": datasets, "expires_at": expires_at, **_TERMS}
    proposal = api.post("/v1/permits", json=asked | {"reason": "a study"}, token=world.tokens["otto"])
    assert proposal.status_code == 202, proposal.text
    approve = f"/v1/admin/proposals/{proposal.json()['id']}/approve"
    assert api.post(approve, token=world.tokens["olga"]).status_code == 200
    return str(proposal.json()["label"])


def _buy(api: Api, token: str, dataset: str, key: str, **asked: Any) -> str:
    sent = body(rows={"map": "box"}, price={"mu": 0.01}, fresh=True, **asked)
    answer = api.post(f"/v1/datasets/{dataset}/releases", json=sent, key=key, token=token)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _work(api: Api, token: str, dataset: str, key: str, **asked: Any) -> str:
    """Return a job that is over."""
    sent = body(targets=[], statistics=["xtx"], rows={"map": "ball"}, price={"mu": 0.01}, fresh=True, **asked)
    address = f"/v1/datasets/{dataset}/releases"
    answer = api.post(address, json=sent, key=key, token=token, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    job = str(answer.json()["id"])
    end = time.monotonic() + scaled(20)
    while api.get(f"/v1/jobs/{job}", token=token).json()["state"] == "running":
        assert time.monotonic() < end, "the job does not end"
        time.sleep(0.01)
    return job


def _reserve(api: Api, token: str, dataset: str, key: str, expires_in_s: int = 10**6, **asked: Any) -> str:
    sent = {"price": {"mu": 0.01}, "expires_in_s": expires_in_s, **asked}
    answer = api.post(f"/v1/datasets/{dataset}/reservations", json=sent, key=key, token=token)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _open_session(api: Api, token: str, dataset: str, key: str, **asked: Any) -> str:
    sent = {"positives": 1, "direction": "any", "price": {"epsilon": 0.001}, **asked}
    answer = api.post(f"/v1/datasets/{dataset}/sessions", json=sent, key=key, token=token)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


SCENES: Mapping[str, tuple[str, dict[str, str]]] = {
    "own": ("ada", {"dataset": "cohort"}),
    "a colleague's": ("ben", {"dataset": "twin", "project": "kidney"}),
    "a colleague's own": ("ben", {"dataset": "private"}),
    "of another project": ("cleo", {"dataset": "hidden", "project": "liver"}),
    "of a permit that was ended": ("ada", {"dataset": "gone", "project": "past"}),
    "of a permit that has expired": ("ada", {"dataset": "lapsed", "project": "brief"}),
    "of a dataset that has ended": ("ada", {"dataset": "closed"}),
}
"""Of each relation: who asked, of which dataset, for which project."""


@contextmanager
def guarded_world(folder: Path, *, passes: bool = True, **options: Any) -> Iterator[Guarded]:
    """Open a world with one of everything, in the present: the database looks at its own clock, too.

    Parameters
    ----------
    folder : Path
    passes : bool
        Whether the time passes after which permits, tokens and a dataset have ended.
    **options
        Of `open_world`.
    """
    with open_world(folder, moment=datetime.now(UTC), inbox=folder / "inbox", **options) as world:
        found = _furnish(world)
        if passes:
            _let_time_pass(world)
        yield found


def _let_time_pass(world: World) -> None:
    world.clock.advance(days=2)  # what is brief has ended; and the cut of the month comes
    world.curator.versions.retire("closed", actor="operator:test")
    world.clock.advance(days=31)
    while not 3 <= world.clock.moment.day <= 26:  # no cut of a month may come due while tests ask
        world.clock.advance(days=1)
    world.curator.versions.cut_due()
    assert next(one for one in world.curator.datasets.list_all() if one.name == "closed").is_retired


def _furnish(world: World) -> Guarded:
    found, curator, clock = Guarded(world), world.curator, world.clock
    for who, roles in (PEOPLE | {"cleo": (Role.ANALYST,), "otto": (Role.PRIVACY_OFFICER,)}).items():
        world.tokens[who] = curator.identity.create_token(who, *roles, days=400).text
    api, tokens = world.api(None), world.tokens
    for population in ("harbour", "hill"):
        open_population(curator, population, Price(mu=0.3))
    for name, population, library in (
        ("twin", "town", "shared"), ("private", "town", "own"), ("gone", "harbour", "shared"),
        ("lapsed", "hill", "shared"), ("closed", "town", "shared"), ("spare", "town", "shared"),
    ):  # fmt: skip
        _register(world, name, population, library=library)
    for who, name in (("ada", "private"), ("ben", "private"), ("ada", "closed")):
        curator.permits.grant(who, name, actor="operator:test")
    soon, far = timestamp(clock() + timedelta(hours=1)), "2199-01-01T00:00:00Z"
    kidney = _grant(api, world, "kidney", ["ada", "ben"], ["twin"], far)
    liver = _grant(api, world, "liver", ["cleo"], ["hidden"], far)
    past = _grant(api, world, "past", ["ada"], ["gone"], far)
    brief = _grant(api, world, "brief", ["ada"], ["lapsed"], soon)

    counter = iter(range(10**6))

    def reserve_anew(relation: str) -> Callable[[], str]:
        who, asked = SCENES[relation]
        told = {name: text for name, text in asked.items() if name == "project"}
        return lambda: _reserve(api, tokens[who], asked["dataset"], f"anew{next(counter)}", **told)

    def open_anew(relation: str) -> Callable[[], str]:
        who, asked = SCENES[relation]
        told = {name: text for name, text in asked.items() if name == "project"}
        return lambda: _open_session(api, tokens[who], asked["dataset"], f"anew{next(counter)}", **told)

    def grant_anew(people: list[str]) -> str:
        return _grant(api, world, f"spare{next(counter)}", people, ["spare"], far)

    found.objects["reservation to end"] = {}
    for number, (relation, (who, asked)) in enumerate(SCENES.items()):
        told, dataset = {name: text for name, text in asked.items() if name == "project"}, asked["dataset"]
        is_shown = relation not in {"a colleague's own", "of another project", "of a permit that was ended"}
        place = (api, tokens[who], dataset)
        found.add("release", relation, _buy(*place, f"b{number}", **told), is_granted=is_shown)
        found.add("job", relation, _work(*place, f"j{number}", **told), is_granted=is_shown)
        is_own = who == "ada"
        found.add("reservation", relation, _reserve(*place, f"r{number}", **told), is_granted=is_own)
        found.add("session", relation, _open_session(*place, f"s{number}", **told), is_granted=is_own)
        if relation != "a colleague's own":
            found.add("dataset", relation, dataset, is_granted=is_shown)
    closing = _reserve(api, tokens["ada"], "cohort", "closing")
    assert api.request("DELETE", f"/v1/reservations/{closing}", token=tokens["ada"]).status_code == 200
    found.add("reservation", "closed", closing)
    found.add("reservation", "expired", _reserve(api, tokens["ada"], "cohort", "brief", 60))
    for relation in ("own", "a colleague's", "of another project"):
        found.objects["reservation to end"][relation] = Object(reserve_anew(relation), is_granted=relation == "own")
    ended = _open_session(api, tokens["ada"], "cohort", "ended")
    assert api.request("DELETE", f"/v1/sessions/{ended}", token=tokens["ada"]).status_code == 200
    found.add("session", "closed", ended)
    found.objects["session to end"] = {
        relation: Object(open_anew(relation), is_granted=relation == "own")
        for relation in ("own", "a colleague's", "of another project")
    }
    found.add("reservation", "a job", found.objects["job"]["own"].name, exists=False)
    found.add("job", "a reservation", found.objects["reservation"]["own"].name, exists=False)

    for relation, name in (
        ("own", "town"), ("of another project", "valley"), ("of a permit that was ended", "harbour"),
        ("of a permit that has expired", "hill"),
    ):  # fmt: skip
        found.add("population", relation, name, is_granted=name in {"town", "hill"})
    found.add("population", "the register", "_register", exists=False)
    found.add("entry", "own", "town/ledger/1")
    found.add("entry", "of another sequence", "town/ledger/100000", exists=False)
    found.add("entry", "of no sequence", "town/ledger/x", exists=False)
    found.add("entry", "of the register", "_register/ledger/1", exists=False)
    found.add("entry", UNKNOWN, "nowhere/ledger/1", exists=False)

    plain = {(who, dataset): permit for who, dataset, permit in curator.permits.list_grants()}
    found.add("permit", "own", plain["ada", "cohort"])
    found.add("permit", "a colleague's own", plain["ben", "cohort"], is_granted=False)
    found.add("permit", "of the same project", kidney)
    found.add("permit", "of another project", liver, is_granted=False)
    found.add("permit", "ended", past)
    found.add("permit", "expired", brief)
    ended = api.post(f"/v1/permits/{past}/end", json={"reason": "over"}, token=tokens["olga"])
    assert ended.status_code == 200, ended.text
    left = _grant(api, world, "left", ["ada"], ["gone"], far)
    ended = api.post(f"/v1/permits/{left}/end", json={"reason": "over"}, token=tokens["otto"])
    assert ended.status_code == 200, ended.text
    for relation, people in (("own", ["ada"]), ("of the same project", ["ada", "ben"]), ("of another", ["cleo"])):
        found.add("permit to end", relation, partial(grant_anew, people))
    found.add("permit to end", "ended by oneself", past)  # olga, who repeats it
    found.add("permit to end", "ended", left)

    def propose(who: str) -> str:
        opened = {"name": f"new{next(counter)}", "adjacency": "add_remove", "limit": {"mu": 0.1}, "reason": "new"}
        proposal = api.post("/v1/admin/populations", json=opened, token=tokens[who])
        assert proposal.status_code == 202, proposal.text
        return str(proposal.json()["id"])

    def decided() -> str:
        proposal = propose("otto")
        assert api.post(f"/v1/admin/proposals/{proposal}/reject", token=tokens["otto"]).status_code == 200
        return proposal

    def ask(who: str) -> str:
        asked = {"project": f"wish{next(counter)}", "people": [who], "datasets": ["cohort"], "expires_at": far}
        proposal = api.post("/v1/permits", json=asked | _TERMS | {"reason": "a wish"}, token=tokens[who])
        assert proposal.status_code == 202, proposal.text
        return str(proposal.json()["id"])

    def refused(who: str) -> str:
        proposal = ask(who)
        assert api.post(f"/v1/admin/proposals/{proposal}/reject", token=tokens["otto"]).status_code == 200
        return proposal

    found.add("proposal of one's own", "own", partial(ask, "ada"))
    found.add("proposal of one's own", "decided", refused("ada"))
    found.add("proposal of one's own", "a colleague's", partial(ask, "ben"), is_granted=False)
    found.add("proposal of one's own", "an officer's", partial(propose, "otto"), is_granted=False)
    found.add("proposal", "own", partial(propose, "olga"))
    found.add("proposal", "somebody else's", partial(propose, "otto"))
    found.add("proposal", "decided", decided())

    def issue(who: str, *, days: int = 400, is_revoked: bool = False) -> str:
        token = curator.identity.create_token(who, *(PEOPLE.get(who) or (Role.ANALYST,)), days=days)
        if is_revoked:
            curator.identity.revoke_token(token.id)
        return token.id

    def survey() -> str:
        terms = survey_terms(f"asked{next(counter)}", SMOKING, reports_max=9, participants="anyone")
        assert api.post("/v1/surveys", json=terms, token=tokens["stella"]).status_code == 201
        return str(terms["name"])

    closed = survey()
    assert api.post(f"/v1/surveys/{closed}/close", token=tokens["stella"]).status_code == 200
    found.add("survey", "open", survey())
    found.add("survey to close", "open", survey)
    found.add("survey to close", "closed", closed)

    expired = [issue("ada", days=1) for _ in range(20)]
    found.add("token", "own", partial(issue, "audra"))
    found.add("token", "somebody else's", partial(issue, "cleo"))
    found.add("token", "expired", expired.pop)
    found.add("token", "revoked", issue("ada", is_revoked=True))

    for relation, who in (("own", "ada"), ("a colleague's", "ben"), ("an officer's", "otto")):
        found.add("person", relation, who, is_granted=who == "ada")

    inbox = world.folder / "inbox"
    inbox.mkdir()
    (inbox / "new.csv").write_text(csv_text(mark(make_rows(30), NUMBERS)), encoding="utf-8")
    found.add("inbox file", "there", curator.inbox.list_files()[0][0].id)
    (inbox / "link.csv").symlink_to(inbox / "new.csv")
    found.add("inbox file", "a link", hashlib.sha256(b"link.csv").hexdigest()[:32], exists=False)

    for kind, name in NOBODY_KNOWS.items():
        found.add(kind, UNKNOWN, name, exists=False)
        found.add(kind, MALFORMED, "No%20name%0A", exists=False)
    for relation in (UNKNOWN, MALFORMED):
        found.objects["survey to close"][relation] = found.objects["survey"][relation]
    for relation in ("closed", UNKNOWN, MALFORMED):
        found.objects["session to end"][relation] = found.objects["session"][relation]
    for relation in ("closed", "a job", UNKNOWN, MALFORMED):
        found.objects["reservation to end"][relation] = found.objects["reservation"][relation]
    found.objects["proposal of one's own"] |= {name: found.objects["proposal"][name] for name in (UNKNOWN, MALFORMED)}
    found.objects["permit to end"] |= {name: found.objects["permit"][name] for name in (UNKNOWN, MALFORMED)}
    return found
