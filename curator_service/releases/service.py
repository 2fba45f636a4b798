"""Quote, charge, perturb, publish: the one path on which anything about rows leaves the curator."""

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from sqlalchemy import Connection

from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetService
from curator_service.datasets.storage import needs_pass
from curator_service.db import Database
from curator_service.identity.repository import Principal
from curator_service.ledger.repository import Population, find_population, iterate_entries
from curator_service.ledger.service import Clock, Ledger, timestamp, utc_now
from curator_service.privacy.accountant import Accountant, fits_within
from curator_service.privacy.mechanisms import perturb
from curator_service.privacy.parts import Statistic
from curator_service.privacy.planning import GramPlan
from curator_service.privacy.samplers import NoiseSource
from curator_service.problems import NotFound, Problem
from curator_service.releases import repository
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.refusal import budget_exceeded
from curator_service.releases.rendering import (
    account_again,
    agrees_with_charge,
    answer_digest,
    charge_facts,
    describe,
    render_answer,
)
from curator_service.releases.repository import StoredRelease
from curator_service.releases.schemas import ReleaseRequest

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_RELEASE_ID_PATTERN = re.compile(r"rel_[0-9a-f]{24}")


class IdempotencyKeyMissing(Problem):
    """A request that charges needs a key, so that a retry cannot charge twice."""

    slug = "idempotency-key-missing"
    status = HTTPStatus.BAD_REQUEST
    title = "An Idempotency-Key header is needed"


class IdempotencyKeyReused(Problem):
    """The key was used for another request."""

    slug = "idempotency-key-reused"
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    title = "This Idempotency-Key was used for another request"


class AnswerKind(StrEnum):
    """Where an answer came from."""

    NEW = "new"
    REPLAYED = "replayed"
    STORED = "stored"


