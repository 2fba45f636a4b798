"""Small doubles of what the rules of releases depend on: a toy kind, a dataset, an account, and the steps of a unit."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from entry_examples import PLACE
from support import Ticking
from toy_kind import Filled, FilledKernel, FilledListing, FilledPlan, FilledRequest

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.repository import Dataset
from curator_service.datasets.visibility import collection_of
from curator_service.entries.base import Event
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.kinds.registry import KINDS, AnyKind, KindRegistry
from curator_service.kit.problems import TooManyRequests
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Payer, Refused
from curator_service.ledger.chain.entries import Checkpoint, Receipt, SignedCheckpoint, canonical
from curator_service.ledger.repository import Head, Population
from curator_service.ledger.trust.guard import unverified
from curator_service.privacy.accountant import GDP, Accountant, JointBound
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.allocation import Bound
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.mechanism import ExactSums, NoisyStatistics
from curator_service.privacy.samplers import Distribution
from curator_service.releases import catalogue, library, publisher, repository
from curator_service.releases.catalogue import BEFORE_ALL, CHUNK, Holders, Listed
from curator_service.releases.keys import KeyClaims
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.publisher import ReleasePublisher
from curator_service.releases.rendering import outline_of, render_answer
from curator_service.releases.repository import KnownKey, StoredRelease
from curator_service.releases.stopping import StoppableKernel, Stopped
from curator_service.releases.submission import Submission

MOMENT = "2026-03-01T12:00:00Z"
HOSTILE = ('","statistics":{"', '},"noise":{', "\\", '"},"columns":', ',"request":', '},"cost":')
"""Levels of a column that hold what stands between the members of an answer."""
ADA, BOB = (Principal(f"prn_{name}", name, frozenset({Role.ANALYST})) for name in ("ada", "bob"))


# --- Kinds: the toy as it is, and with what it does without


@dataclass(frozen=True)
class Half:
    """A joint bound: all costs together are a part of their sum."""

    part: Fraction = Fraction(1, 2)

    def cost(self, costs: Mapping[str, Fraction]) -> Fraction:
        return self.part * sum(costs.values())


class Joint(Filled):
    def bounds(self, dataset: Dataset, request: FilledRequest) -> tuple[tuple[Bound, ...], JointBound | None]:
        return super().bounds(dataset, request)[0], Half()

    def state_joint(self, joint: JointBound | None) -> str | None:
        return str(joint.part) if isinstance(joint, Half) else None

    def read_joint(self, constant: str | None) -> JointBound | None:
        return None if constant is None else Half(Fraction(constant))


class FilledRules:
    """Fewer columns are cut out of more; each value says where it stood."""

    extras: ClassVar = ("places",)

    def least_sd(self, stored: FilledListing) -> float:
        return stored.sd["rows"]

    def most_sd(self, asked: FilledListing) -> float:
        return asked.sd["rows"]

    def covers(self, stored: FilledListing, asked: FilledListing) -> bool:
        return set(asked.columns) <= set(stored.columns)

    def block_sd(self, stored: FilledListing, asked: FilledListing) -> Mapping[str, float] | None:
        return stored.sd if self.covers(stored, asked) else None

    def cut(
        self, stored: FilledListing, asked: FilledListing, statistics: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        places = [stored.columns.index(name) for name in asked.columns]
        return {"rows": {"values": [statistics["rows"]["values"][i] for i in places], "places": places}}

    def tell_difference(self, stored: FilledListing, asked: FilledListing, block_sd: Mapping[str, float] | None) -> str:
        return "its rows are others" if block_sd is None else "its noise is larger"


class Ruled(Filled):
    library = FilledRules()


class Kept(Ruled):
    """A kind whose sums are kept since registration: no rows are read."""

    def kernel(self, plan: FilledPlan) -> FilledKernel:
        return FilledKernel(plan.columns, cached_terms=())


BARE, JOINT, RULED, KEPT = Filled(), Joint(), Ruled(), Kept()


# --- Declarations and requests


def make_dataset(accountant: Accountant = GDP, *, shared: bool = True) -> Dataset:
    bounds = {"type": "numeric", "lower": 0.0, "upper": 1.0}
    columns = [{"name": name, **bounds} for name in ("age", "weight", "height")]
    hostile = {"name": "ward", "type": "categorical", "levels": HOSTILE, "unit": 'in "beds"\\'}
    manifest = Manifest.model_validate(
        {
            "name": "cohort",
            "population": "town",
            "row_capacity": 1000,
            "library": "shared" if shared else "own",
            "columns": [*columns, hostile],
        }
    )
    digest = manifest.digest
    return Dataset(
        "ds_1", "cohort", "town", Adjacency.ADD_REMOVE, accountant, manifest, "c" * 64, MOMENT, digest, "ds_1"
    )


def make_population(accountant: Accountant = GDP, **changes: Any) -> Population:
    amounts = {"limit": 10**12, "highest_limit": 10**12, "posted": 0, "pending": 0}
    place = {"sequence": 6, "head": "0" * 64, "created_at": MOMENT, "epoch": 1, "sealed": ""}
    delta = 0.0 if accountant.name == "pure" else 1e-6
    return Population("town", Adjacency.ADD_REMOVE, accountant, delta, **{**amounts, **place, **changes})


def make_prepared(*columns: str, kind: AnyKind = RULED, dataset: Dataset | None = None, **members: Any) -> Prepared:
    """Prepare a request of the toy kind, of an analyst who pays µ = 0.1 unless it says otherwise."""
    asked = {"columns": list(columns or ("age",)), "price": {"mu": 0.1}, **members}
    request = FilledRequest.model_validate(asked)
    return prepare(KindRegistry(*KINDS, kind), dataset or make_dataset(), request)


def make_noisy(prepared: Prepared) -> NoisyStatistics:
    """Return 1, 2, …: in lattice units, as if they were noisy."""
    return NoisyStatistics({"rows": [UNIT**2 * (i + 1) for i in range(prepared.value_count)]})


def render(prepared: Prepared, release_id: str = "rel_1") -> str:
    outline = outline_of(prepared, make_population(prepared.dataset.accountant))
    return render_answer(release_id, prepared, outline, make_noisy(prepared), MOMENT)


# --- The catalogue, in memory


class FakeCatalogue:
    """The catalogue of one collection; releases are listed as their answers state them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[tuple[str, str, Any, Listed]] = []
        for name in ("find_exact", "find_holders", "iterate_shelf", "iterate_sources", "list_newest", "get_listed"):
            monkeypatch.setattr(catalogue, name, getattr(self, name))

    def add(self, prepared: Prepared, release_id: str, *, by: Principal = ADA, **changes: Any) -> None:
        listing, outline = prepared.listing, outline_of(prepared, make_population())
        collection = collection_of(prepared.dataset, by.id)
        listed = Listed(
            release_id,
            len(self.rows) + 1,
            listing.shelf(collection),
            library.least_sd(prepared.kind, listing),
            outline.summary(release_id, MOMENT),
            outline.noise,
        )
        self.rows.append((collection, listing.members(collection), listing, replace(listed, **changes)))

    BEFORE_ALL = BEFORE_ALL

    def find_exact(
        self, _connection: object, members: str, asked: FilledListing, _since: int = BEFORE_ALL
    ) -> str | None:
        found = [row for row in self.rows if row[1] == members and asked.is_quiet_enough(row[3].about["noise"]["sd"])]
        return min(found, key=lambda row: row[2].loudness)[3].release_id if found else None

    def find_holders(self, _connection: object, collection: str, asked: FilledListing) -> Holders:
        held = [row for row in self.rows if row[0] == collection and set(asked.columns) <= set(row[2].columns)]
        assert len(self.rows) < CHUNK
        return Holders({0: sum(1 << row[3].sequence for row in held)} if held else {})

    def iterate_shelf(self, _connection: object, shelf: str, *, most: float) -> Iterator[list[int]]:
        found = [row[3] for row in self.rows if row[3].shelf == shelf and row[3].least_sd <= most]
        yield [listed.sequence for listed in sorted(found, key=lambda listed: listed.least_sd)]

    def iterate_sources(
        self, _connection: object, collection: str, sequences: Sequence[int], *, shelf: str, most: float
    ) -> Iterator[Listed]:
        found = [row[3] for row in self.rows if row[0] == collection and row[3].sequence in sequences]
        quiet = [listed for listed in found if listed.shelf == shelf and listed.least_sd <= most]
        yield from sorted(quiet, key=lambda listed: listed.least_sd)

    def list_newest(self, _connection: object, collection: str, sequences: Sequence[int]) -> list[Listed]:
        found = [row[3] for row in self.rows if row[0] == collection and row[3].sequence in sequences]
        return sorted(found, key=lambda listed: -listed.sequence)

    def get_listed(self, _connection: object, release_id: str) -> Listed:
        return next(row[3] for row in self.rows if row[3].release_id == release_id)


