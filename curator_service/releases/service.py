"""Quotes, and answers to requests: from the key, from the library, or from the till."""

import json
import re
from typing import Any

from sqlalchemy import Connection

from curator_service.clock import Clock, timestamp, utc_now
from curator_service.datasets.repository import Dataset
from curator_service.datasets.storage import needs_pass
from curator_service.db import Database
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.ledger import reservations
from curator_service.ledger.book import Payer
from curator_service.ledger.guard import unverified
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.reservations import Reservation
from curator_service.ledger.service import LedgerService, find_rooms
from curator_service.problems import Unavailable
from curator_service.releases import repository
from curator_service.releases.backing import is_stated
from curator_service.releases.library import Library, offers_as_json
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.purchases import (
    ATTEMPTS,
    AnswerKind,
    IdempotencyKeyReused,
    Purchase,
    ReservationEnded,
    ReservationNotFound,
    check_key,
    in_progress,
    release_not_found,
    reservation_not_found,
)
from curator_service.releases.refusal import budget_exceeded
from curator_service.releases.rendering import describe
from curator_service.releases.repository import StoredRelease
from curator_service.releases.schemas import ReleaseRequest
from curator_service.releases.till import Till

_RELEASE_ID_PATTERN = re.compile(r"rel_[0-9a-f]{24}")