class ReleaseService:
    """Quotes and releases.

    Parameters
    ----------
    database : Database
    datasets : DatasetService
    noise : NoiseSource
    synchronous_row_capacity : int
        Datasets declared larger than this refuse requests that need a pass over rows.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        datasets: DatasetService,
        noise: NoiseSource,
        *,
        synchronous_row_capacity: int,
        now: Clock = utc_now,
    ) -> None:
        self.database = database
        self.datasets = datasets
        self.noise = noise
        self.synchronous_row_capacity = synchronous_row_capacity
        self.now = now

    def prepare(self, dataset: Dataset, request: ReleaseRequest) -> Prepared:
        """Check and plan a request; see `preparation.prepare`."""
        return prepare(dataset, request, synchronous_row_capacity=self.synchronous_row_capacity)

    def quote(self, prepared: Prepared) -> dict[str, Any]:
        """Return the price and the noise of a request. Free; reads no rows."""
        with self.database.read() as connection:
            population = find_population(connection, prepared.dataset.population)
            stored = repository.find_by_request(connection, prepared.dataset.id, prepared.request_digest)
        assert population is not None
        fits = fits_within(
            prepared.plan.cost, posted=population.posted, pending=population.pending, limit=population.limit
        )
        return {
            "dataset": prepared.dataset.name,
            **describe(prepared, population),
            "affordable": fits,
            "pass_over_rows": needs_pass(prepared.plan.design, prepared.plan.row_map),
            "stored_release": None if stored is None or prepared.request.fresh else stored.id,
        }

    def release(self, prepared: Prepared, analyst: Principal, key: str | None) -> tuple[StoredRelease, AnswerKind]:
        """Answer a request: from the key, from the library, or with a charge and one draw of noise.

        Parameters
        ----------
        prepared : Prepared
        analyst : Principal
        key : str or None
            The ``Idempotency-Key``.

        Returns
        -------
        StoredRelease, AnswerKind

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, BudgetExceeded
        """
        key = check_key(key)
        found, population = self._look_up(prepared, analyst, key)
        if found is None and fits_within(
            prepared.plan.cost, posted=population.posted, pending=population.pending, limit=population.limit
        ):
            published = self._charge_and_publish(prepared, population, analyst, key)
            if published is not None:
                return published, AnswerKind.NEW
        if found is None:
            # Whoever used the key, or asked the same, in the meantime: its answer is there now.
            found, population = self._look_up(prepared, analyst, key)
        if found is None:
            raise budget_exceeded(prepared, population)
        release, kind = found
        if kind is AnswerKind.STORED and not self._tie_key(prepared, analyst, key, release):
            # Somebody used the key in this instant: its answer is the one that counts.
            return self.release(prepared, analyst, key)
        return release, kind

    def _look_up(
        self, prepared: Prepared, analyst: Principal, key: str
    ) -> tuple[tuple[StoredRelease, AnswerKind] | None, Population]:
        """Return the answer that exists already, and the account as it stands."""
        with self.database.read() as connection:
            found = self._find_answer(connection, prepared, analyst, key)
            population = find_population(connection, prepared.dataset.population)
        assert population is not None
        return found, population

    @staticmethod
    def _find_answer(
        connection: Connection, prepared: Prepared, analyst: Principal, key: str
    ) -> tuple[StoredRelease, AnswerKind] | None:
        known = repository.find_by_key(connection, analyst.id, key)
        if known is not None:
            fingerprint, release = known
            if fingerprint != prepared.fingerprint:
                raise IdempotencyKeyReused(
                    "This key belongs to another request. Use a new key for a new request, and the same key only to "
                    "repeat one."
                )
            return release, AnswerKind.REPLAYED
        if prepared.request.fresh:
            return None
        stored = repository.find_by_request(connection, prepared.dataset.id, prepared.request_digest)
        return None if stored is None else (stored, AnswerKind.STORED)

    def _charge_and_publish(
        self, prepared: Prepared, population: Population, analyst: Principal, key: str
    ) -> StoredRelease | None:
        """Charge, draw, publish: durable together or not at all. None if the key, the library or the budget decide."""
        release_id = f"rel_{secrets.token_hex(12)}"
        dataset, plan = prepared.dataset, prepared.plan
        with self.database.begin() as connection:
            if not repository.claim_key(connection, analyst.id, key, prepared.fingerprint, release_id):
                return None
            ledger = Ledger(connection)
            charge = ledger.charge(dataset.population, plan.cost)
            if charge is None or (
                # The account is locked: whoever asked the same just before has committed.
                not prepared.request.fresh
                and repository.find_by_request(connection, dataset.id, prepared.request_digest) is not None
            ):
                connection.rollback()
                return None
            with taking(_public_duration_s(plan)):
                statistics = self.datasets.compute_statistics(dataset, plan.design, plan.row_map)
                noisy = perturb(statistics, plan, self.noise)
            moment = timestamp(self.now())
            answer = render_answer(release_id, prepared, population, noisy, moment)
            receipt = ledger.record(charge, "charge", charge_facts(release_id, prepared, analyst, answer, moment))
            release = StoredRelease(
                id=release_id,
                dataset_id=dataset.id,
                population=dataset.population,
                sequence=charge.sequence,
                request_digest=prepared.request_digest,
                answer=answer,
                receipt=receipt,
            )
            repository.insert_release(connection, release)
        return release  # the unit of work is committed: now it may leave

    def _tie_key(self, prepared: Prepared, analyst: Principal, key: str, release: StoredRelease) -> bool:
        """Tie a key to a stored answer, so that it means the same for ever; False if somebody has it."""
        with self.database.begin() as connection:
            return repository.claim_key(connection, analyst.id, key, prepared.fingerprint, release.id)

    def get_release(self, release_id: str) -> StoredRelease:
        """Return a published release; the caller checks who may read its dataset.

        Raises
        ------
        NotFound
        """
        release = None
        if _RELEASE_ID_PATTERN.fullmatch(release_id):
            with self.database.read() as connection:
                release = repository.find_release(connection, release_id)
        if release is None:
            raise release_not_found()
        return release

    def list_releases(self, dataset: Dataset, *, after: int, count: int) -> dict[str, Any]:
        """Return a page of a dataset's releases, without their statistics."""
        with self.database.read() as connection:
            page = repository.list_releases(connection, dataset.id, after=after, count=count)
        items = []
        for release in page:
            answer = json.loads(release.answer)
            items.append({name: answer[name] for name in ("id", "dataset", "kind", "created_at", "request", "cost")})
        return {"releases": items, "next": str(page[-1].sequence) if len(page) == count else None}

    def find_unbacked(self, population: str) -> list[str]:
        """Return what is stored and differs from what the population's chain says of it.

        Ids of releases; charges whose release is gone, as ``sequence N``; charges of another amount than their own
        mechanism costs, as ``the cost of sequence N``; datasets whose manifest or snapshot is not the registered one,
        as ``dataset NAME``.
        """
        bad = []
        datasets = self.datasets.list_all()
        names = {dataset.id: dataset.name for dataset in datasets}
        registered: set[tuple[str, str, str]] = set()
        with self.database.snapshot() as connection:
            account = find_population(connection, population)
            assert account is not None
            charges: dict[int, dict[str, Any]] = {}
            for entry in iterate_entries(connection, population):
                facts = json.loads(entry.payload)
                if facts["kind"] == "charge":
                    charges[entry.sequence] = facts
                    if not _is_charged_right(facts, account.accountant):
                        bad.append(f"the cost of sequence {entry.sequence}")
                elif facts["kind"] == "dataset":
                    registered.add((facts["dataset"], facts["manifest_digest"], facts["snapshot"]))
            for release in repository.iterate_population(connection, population):
                facts = charges.pop(release.sequence, {"release": None})
                sound = (
                    facts["release"] == release.id
                    and facts["request_digest"] == release.request_digest
                    and facts["dataset"] == names.get(release.dataset_id)
                    and facts["answer_digest"] == answer_digest(release.answer)
                    and agrees_with_charge(release.answer, facts)
                )
                if not sound:
                    bad.append(release.id)
        bad += [f"sequence {sequence}" for sequence in charges]
        return bad + [
            f"dataset {dataset.name}"
            for dataset in datasets
            if dataset.population == population
            and (dataset.name, dataset.manifest.digest, dataset.commitment) not in registered
        ]


