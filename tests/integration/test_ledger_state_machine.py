"""Acts on the ledger in any order: it agrees with a serial model of plain integers.

Two workers act on one database, and what one does may fall into the middle of what the other one computes. The model
knows nothing of the product's arithmetic: it is given what each request costs, and adds.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scenes import Interrupted, another_worker, box, checkpoint_of, seen
from support import ADMIN, World, body, fresh_database, open_world

from curator_service.container import Curator
from curator_service.identity.repository import Principal
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.kit.clock import timestamp
from curator_service.kit.problems import Problem
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Refused
from curator_service.ledger.schemas import PriceModel
from curator_service.ledger.trust.anchor import Anchor
from curator_service.privacy.accountant import Price
from curator_service.releases import jobs
from curator_service.releases.preparation import prepare
from curator_service.releases.schemas import ReservationRequest

pytestmark = pytest.mark.crashes

STEP = 10**12 // 2048
"""Units of µ² in ρ = 1/4096, to the unit: amounts of limits and reservations are so many steps."""
BUDGET_STEPS = 300
REQUESTS = {
    "one": box(features=["age"], price={"mu": 0.05}),
    "two": box(features=["age", "weight"], price={"mu": 0.06}),
    "all": box(features=["age", "sex", "weight"], price={"mu": 0.1}),
    "block": box(features=["age", "sex"], price={"mu": 0.02}),
    "most": box(features=["age", "weight"], price={"mu": 0.3}),
    "ball": body(features=["age"], price={"mu": 0.05}),
    "balls": body(features=["age", "sex"], price={"mu": 0.1}),
}
SLOW = {"ball", "balls"}
"""These pass over rows: they reserve first."""
ANALYSTS, ADMINS, PROJECT = ("ada", "ben"), ("root", "rita"), "kidney"


def entries_of(name: str) -> tuple[Any, ...]:
    """Return what is equal for requests that ask for the same numbers, whatever their price."""
    return frozenset(REQUESTS[name]["features"]), str(REQUESTS[name].get("rows"))


# --- The model


@dataclass
class Part:
    """Part of a permit: the one of an analyst alone, or of a project."""

    limit: int | None = None
    posted: int = 0
    pending: int = 0


@dataclass
class OpenReservation:
    """An open reservation."""

    left: int
    who: str
    project: str = ""
    drawn_from: str | None = None
    ends: datetime | None = None


@dataclass
class Key:
    """A used key: what it was used for, its answer, or the reservation of the job that works on one."""

    use: tuple[Any, ...]
    answer: bytes | None = None
    reservation: str = ""


@dataclass(frozen=True)
class Ask:
    """A purchase as it is asked."""

    name: str
    who: str
    key: str
    fresh: bool
    project: str
    reservation: str | None

    @property
    def use(self) -> tuple[Any, ...]:
        return self.name, self.fresh, self.project, self.reservation


@dataclass
class Model:
    """The account, kept by hand."""

    costs: dict[str, int]
    sources: dict[str, set[str]]
    noise: dict[str, dict[str, float]]
    limit: int = BUDGET_STEPS * STEP
    posted: int = 0
    pending: int = 0
    parts: dict[tuple[str, str], Part] = field(default_factory=dict)
    reservations: dict[str, OpenReservation] = field(default_factory=dict)
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    stored: list[tuple[str, bytes]] = field(default_factory=list)
    bought: set[str] = field(default_factory=set)

    def part_of(self, who: str, project: str) -> Part:
        return self.parts.setdefault(("project", project) if project else ("analyst", who), Part())

    def room(self, who: str, project: str) -> int:
        """Return what the tightest limit leaves."""
        part, room = self.part_of(who, project), self.limit - self.posted - self.pending
        return room if part.limit is None else min(room, part.limit - part.posted - part.pending)

    def reserve(self, name: str, reservation: OpenReservation) -> None:
        if reservation.drawn_from is not None:
            self.reservations[reservation.drawn_from].left -= reservation.left
        else:
            self.pending += reservation.left
            self.part_of(reservation.who, reservation.project).pending += reservation.left
        self.reservations[name] = reservation

    def give_back(self, name: str) -> None:
        reservation = self.reservations.pop(name)
        if reservation.drawn_from in self.reservations:
            self.reservations[reservation.drawn_from].left += reservation.left
            return
        self.pending -= reservation.left
        self.part_of(reservation.who, reservation.project).pending -= reservation.left

    def charge(self, cost: int, who: str, project: str, *, is_reserved: bool) -> None:
        self.posted += cost
        self.pending -= cost if is_reserved else 0
        part = self.part_of(who, project)
        part.posted += cost
        part.pending -= cost if is_reserved else 0

    def find_stored(self, name: str) -> bytes | None:
        """Return the quietest answer of the same entries that is nowhere noisier than asked, the first of equals."""
        found = []
        for other, answer in self.stored:
            content = json.loads(answer)
            sd = content["noise"]["sd"]
            if entries_of(other) == entries_of(name) and all(
                sd[part] <= most for part, most in self.noise[name].items()
            ):
                found.append((sum(sd.values()), content["receipt"]["sequence"], answer))
        return min(found)[2] if found else None

    def judge(self, ask: Ask, now: datetime, *, others: bool = False) -> tuple[Any, ...]:
        """Return what becomes of a purchase: where its answer comes from, or why it is refused."""
        reservation = self.reservations.get(ask.reservation or "")
        known = self.keys.get((ask.who, ask.key))
        if known is not None and known.use != ask.use:
            return ("idempotency-key-reused",)
        if known is not None and known.answer is not None:
            return "replayed", known.answer
        if known is not None and known.reservation in self.reservations:
            return ("release-in-progress",)
        stored = None if ask.fresh else self.find_stored(ask.name)
        if stored is not None:
            return "stored", stored
        if not ask.fresh and self.sources[ask.name] & self.bought:
            return ("derived",)
        if others and not ask.fresh and ask.name in SLOW:
            return ("release-in-progress",)
        if ask.reservation is not None and (reservation is None or reservation.ends is None or reservation.ends <= now):
            return ("reservation-ended",)
        room = self.room(ask.who, ask.project) if reservation is None else reservation.left
        if self.costs[ask.name] > room:
            return "budget-exceeded", room
        return ("new",)


# --- The machine


class LedgerMachine(RuleBasedStateMachine):
    """Two workers on one ledger, beside the model."""

    def __init__(self, server: str | None = None) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="curator-machine-"))
        self.stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = None if server is None else self.stack.enter_context(fresh_database(server))
        self.monotonic_s = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.monotonic_s)
        self.stack.enter_context(mock.patch.object(jobs, "time", clock))
        limit = Price(rho=BUDGET_STEPS / 4096)
        self.world: World = self.stack.enter_context(open_world(folder, url=url, limit=limit))
        for admin in ADMINS:
            self.world.add_token(admin, *ADMIN)
        self.world.permit(PROJECT, ANALYSTS)
        self.permits = {
            ("project", PROJECT) if permit.terms.project else ("analyst", permit.terms.people[0]): permit.id
            for permit in self.world.curator.permits.list_permits()
        }
        self.noises = (Interrupted(), Interrupted())
        self.workers = tuple(another_worker(self.world, noise=noise) for noise in self.noises)
        for worker in self.workers:
            self.stack.callback(worker.close)
            self.world.sql(f"INSERT INTO workers (id, beat) VALUES ('{worker.job_runner.worker_id}', 0)")
        self.dataset = next(d for d in self.world.curator.datasets.list_all() if d.name == "cohort")
        self.people: dict[str, Principal] = {p.name: p for p in self.world.curator.identity.list_principals()}
        self.model = Model(*self.price_list())
        self.witness: Any = None
        self.call_witness()
        self.stack.callback(self.dismiss_witness)
        self.fresh_keys = (f"new-{i}" for i in count())
        self.checked = 0
        self.folded = {"limit": 0, "posted": 0, "pending": 0}
        self.idle: dict[str, Reservation] = {}
        self.ended: list[Reservation] = []
        self.done: list[tuple[str, str]] = []
        self.answered: list[Ask] = []
        self.proposals: list[dict[str, Any]] = []
        self.checkpoints: list[dict[str, Any]] = []

    def teardown(self) -> None:
        self.stack.close()

    def price_list(self) -> tuple[dict[str, int], dict[str, set[str]], dict[str, dict[str, float]]]:
        """Return what each request costs, of which others it is a block with no more noise than asked, and its own."""
        prepared = {name: self.prepare(self.workers[0], name) for name in REQUESTS}
        sources: dict[str, set[str]] = {}
        for name, small in prepared.items():
            boxes = [other for other in REQUESTS if other != name and name not in SLOW and other not in SLOW]
            sources[name] = {
                other
                for other in boxes
                if set(REQUESTS[name]["features"]) <= set(REQUESTS[other]["features"])
                and all(prepared[other].noise_sd[part] <= sd for part, sd in small.noise_sd.items())
            }
        noise = {name: p.noise_sd for name, p in prepared.items()}
        return {name: p.plan.cost for name, p in prepared.items()}, sources, noise

    def prepare(self, worker: Curator, name: str, **more: Any) -> Any:
        return prepare(KINDS, self.dataset, GramRequest.model_validate({**REQUESTS[name], **more}))

    def now(self) -> datetime:
        return self.world.clock.moment

    def key_of(self, pick: int) -> str:
        """Return one of a few keys, or a new one."""
        return f"key-{pick}" if pick < 4 else next(self.fresh_keys)

    def pick_reservation(self, pick: int) -> tuple[str, OpenReservation] | None:
        found = [pair for pair in self.model.reservations.items() if pair[0].startswith("res_")]
        return found[pick % len(found)] if found else None

    @initialize(steps=st.sampled_from([0, 15, 45]))
    def divide(self, steps: int) -> None:
        """Give an analyst and a project a part each, so that parts are what binds now and then."""
        if steps:
            self.set_limit(("analyst", "ada"), 2 * steps, "root", 0)
            self.set_limit(("project", PROJECT), steps, "root", 1)

    # --- Purchases

    @rule(
        name=st.sampled_from(sorted(REQUESTS)),
        who=st.sampled_from(ANALYSTS),
        key=st.integers(0, 7),
        fresh=st.sampled_from([False, False, True]),
        payer=st.sampled_from(["account", "account", "project", "reservation", "reservation"]),
        pick=st.integers(0, 3),
        at=st.integers(0, 1),
        breaks=st.sampled_from([False, False, False, True]),
        meanwhile=st.sampled_from(
            ["", "give up", "cancel", "same key", "same request", "close reservation", "buy", "rotate", "expire"]
        ),
    )
    def buy(
        self, name: str, who: str, key: int, fresh: bool, payer: str, pick: int, at: int, breaks: bool, meanwhile: str
    ) -> None:
        reservation = self.pick_reservation(pick) if payer == "reservation" else None
        project = PROJECT if payer == "project" else ""
        ask = Ask(name, who, self.key_of(key), fresh, project, None if reservation is None else reservation[0])
        if reservation is not None and reservation[1].who != who:
            assert self.send(ask, at) == ("reservation-not-found",)
            return
        paying = reservation[1].project if reservation is not None else project
        self.submission(ask, paying, at, breaks=breaks, meanwhile=meanwhile)

    @precondition(lambda self: self.answered)
    @rule(pick=st.integers(0, 50), at=st.integers(0, 1))
    def retry(self, pick: int, at: int) -> None:
        """A key gives the same bytes for ever."""
        ask = self.answered[pick % len(self.answered)]
        assert self.send(ask, at) == ("replayed", self.model.keys[ask.who, ask.key].answer)

    def submission(self, ask: Ask, paying: str, at: int, *, breaks: bool = False, meanwhile: str = "") -> None:
        model, cost = self.model, self.model.costs[ask.name]
        verdict = model.judge(ask, self.now())
        noise, drawn_before = self.noises[at], self.noises[at].calls
        noise.breaks = "a row in a message" if breaks else ""
        begun = verdict[0] == "new" and ask.name in SLOW
        if begun:
            model.reserve("now", OpenReservation(cost, ask.who, paying, ask.reservation))
            model.keys[ask.who, ask.key] = Key(ask.use, None, "now")
            noise.act = partial(self.interrupt, ask, at, meanwhile)
        got = self.send(ask, at)
        noise.breaks, noise.act = "", None
        if begun and not breaks and "now" not in model.reservations:  # ended meanwhile: its draw leaves nobody
            verdict, drawn_before = (("job-ended" if meanwhile == "cancel" else "busy"),), drawn_before + 1
        if verdict[0] != "new":
            # What takes no time draws before the database decides, as noise is of no data; nothing of it leaves.
            in_vain = noise.calls - drawn_before
            assert in_vain == 0 or (in_vain == 1 and verdict[0] == "budget-exceeded" and ask.name not in SLOW)
            if not (in_vain and breaks and got == ("broken",)):
                self.settle_without_charge(ask, verdict, got)
            return
        assert noise.calls == drawn_before + 1
        if breaks:
            assert got == ("broken",)
            if begun and "now" in model.reservations:
                model.give_back("now")
            return
        assert got[0] == "new", got
        if begun:
            del model.reservations["now"]
            self.done.append((self.job_of(got[1]), ask.who))
        elif ask.reservation is not None:
            model.reservations[ask.reservation].left -= cost
        model.charge(cost, ask.who, paying, is_reserved=begun or ask.reservation is not None)
        model.bought.add(ask.name)
        self.answer(ask, got[1])

    def settle_without_charge(self, ask: Ask, verdict: tuple[Any, ...], got: tuple[Any, ...]) -> None:
        if verdict == ("derived",):
            assert got[0] == "derived", got
            assert json.loads(got[1])["cost"]["units"] == "0"
            self.answer(ask, got[1])
            return
        assert got == verdict
        if verdict[0] in {"stored", "replayed"}:
            self.answer(ask, verdict[1])

    def answer(self, ask: Ask, answer: bytes) -> None:
        """Keep an answer; its place in the chain is in the anchor by the time it is here."""
        self.model.keys[ask.who, ask.key] = Key(ask.use, answer)
        self.model.stored.append((ask.name, answer))
        self.answered.append(ask)
        receipt = json.loads(answer)["receipt"]
        self.checkpoints.append(checkpoint_of(receipt))
        assert self.anchored() >= receipt["sequence"]

    def anchored(self) -> int:
        return Anchor(self.world.settings.anchor_folder).read()["town"].checkpoint.sequence

    def send(self, ask: Ask, at: int) -> tuple[Any, ...]:
        more: dict[str, Any] = {"fresh": ask.fresh}
        if ask.project:
            more["project"] = ask.project
        if ask.reservation is not None:
            more["reservation"] = ask.reservation
        worker = self.workers[at]
        prepared = self.prepare(worker, ask.name, **more)
        return told(lambda: worker.releases.release(prepared, self.people[ask.who], ask.key))

    def interrupt(self, ask: Ask, at: int, meanwhile: str) -> None:
        """Let the other worker do something while this one computes."""
        real = next(iter(self.reservations_in_database().keys() - self.model.reservations.keys()))
        self.model.reservations[real] = self.model.reservations.pop("now")
        self.model.keys[ask.who, ask.key].reservation = real
        self.check()
        other, another = 1 - at, next(name for name in ANALYSTS if name != ask.who)
        match meanwhile:
            case "give up":
                self.give_up(other)
            case "cancel":
                self.cancel_now(real, ask.who, other)
            case "same key":
                assert self.send(ask, other) == ("release-in-progress",)
            case "same request" if not ask.fresh:
                same = Ask(ask.name, another, next(self.fresh_keys), False, "", None)
                assert self.send(same, other) == self.model.judge(same, self.now(), others=True)
            case "close reservation" if ask.reservation is not None:
                self.close(ask.reservation, self.model.reservations[ask.reservation].who, other)
            case "buy":
                self.submission(Ask("one", another, next(self.fresh_keys), True, PROJECT, None), PROJECT, other)
            case "rotate":
                self.rotate(other)
            case "expire":
                self.expire(61, other)
        self.check()
        if real in self.model.reservations:
            self.model.reservations["now"] = self.model.reservations.pop(real)

    # --- Reservations of analysts

    @rule(
        steps=st.sampled_from([1, 6, 25, 60, 290]),
        who=st.sampled_from(ANALYSTS),
        project=st.sampled_from(["", PROJECT]),
        key=st.integers(0, 7),
        expires_in_s=st.sampled_from([60, 3600]),
        at=st.integers(0, 1),
    )
    def reserve(self, steps: int, who: str, project: str, key: int, expires_in_s: int, at: int) -> None:
        asked = {"price": {"rho": steps / 4096}, "expires_in_s": expires_in_s}
        request = ReservationRequest.model_validate(asked | ({"project": project} if project else {}))
        text, use = self.key_of(key), ("reservation", steps, project, expires_in_s)
        reservations = self.workers[at].reservations
        got = told(lambda: reservations.reserve(self.dataset, request, self.people[who], text))
        known, room = self.model.keys.get((who, text)), self.model.room(who, project)
        if known is not None:
            assert got == (("replayed", known.answer) if known.use == use else ("idempotency-key-reused",))
        elif steps * STEP > room:
            assert got == ("budget-exceeded", room)
        else:
            assert got[0] == "new", got
            reservation = json.loads(got[1])
            assert reservation["reserved"]["units"] == reservation["remaining"]["units"] == str(steps * STEP)
            ends = datetime.fromisoformat(reservation["expires_at"])
            self.model.reserve(reservation["id"], OpenReservation(steps * STEP, who, project, None, ends))
            self.model.keys[who, text] = Key(use, got[1])

    @precondition(lambda self: self.pick_reservation(0))
    @rule(pick=st.integers(0, 3), who=st.sampled_from(ANALYSTS), at=st.integers(0, 1))
    def close_reservation(self, pick: int, who: str, at: int) -> None:
        name, reservation = self.pick_reservation(pick)
        if who == reservation.who:
            self.close(name, who, at)
        reservations = self.workers[at].reservations
        refusal = "reservation-ended" if who == reservation.who else "reservation-not-found"
        assert told(lambda: (reservations.close_reservation(name, self.people[who]), "")) == (refusal,)

    def close(self, name: str, who: str, at: int) -> None:
        shown = json.loads(self.workers[at].reservations.close_reservation(name, self.people[who]))
        assert (shown["state"], shown["remaining"]["units"]) == ("closed", "0")
        self.model.give_back(name)

    @rule(passed_s=st.sampled_from([1, 61, 3601]), at=st.integers(0, 1))
    def expire(self, passed_s: int, at: int) -> None:
        self.world.clock.advance(seconds=passed_s)
        due = {n for n, r in self.model.reservations.items() if r.ends is not None and r.ends <= self.now()}
        self.world.sql("UPDATE workers SET beat = beat + 1")  # they live
        assert set(self.workers[at].job_runner.sweep()) == due
        for name in due:
            self.model.give_back(name)

    # --- Jobs of workers that never work

    @rule(
        steps=st.sampled_from([1, 5, 30, 250]),
        who=st.sampled_from(ANALYSTS),
        pick=st.integers(-3, 3),
        at=st.integers(0, 1),
    )
    def reserve_a_job(self, steps: int, who: str, pick: int, at: int) -> None:
        found = self.pick_reservation(pick) if pick >= 0 else None
        reservation = None if found is None or found[1].who != who else found
        project = "" if reservation is None else reservation[1].project
        job = Reservation(
            id=f"job_{len(self.idle) + len(self.ended):024x}",
            population="town",
            dataset_id=self.dataset.id,
            principal_id=self.people[who].id,
            permit_id=self.permits["project", project] if project else self.permits["analyst", who],
            project=project,
            drawn_from=None if reservation is None else reservation[0],
            units=steps * STEP,
            drawn=0,
            state="open",
            outcome="running",
            request_digest="",
            details='{"duration_ms":1000,"request":"{}"}',
            owner=f"wrk_dead_{len(self.idle) + len(self.ended)}",
            created_at=timestamp(self.now()),
            expires_at="",
        )
        room = self.model.room(who, project) if reservation is None else reservation[1].left
        try:
            with self.workers[at].ledger.unit() as unit:
                unit.reserve(job)
        except Refused:
            assert job.units > room
            return
        assert job.units <= room
        self.model.reserve(job.id, OpenReservation(job.units, who, project, job.drawn_from))
        self.idle[job.id] = job

    @rule(at=st.integers(0, 1))
    def give_up(self, at: int) -> None:
        """Their beat stands still for a lease, as this worker's own clock tells."""
        job_runner = self.workers[at].job_runner
        due = {
            n for n, r in self.model.reservations.items() if n.startswith("job_") or (r.ends and r.ends <= self.now())
        }
        found = job_runner.sweep()
        self.monotonic_s += job_runner.lease_s
        assert {*found, *job_runner.sweep()} == due
        self.release_jobs(due)

    def release_jobs(self, due: set[str]) -> None:
        for name in sorted(due):  # jobs before the reservations that pay them: both ways end the same
            self.model.give_back(name)
            if name in self.idle:
                self.ended.append(self.idle.pop(name))

    @precondition(lambda self: self.idle)
    @rule(pick=st.integers(0, 5), who=st.sampled_from(ANALYSTS), at=st.integers(0, 1))
    def cancel(self, pick: int, who: str, at: int) -> None:
        job = sorted(self.idle.values(), key=lambda one: one.id)[pick % len(self.idle)]
        reservations = self.workers[at].reservations
        got = told(lambda: (reservations.cancel(reservations.get_job(job.id), self.people[who]).outcome, "ended"))
        if self.people[who].id != job.principal_id:
            assert got == ("not-found",)
            return
        assert got == ("ended", "cancelled")
        self.release_jobs({job.id})
        assert told(lambda: (reservations.cancel(reservations.get_job(job.id), self.people[who]), "")) == ("job-ended",)

    def cancel_now(self, job: str, who: str, at: int) -> None:
        reservations = self.workers[at].reservations
        assert reservations.cancel(reservations.get_job(job), self.people[who]).outcome == "cancelled"
        self.model.give_back(job)

    @precondition(lambda self: self.ended)
    @rule(pick=st.integers(0, 5), at=st.integers(0, 1))
    def post_too_late(self, pick: int, at: int) -> None:
        """Whoever slept through its lease cannot charge any more, whatever else is held."""
        job = self.ended[pick % len(self.ended)]
        with pytest.raises(Refused), self.workers[at].ledger.unit() as unit:
            unit.post(job, timestamp(self.now()))

    @staticmethod
    def job_of(answer: bytes) -> str:
        job: str = json.loads(answer)["receipt"]["reservation"]
        return job

    @precondition(lambda self: self.done)
    @rule(pick=st.integers(0, 5), at=st.integers(0, 1))
    def cancel_too_late(self, pick: int, at: int) -> None:
        """What was charged is never given back."""
        job, who = self.done[pick % len(self.done)]
        reservations = self.workers[at].reservations
        assert told(lambda: (reservations.cancel(reservations.get_job(job), self.people[who]), "")) == ("job-ended",)

    # --- Limits of the account and of permits, keys, clients

    @rule(
        place=st.sampled_from([("", ""), ("analyst", "ada"), ("analyst", "ben"), ("project", PROJECT)]),
        steps=st.sampled_from([3, 60, 150, 299, 301, 400]),
        admin=st.sampled_from(ADMINS),
        at=st.integers(0, 1),
    )
    def set_limit(self, place: tuple[str, str], steps: int, admin: str, at: int) -> None:
        worker, units, by = self.workers[at], steps * STEP, self.people[admin]
        if place[0]:
            terms = worker.permits.get_permit(self.permits[place]).terms
            changed = terms.model_copy(update={"limit": PriceModel(rho=steps / 4096)})
            got = told(lambda: (worker.permits.ask(changed, "why", by, self.permits[place]), "set"))
        else:
            got = told(lambda: (worker.approvals.propose_limit("town", Price(rho=steps / 4096), "why", by), "set"))
        was = self.limit_of(place)
        if was is not None and was < units:
            assert got[1].state == "open"
            self.proposals.append(
                {"id": got[1].id, "place": place, "was": was, "units": units, "by": admin, "open": True, "ended": ()}
            )
        else:
            self.apply_limit(place, units, got)

    @precondition(lambda self: self.proposals)
    @rule(pick=st.integers(0, 9), admin=st.sampled_from(ADMINS), approve=st.booleans(), at=st.integers(0, 1))
    def decide(self, pick: int, admin: str, approve: bool, at: int) -> None:
        proposal = self.proposals[pick % len(self.proposals)]
        approvals = self.workers[at].approvals
        got = told(lambda: (approvals.decide(proposal["id"], self.people[admin], approve=approve), "set"))
        outcome = "approved" if approve else "withdrawn" if admin == proposal["by"] else "rejected"
        if not proposal["open"]:  # whoever repeats a decision is answered as the first time
            is_repeat = proposal["ended"] == (outcome, admin)
            assert got[1].state == outcome if is_repeat else got == ("proposal-decided",)
        elif not approve:
            assert got[1].state == outcome
            proposal |= {"open": False, "ended": (outcome, admin)}
        elif admin == proposal["by"]:
            assert got == ("second-admin-needed",)
        else:
            self.apply_limit(proposal["place"], proposal["units"], got)
            if got[0] == "set":
                proposal["ended"] = (outcome, admin)

    def limit_of(self, place: tuple[str, str]) -> int | None:
        return self.model.parts.setdefault(place, Part()).limit if place[0] else self.model.limit

    def apply_limit(self, place: tuple[str, str], units: int, got: tuple[Any, ...]) -> None:
        whose = self.model.parts.setdefault(place, Part()) if place[0] else self.model
        if whose.posted + whose.pending > units:
            assert got == ("limit-conflict",)
            return
        assert got[0] == "set", got
        whose.limit = units
        for proposal in self.proposals:  # they were about another limit than the one that holds now
            if proposal["place"] == place:
                proposal["open"] = False

    @rule(at=st.integers(0, 1))
    def rotate(self, at: int) -> None:
        self.workers[at].keys.rotate(timestamp(self.now()))
        self.call_witness()

    def call_witness(self) -> None:
        """Let a third process, which knows the keys of now, check what the two did."""
        self.dismiss_witness()
        self.witness = another_worker(self.world)

    def dismiss_witness(self) -> None:
        if self.witness is not None:
            self.witness.database.dispose()

    @precondition(lambda self: self.checkpoints)
    @rule(pick=st.integers(0, 50), at=st.integers(0, 1))
    def return_as_a_client(self, pick: int, at: int) -> None:
        """What was signed once never seals an honest ledger."""
        (text,) = seen(self.checkpoints[pick % len(self.checkpoints)]).values()
        self.workers[at].ledger.client_checkpoints.receive(text, "town")

    # --- What holds at every step

    def reservations_in_database(self) -> dict[str, int]:
        return dict(self.world.sql("SELECT id, units - drawn_units FROM reservations WHERE state = 'open'"))

    @invariant()
    def check(self) -> None:
        self.check_account()
        self.check_entries()
        self.check_verdict()

    def check_account(self) -> None:
        model = self.model
        account = self.world.account()
        assert (account.limit, account.posted, account.pending) == (model.limit, model.posted, model.pending)
        columns = "permit_id, limit_units, posted_units, pending_units"
        rows = self.world.sql(f"SELECT {columns} FROM shares WHERE population = 'town'")
        places = {permit: place for place, permit in self.permits.items()}
        shares = {places[permit]: Part(*amounts) for permit, *amounts in rows}
        assert {n: p for n, p in shares.items() if p != Part()} == {n: p for n, p in model.parts.items() if p != Part()}
        assert self.reservations_in_database() == {
            name: reservation.left for name, reservation in model.reservations.items()
        }

    def check_entries(self) -> None:
        """I1 at every sequence: what the entries state, and what they add up to."""
        for entry in self.world.curator.ledger.list_entries("town", after=self.checked, count=1000):
            add_up(entry, self.folded)
            stated = {name: int(entry[name]) for name in self.folded}
            assert stated == self.folded
            assert stated["posted"] + stated["pending"] <= stated["limit"]
            self.checked = entry["sequence"]
        assert self.folded == {name: getattr(self.model, name) for name in self.folded}

    def check_verdict(self) -> None:
        found = self.witness.ledger.verify("town")
        assert found.ok, f"sequence {found.bad_sequence}: {found.reason}"
        assert self.witness.ledger.guard.reason() == ""
        assert self.world.discrepancies() == []