class ReleaseService:
    """Quotes and releases.

    Parameters
    ----------
    database : Database
    ledger : LedgerService
    till : Till
    synchronous_s : float
        What takes longer, by public numbers, runs as a job.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        till: Till,
        *,
        synchronous_s: float,
        now: Clock = utc_now,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.till = till
        self.synchronous_s = synchronous_s
        self.now = now
        self.library = Library()

    def prepare(self, dataset: Dataset, request: ReleaseRequest) -> Prepared:
        """Check and plan a request; see `preparation.prepare`."""
        return prepare(dataset, request)

    def quote(self, prepared: Prepared, analyst: Principal) -> dict[str, Any]:
        """Return the price and the noise of a request, and what is stored already. Free; reads no rows."""
        with self.database.read() as connection:
            purchase = self._purchase(connection, prepared, analyst, "")
            population = find_population(connection, prepared.dataset.population)
            assert population is not None
            rooms = find_rooms(connection, population, purchase.payer)
            found = None if prepared.request.fresh else self._find_stored(connection, purchase)
            offers = self.library.list_offers(connection, prepared, reader=purchase.reader)
        release, kind = found or (None, None)
        return {
            "dataset": prepared.dataset.name,
            **describe(prepared, population),
            "affordable": prepared.plan.cost <= rooms[0].left,
            "pass_over_rows": needs_pass(prepared.plan.design, prepared.plan.row_map),
            "duration_s": prepared.duration_s,
            "stored_release": release.id if release is not None and kind is AnswerKind.STORED else None,
            "derivable_from": release.id if release is not None and kind is AnswerKind.DERIVED else None,
            "offers": offers_as_json(offers),
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
        IdempotencyKeyMissing, IdempotencyKeyReused, ReleaseInProgress, BudgetExceeded, ReservationNotFound,
        ReservationEnded, LedgerUnverified, DatasetUnavailable, TooManyRequests, Unavailable
        """
        answer = self._answer(prepared, analyst, key, as_job=False)
        assert not isinstance(answer, Reservation)
        return answer

    def submit(
        self, prepared: Prepared, analyst: Principal, key: str | None
    ) -> tuple[StoredRelease, AnswerKind] | Reservation:
        """Answer a request like `release`, or return the job that will: one that passes over rows runs as a job."""
        return self._answer(prepared, analyst, key, as_job=not prepared.is_immediate)

    def _answer(
        self, prepared: Prepared, analyst: Principal, key: str | None, *, as_job: bool
    ) -> tuple[StoredRelease, AnswerKind] | Reservation:
        key = check_key(key)
        for attempt in range(ATTEMPTS):
            with self.database.read() as connection:
                purchase = self._purchase(connection, prepared, analyst, key)
                # First the account, then the library: an answer that used up the budget is seen, and served.
                population = find_population(connection, prepared.dataset.population)
                assert population is not None
                found = self._find_answer(connection, purchase)
            if found is not None and not (population.sealed and found[1] is AnswerKind.DERIVED):
                served = self._serve(purchase, *found)
                if served is None:
                    continue  # somebody used the key in this instant: its answer is the one that counts
                return served
            if population.sealed or self.ledger.guard.doubt:
                raise unverified()
            self.till.datasets.check_available(prepared.dataset)
            self._check_room(purchase, population, in_full=attempt > 0)
            if as_job:
                job = self.till.start_job(purchase, population)
                if job is not None:
                    return job
                continue
            published = (
                self.till.charge_and_publish(purchase, population)
                if prepared.is_immediate
                else self.till.reserve_and_publish(purchase, population)
            )
            if published is not None:
                return self._let_out(published, just_written=True), AnswerKind.NEW
        raise Unavailable("Too many requests decide about this one at once. Nothing was charged; send it again.")

    def _purchase(self, connection: Connection, prepared: Prepared, analyst: Principal, key: str) -> Purchase:
        """Resolve who pays: the account, or a study of this analyst."""
        request = prepared.request
        if request.reservation is None:
            return Purchase(prepared, analyst, key, Payer(analyst.id, request.project or ""))
        study = reservations.find_reservation(connection, request.reservation)
        if study is None or study.principal_id != analyst.id or study.population != prepared.dataset.population:
            raise reservation_not_found()
        if request.project is not None and request.project != study.project:
            raise ReservationNotFound(f"The reservation {study.id!r} is not of the project {request.project!r}.")
        return Purchase(prepared, analyst, key, Payer(analyst.id, study.project, study.id))

    def _check_room(self, purchase: Purchase, population: Population, *, in_full: bool) -> None:
        """Refuse what does not fit. A first look spares the work; where the database said no, `in_full` finds why."""
        with self.database.read() as connection:
            study_id = purchase.payer.study_id
            if study_id is not None:
                study = reservations.find_reservation(connection, study_id)
                if study is None or study.state != reservations.OPEN or study.expires_at <= timestamp(self.now()):
                    raise ReservationEnded(
                        f"The reservation {study_id!r} has ended, and what was left of it is back in the budget. Ask "
                        "without it, or reserve anew."
                    )
            elif purchase.prepared.plan.cost <= population.remaining and not in_full:
                return
            rooms = find_rooms(connection, population, purchase.payer)
        if purchase.prepared.plan.cost > rooms[0].left:
            raise budget_exceeded(purchase.prepared, population, rooms[0])

    def _find_answer(self, connection: Connection, purchase: Purchase) -> tuple[StoredRelease, AnswerKind] | None:
        """Return the answer that exists already.

        Raises
        ------
        IdempotencyKeyReused, ReleaseInProgress
        """
        prepared = purchase.prepared
        known = repository.find_key(connection, purchase.analyst.id, purchase.key)
        if known is not None:
            if known.fingerprint != prepared.fingerprint:
                raise IdempotencyKeyReused(
                    "This key belongs to another request. Use a new key for a new request, and the same key only to "
                    "repeat one."
                )
            if known.release_id is not None:
                release = repository.find_release(connection, known.release_id)
                assert release is not None
                return release, AnswerKind.REPLAYED
            assert known.reservation_id is not None
            job = reservations.find_reservation(connection, known.reservation_id)
            if job is not None and job.state == reservations.OPEN:
                raise in_progress(job)
        if prepared.request.fresh:
            return None
        # First who works on it, then what is stored: whoever ended in between has stored it.
        running = (
            []
            if prepared.is_immediate
            else reservations.list_running(connection, prepared.dataset.id, prepared.request_digest)
        )
        found = self._find_stored(connection, purchase)
        for job in running if found is None else []:
            if purchase.reader in {"", job.principal_id}:
                raise in_progress(job)
        return found

    def _find_stored(self, connection: Connection, purchase: Purchase) -> tuple[StoredRelease, AnswerKind] | None:
        prepared, reader = purchase.prepared, purchase.reader
        stored = repository.find_by_request(connection, prepared.dataset.id, prepared.request_digest, reader=reader)
        if stored is not None:
            return stored, AnswerKind.STORED
        source = self.library.find_source(connection, prepared, reader=reader)
        return None if source is None else (source, AnswerKind.DERIVED)

    def _serve(
        self, purchase: Purchase, found: StoredRelease, kind: AnswerKind
    ) -> tuple[StoredRelease, AnswerKind] | None:
        """Serve an answer that exists, and tie the key to it for ever; None if somebody has the key."""
        self._check_backed(found)
        if kind is AnswerKind.STORED:
            with self.database.begin() as connection:
                claimed = repository.claim_key(
                    connection, purchase.analyst.id, purchase.key, purchase.prepared.fingerprint, release_id=found.id
                )
            if not claimed:
                return None
        elif kind is AnswerKind.DERIVED:
            derived = self.till.derive(purchase, found)
            if derived is None:
                return None
            found = derived
        return self._let_out(found), kind

    def _check_backed(self, release: StoredRelease) -> None:
        """Check that an answer is the one that an entry of this curator's states; seal the curator if not.

        Raises
        ------
        LedgerUnverified
        """
        guard = self.ledger.guard
        guard.check_attested(release.population, release.entry)
        if not is_stated(release):
            guard.seal(f"the release {release.id} is not what the ledger says of it")
            raise unverified()

    def _let_out(self, release: StoredRelease, *, just_written: bool = False) -> StoredRelease:
        """Pass the last door: the anchor has moved to the entry of whatever leaves."""
        self.ledger.guard.let_out(release.receipt, just_written=just_written)
        return release

    # --- Reading

    def get_release(self, release_id: str) -> StoredRelease:
        """Return a published release; the caller checks who may read it, with `check_reader`.

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
        self._check_backed(release)
        return self._let_out(release)

    def check_reader(self, release: StoredRelease, dataset: Dataset, reader: Principal) -> None:
        """Check that a dataset's policy lets a principal read a release.

        Raises
        ------
        NotFound
        """
        if dataset.manifest.library == "own" and reader.role is Role.ANALYST:
            with self.database.read() as connection:
                given = repository.was_given(connection, release.id, reader.id)
            if not given:
                raise release_not_found()

    def list_releases(self, dataset: Dataset, reader: Principal, *, after: int, count: int) -> dict[str, Any]:
        """Return a page of a dataset's releases, without their statistics."""
        with self.database.read() as connection:
            private = dataset.manifest.library == "own" and reader.role is Role.ANALYST
            given_to = reader.id if private else ""
            page = repository.list_releases(connection, dataset.id, after=after, count=count, reader=given_to)
        items = []
        for release in page:
            answer = json.loads(release.answer)
            items.append({name: answer[name] for name in ("id", "dataset", "kind", "created_at", "request", "cost")})
        return {"releases": items, "next": str(page[-1].sequence) if len(page) == count else None}