LAMBDA_MIN_S, LAMBDA_MIN_PER_CUBE_S = 0.005, 1e-9


def _public_duration_s(plan: GramPlan) -> float:
    """Return how long the computation of a release is made to take, from public numbers.

    How many factorisations λ_min takes, and how long a solver works, depends on rows that are not paid for. The
    duration is several times what they take: 5 ms, and a second more for 1000 terms.
    """
    if all(part.statistic is not Statistic.LAMBDA_MIN for part in plan.parts):
        return 0.0
    return LAMBDA_MIN_S + LAMBDA_MIN_PER_CUBE_S * len(plan.design.terms) ** 3


@contextmanager
def taking(duration_s: float) -> Iterator[None]:
    """Make a block take at least so long: whoever waits for it, or for its locks, learns nothing from its own time."""
    end = time.monotonic() + duration_s
    yield
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)


def _is_charged_right(facts: dict[str, Any], accountant: Accountant) -> bool:
    """Account for a charge again, from the integers of its mechanism."""
    try:
        return account_again(facts, accountant) == int(facts["units"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False


def release_not_found() -> NotFound:
    """Build the refusal of a release that is not there or not visible: which of these is not said."""
    return NotFound("There is no release of this id among those that you may read.")


def check_key(key: str | None) -> str:
    """Return a well-formed idempotency key.

    Raises
    ------
    IdempotencyKeyMissing
    """
    if key is None or not _KEY_PATTERN.fullmatch(key):
        raise IdempotencyKeyMissing(
            "Send an `Idempotency-Key` header: 1 to 128 letters, digits, - or _, new for each request and the same for "
            "each retry of it."
        )
    return key