# --- The steps of a release: what happened, in order; one of them may fail


def _step(name: str) -> Callable[..., bool]:
    """Return a method that takes a step, and does nothing else."""

    def take(stage: "Stage", *_args: object, **_named: object) -> bool:
        return stage.take(name)

    return take


def _span(begin: str, end: str) -> Callable[..., AbstractContextManager[None]]:
    """Return a method that takes a step before a block and one after it; where the first says no, there is no place."""

    @contextmanager
    def hold(stage: "Stage", *_args: object) -> Iterator[None]:
        if not stage.take(begin):
            raise TooManyRequests("too many", retry_after_s=1)
        try:
            yield
        finally:
            stage.take(end)

    return hold


class Stage:
    """Every double of a publisher's protocols. Each takes down its steps in one list; any of them may fail.

    Attributes
    ----------
    steps : list of str
    failing : dict of str to Exception or list
        What a step raises: always, or each time the next of a list.
    refusing : set of str
        Steps that say no instead; ``seal`` is the curator's.
    stored : list of StoredRelease
        What was committed.
    entries : list of dict
        Payloads that were committed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.failing: dict[str, Exception | list[Exception]] = {}
        self.refusing: set[str] = set()
        self.stored: list[StoredRelease] = []
        self.entries: list[dict[str, Any]] = []
        self.known_key: KnownKey | None = None
        self.job: Reservation | None = None
        self.running: list[Reservation] = []
        self.space_max: list[int] = []
        self.timed: list[float] = []
        self.queued: list[Any] = []
        self.cancels_at_work: Callable[[], None] | None = None
        self.connection, self.worker_id = object(), "wrk_1"  # nobody looks into a connection
        self.guard = SimpleNamespace(check_open=self.check_open)
        self.storage = SimpleNamespace(engine=SimpleNamespace(is_here=True))
        for module, names in (
            (repository, ("claim_key", "count_key", "insert_release", "answer_keys", "find_key", "find_release")),
            (catalogue, ("find_exact", "insert_listing", "add_space")),
            (reservations, ("list_running", "find_reservation")),
            (publisher, ("find_population",)),
        ):
            for name in names:
                monkeypatch.setattr(module, name, getattr(self, name))
        self.publisher = ReleasePublisher(
            database=self,
            ledger=self,
            datasets=self,
            noise=self,
            job_runner=SimpleNamespace(worker_id=self.worker_id, attending=self.attending, place=self.queue_place),
            claims=KeyClaims(1, Ticking()),
            passes=self,
            response_timer=self,
            answer_bytes_max=10**6,
            now=Ticking(),
        )

    def take(self, step: str) -> bool:
        self.steps.append(step)
        error = self.failing.get(step)
        if isinstance(error, list):
            error = error.pop(0) if error else None
        if error is not None:
            raise error
        return step not in self.refusing

    # The ledger, and one unit of work of it

    @contextmanager
    def unit(self) -> Iterator["Stage"]:
        self.take("begin")
        stored, entries = len(self.stored), len(self.entries)
        try:
            yield self
            self.take("commit")
        except Exception:
            self.steps.append("undo")
            del self.stored[stored:], self.entries[entries:]
            raise

    def check_open(self) -> None:
        if "seal" in self.refusing:
            raise unverified()

    def _head(self) -> Head:
        return Head("town", 7, "0" * 64, 1, 10**12, 0, 0)

    def charge(self, population: str, dataset_id: str, cost: int, payer: Payer, moment: str) -> Head:
        self.take("charge")
        return self._head()

    def reserve(self, job: Reservation) -> None:
        self.take("reserve")
        self.job = job

    def post(self, job: Reservation, moment: str) -> Head:
        if not self.take("post"):
            raise Refused
        return self._head()

    check_registered, check_current = _step("check registered"), _step("check current")
    check_latest = _step("check latest")

    def note(self, population: str, event: Event) -> Receipt:
        return self.record(self._head(), event, 0)

    def record(self, head: Head, event: Event, units: int) -> Receipt:
        self.take("record")
        self.entries.append({**event.payload, "units": units})
        checkpoint = Checkpoint("town", head.sequence, "h" * 64, 1, head.limit, units, 0, "key_1")
        return Receipt.of(canonical(event.payload | PLACE), SignedCheckpoint(checkpoint, "signature"))

    def end(self, job_id: str, outcome: str, *, actor: str) -> bool:
        assert self.job is not None
        assert self.job.id == job_id
        return self.take(f"end {outcome}")

    # The tables

    claim_key, insert_listing = _step("claim"), _step("list")

    def count_key(self, *_args: object) -> bool:
        return True

    answer_keys, give_back = _step("answer keys"), _step("give connection back")

    def find_exact(self, *_args: object) -> str | None:
        return None if self.take("look") else "rel_of_somebody"

    def list_running(self, *_args: object) -> list[Reservation]:
        self.take("look at jobs")
        return self.running

    def insert_release(self, _connection: object, release: StoredRelease) -> None:
        self.take("store")
        self.stored.append(release)

    def add_space(self, _connection: object, _population: str, _principal: str, _size: int, most: int) -> bool:
        self.space_max.append(most)
        return self.take("count space")

    def find_key(self, *_args: object) -> KnownKey | None:
        return self.known_key

    def find_release(self, _connection: object, release_id: str) -> SimpleNamespace:
        return SimpleNamespace(id=release_id)

    def find_reservation(self, *_args: object) -> Reservation | None:
        self.take("check open")
        return self.job

    def find_population(self, *_args: object) -> Population:
        return make_population()

    @contextmanager
    def read(self) -> Iterator[object]:
        yield self.connection

    # Noise, rows, time and places

    def sample(self, _distribution: Distribution, scales: Sequence[int]) -> list[int]:
        self.take("draw")
        return [UNIT**2] * len(scales)

    def sum_rows(self, _dataset: Dataset, kernel: FilledKernel | StoppableKernel) -> ExactSums:
        self.take("sum")
        if isinstance(kernel, StoppableKernel) and kernel.is_stopped():
            raise Stopped
        return ExactSums(UNIT**2 * np.arange(1, kernel.width + 1))

    place, attending = _span("place", "leave place"), _span("attend", "attend no more")
    _timing = _span("time begins", "public time")

    def ending_at_public_time(self, duration_s: float) -> AbstractContextManager[None]:
        self.timed.append(duration_s)
        return self._timing()

    def work_in_steps(
        self,
        work: Callable[[Callable[[], bool]], NoisyStatistics],
        duration_s: float,
        is_unwanted: Callable[[], bool],
        *,
        step_least_s: float,
    ) -> NoisyStatistics:
        assert 0 < step_least_s <= duration_s
        with self.ending_at_public_time(duration_s):
            if self.cancels_at_work is None:
                return work(lambda: False)
            self.cancels_at_work()
            assert is_unwanted()
            return work(lambda: True)

    @contextmanager
    def queue_place(self, _job_id: str, _principal_id: str, _expected_s: float) -> Iterator[SimpleNamespace]:
        if not self.take("place"):
            raise TooManyRequests("too many", retry_after_s=1)
        yield SimpleNamespace(take=self.queued.append)


def submit(prepared: Prepared, by: Principal = ADA, **payer: Any) -> Submission:
    return Submission(prepared, by, "key", Payer(by.id, "prm_" + by.name.encode().hex().zfill(24), **payer))


def details_of(prepared: Prepared) -> dict[str, str]:
    """Return what a job says of its request."""
    return {"request": json.dumps(prepared.canonical), "noise": json.dumps(prepared.listing.noise)}