def told(act: Callable[[], tuple[Any, Any]]) -> tuple[Any, ...]:
    """Return what a caller is told: kind and answer, or the slug of a refusal, with what remains."""
    try:
        answer, kind = act()
    except Problem as problem:
        remaining = problem.members.get("remaining")
        return (problem.slug,) if remaining is None else (problem.slug, int(remaining["units"]))
    except RuntimeError:
        return ("broken",)
    return str(kind), getattr(answer, "body", answer)


def add_up(entry: dict[str, Any], account: dict[str, int]) -> None:
    """Move an account as an entry says, by hand."""
    units, moved = int(entry["units"]), "from" in entry or "to" in entry
    match entry["kind"]:
        case "open" | "limit" if "scope" not in entry:
            account["limit"] = units
        case "charge":
            assert units == price_by_hand(entry)
            account["posted"] += units
            account["pending"] -= units if "reservation" in entry else 0
        case "reserve":
            account["pending"] += 0 if moved else units
        case "void":
            account["pending"] -= 0 if moved else units


def price_by_hand(entry: dict[str, Any]) -> int:
    """Return Σ Δ²/(σ² − 9) of the entry's integers, in units of 10⁻¹², rounded up."""
    total = Fraction(0)
    for part in entry["mechanism"]:
        diagonal, offdiagonal = (int(scale) for scale in part["scales"])
        variance = min(diagonal**2 - 9, 2 * offdiagonal**2 - 18) if part["statistic"] == "xtx" else diagonal**2 - 9
        total += part["copies"] * Fraction(part["sensitivity"]) / variance
    return -int(-total * 10**12 // 1)


def run(server: str | None, *, examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(partial(LedgerMachine, server), settings=chosen)


def test_the_ledger_agrees_with_a_serial_model() -> None:
    run(None, examples=60, steps=30)


@pytest.mark.postgres
def test_the_ledger_agrees_with_a_serial_model_on_postgresql(postgres_server: str) -> None:
    run(postgres_server, examples=10, steps=20)
