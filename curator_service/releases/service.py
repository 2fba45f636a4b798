"""Quotes, and answers to requests: from the key, from the library, or from the publisher."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.datasets.visibility import collection_of, may_read, may_read_all
from curator_service.entries.rules import find_broken
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.kit.clock import Clock, timestamp, utc_now
from curator_service.kit.db import Connection, Database
from curator_service.kit.idempotency import check_key, key_reused
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Contradiction, Payer
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.service import BudgetExceeded, LedgerService, find_headrooms
from curator_service.ledger.trust.guard import LedgerUnverified, unverified
from curator_service.permits.repository import list_uses
from curator_service.permits.service import PermitNeeded, PermitService, permit_expired, rule_broken
from curator_service.releases import catalogue, repository
from curator_service.releases.audit import is_stated
from curator_service.releases.library import Search, answers
from curator_service.releases.preparation import Prepared
from curator_service.releases.publisher import ReleasePublisher
from curator_service.releases.refusal import budget_exceeded
from curator_service.releases.rendering import describe
from curator_service.releases.repository import StoredRelease
from curator_service.releases.submission import (
    ATTEMPTS,
    AnswerKind,
    ReservationEnded,
    ReservationNotFound,
    Submission,
    answer_space_exceeded,
    in_progress,
    release_not_found,
    reservation_not_found,
)

PAGE_BYTES_MAX = 2**20
"""A page of releases ends where it is as long, whatever was asked."""
_RELEASE_ID_PATTERN = re.compile(r"rel_[0-9a-f]{24}")


CHECKED_AT_ONCE = 100
"""Stored answers that are held against the ledger in one go."""


class ReleaseService:
    """Quotes and releases.

    Parameters
    ----------
    synchronous_s : float
        What takes longer, by public numbers, runs as a job.
    pace : float
        How many times as long as on the reference machine work is made to take here.
    now : callable
        The clock that ends are held against.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        permits: PermitService,
        publisher: ReleasePublisher,
        *,
        synchronous_s: float,
        pace: float,
        now: Clock = utc_now,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.permits = permits
        self.publisher = publisher
        self.synchronous_s = synchronous_s
        self.pace = pace
        self.now = now
        self._checked = ""

    def quote(self, prepared: Prepared, analyst: Principal) -> dict[str, Any]:
        """Return the price and the noise of a request, and what is stored already. Free; reads no rows."""
        with self.database.read() as connection:
            submission = self._purchase(connection, prepared, analyst, "")
            if submission.refusal is not None and Role.ANALYST in analyst.roles:
                raise submission.refusal
            population = find_population(connection, prepared.dataset.population)
            assert population is not None
            headrooms = find_headrooms(connection, population, submission.payer)
            search = Search(connection, prepared, analyst.id)
            with self._sealing():
                stored = None if prepared.request.fresh else search.find_exact()
                source = search.find_source() if stored is None and not prepared.request.fresh else None
                offers = search.list_offers() if stored is None and source is None else []
            space_left = self._space_left(connection, submission)
        return {
            "dataset": prepared.dataset.name,
            **describe(prepared, population),
            "affordable": prepared.cost <= headrooms[0].left,
            "pass_over_rows": prepared.needs_pass,
            "duration_s": prepared.duration_s,
            "answer_bytes": prepared.answer_bytes,
            "answer_bytes_left": space_left,
            "stored_release": stored,
            "derivable_from": source,
            "offers": [{"release": offer.release_id, "difference": offer.difference} for offer in offers],
        }

    def release(self, prepared: Prepared, analyst: Principal, key: str | None) -> tuple[StoredRelease, AnswerKind]:
        """Answer a request: from the key, from the library, or with a charge and one draw of noise.

        Parameters
        ----------
        key : str or None
            The ``Idempotency-Key``.

        Returns
        -------
        StoredRelease, AnswerKind

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, ReleaseInProgress, AnswerSpaceExceeded, BudgetExceeded,
        ReservationNotFound, ReservationEnded, LedgerUnverified, DatasetUnavailable, TooManyRequests, Unavailable
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
                submission = self._purchase(connection, prepared, analyst, key)
                # First the account, then the library: an answer that used up the budget is seen, and served.
                population = find_population(connection, prepared.dataset.population)
                assert population is not None
                found = self._find_answer(connection, submission)
                # What takes no time finds out as it is stored; where something else is too much, both are told.
                in_full = attempt > 0 or not prepared.is_immediate or prepared.cost > population.remaining
                space_left = self._space_left(connection, submission) if in_full else prepared.answer_bytes
            if submission.refusal is not None and (found is None or found[1] is not AnswerKind.REPLAYED):
                raise submission.refusal
            fits = prepared.answer_bytes <= space_left
            if found is not None and (found[1] is not AnswerKind.DERIVED or (fits and not population.sealed)):
                served = self._serve(submission, *found)
                if served is None:
                    continue  # somebody used the key in this instant: its answer is the one that counts
                return served
            if population.sealed or self.ledger.guard.degraded_reason:
                raise unverified()
            self.publisher.datasets.check_available(prepared.dataset)
            if not fits:
                raise answer_space_exceeded(prepared.answer_bytes, space_left, self.publisher.answer_bytes_max)
            try:
                self._check_headroom(submission, population, in_full=attempt > 0)
            except (BudgetExceeded, ReservationEnded):
                with self.database.read() as connection:  # by an answer to the same request, meanwhile?
                    if self._find_answer(connection, submission) is None:
                        raise
                continue
            if as_job:
                job = self.publisher.start_job(submission, population)
                if job is not None:
                    return job
                continue
            published = (
                self.publisher.charge_and_publish(submission, population)
                if prepared.is_immediate
                else self.publisher.reserve_and_publish(submission, population)
            )
            if published is not None:
                return self._anchor_before_send(published, just_written=True), AnswerKind.NEW
        raise Unavailable("Too many requests decide about this one at once. Nothing was charged; send it again.")

    def _purchase(self, connection: Connection, prepared: Prepared, analyst: Principal, key: str) -> Submission:
        """Resolve who pays: the account, or a reservation of this analyst."""
        request = prepared.request
        if request.reservation is None:
            use = self.permits.choose(connection, analyst, prepared.dataset, request.project, prepared.asked)
            if isinstance(use, Problem):
                return Submission(prepared, analyst, key, Payer(analyst.id, ""), use)
            return Submission(prepared, analyst, key, Payer(analyst.id, use.permit, use.project))
        paying = reservations.find_reservation(connection, request.reservation)
        if paying is None or paying.principal_id != analyst.id or paying.population != prepared.dataset.population:
            raise reservation_not_found()
        if request.project is not None and request.project != paying.project:
            raise ReservationNotFound(f"The reservation {paying.id!r} is not of the project {request.project!r}.")
        uses = list_uses(connection, analyst.id, prepared.dataset.id, timestamp(self.now()))
        paid = next((use for use in uses if use.permit == paying.permit_id), None)
        payer = Payer(analyst.id, paying.permit_id, paying.project, paying.id)
        refusal: Problem | None = self.permits.find_missing_visa(analyst, prepared.dataset.name)
        if paid is None:
            projects = sorted({use.project for use in uses if use.project})
            refusal = PermitNeeded(
                f"The permit of the reservation {paying.id!r} does not let you use this dataset; ask without it.",
                projects=projects,
            )
        elif not paid.lasts:
            refusal = permit_expired(paid.expires_at)
        elif (rule := find_broken(paid.rules, prepared.asked)) is not None:
            refusal = rule_broken(rule, paid.project)
        return Submission(prepared, analyst, key, payer, refusal)

    def _space_left(self, connection: Connection, submission: Submission) -> int:
        """Return how many bytes of answers may still be stored for an analyst; jobs at once may pass it together."""
        used = catalogue.find_space(connection, submission.prepared.dataset.population, submission.analyst.id)
        return max(0, self.publisher.answer_bytes_max - used)

    def _check_headroom(self, submission: Submission, population: Population, *, in_full: bool) -> None:
        """Refuse what does not fit. A first look spares the work; where the database said no, `in_full` finds why."""
        with self.database.read() as connection:
            reservation_id = submission.payer.reservation_id
            if reservation_id is not None:
                paying = reservations.find_reservation(connection, reservation_id)
                if paying is None or paying.state != reservations.OPEN or paying.expires_at <= timestamp(self.now()):
                    raise ReservationEnded(
                        f"The reservation {reservation_id!r} has ended, and what was left of it goes back into the "
                        "budget. Ask without it, or reserve anew."
                    )
            elif submission.prepared.cost <= population.remaining and not in_full:
                return
            headrooms = find_headrooms(connection, population, submission.payer)
        if submission.prepared.cost > headrooms[0].left:
            raise budget_exceeded(submission.prepared, population, headrooms[0])

    def _find_answer(self, connection: Connection, submission: Submission) -> tuple[StoredRelease, AnswerKind] | None:
        """Return the answer that exists already.

        Raises
        ------
        IdempotencyKeyReused, ReleaseInProgress
        """
        prepared = submission.prepared
        known = repository.find_key(connection, submission.analyst.id, submission.key)
        if known is not None:
            if known.fingerprint != prepared.fingerprint:
                raise key_reused()
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
        running = [] if prepared.is_immediate else reservations.list_running(connection, prepared.dataset.id)
        found = self._find_stored(connection, submission)
        for job in running if found is None else []:
            if submission.joins(job):
                raise in_progress(job)
        return found

    def _find_stored(self, connection: Connection, submission: Submission) -> tuple[StoredRelease, AnswerKind] | None:
        search = Search(connection, submission.prepared, submission.analyst.id)
        with self._sealing():
            found, kind = search.find_exact(), AnswerKind.STORED
            if found is None:
                found, kind = search.find_source(), AnswerKind.DERIVED
        if found is None:
            return None
        release = repository.find_release(connection, found)
        if release is None:
            raise self._contradiction(f"the catalogue lists {found}, which is not stored")
        with self._sealing():  # its declarations say whose answers may be served
            self.ledger.guard.trust.check_registered(connection, submission.prepared.dataset.registration)
        return release, kind

    def _serve(
        self, submission: Submission, found: StoredRelease, kind: AnswerKind
    ) -> tuple[StoredRelease, AnswerKind] | None:
        """Serve an answer that exists, and tie the key to it for ever; None if somebody has the key."""
        self._check_backed(found)
        if kind is not AnswerKind.REPLAYED:
            self._check_answers(submission, found, exactly=kind is AnswerKind.STORED)
        if kind is AnswerKind.STORED:
            with self.database.begin() as connection:
                claimed = self.publisher.claim(connection, submission, release_id=found.id)
            if not claimed:
                return None
        elif kind is AnswerKind.DERIVED:
            derived = self.publisher.derive(submission, found)
            if derived is None:
                return None
            found = derived
        return self._anchor_before_send(found), kind

    def check_stored(self) -> None:
        """Hold some stored answers against their entries, others with each call; seal the curator where one differs.

        Nobody may ask for an answer that was changed, and purchases would go on beside it.
        """
        if self.ledger.guard.reason():
            return
        with self.database.read() as connection:
            found = repository.list_following(connection, self._checked, CHECKED_AT_ONCE)
        for release in found:
            try:
                self._check_backed(release)
            except LedgerUnverified:  # it is sealed now, which the log says
                return
        self._checked = found[-1].id if len(found) == CHECKED_AT_ONCE else ""

    def _check_backed(self, release: StoredRelease) -> None:
        """Check that an answer is the one that an entry of this curator's states; seal the curator if not.

        Raises
        ------
        LedgerUnverified
        """
        guard = self.ledger.guard
        guard.check_attested(release.population, release.entry)
        if not is_stated(release):
            raise self._contradiction(f"the release {release.id} is not what the ledger says of it")

    def _check_answers(self, submission: Submission, found: StoredRelease, *, exactly: bool) -> None:
        """Check that a stored answer is one to this request: the catalogue only nominates; seal the curator if not.

        Raises
        ------
        LedgerUnverified
        """
        prepared, said = submission.prepared, found.read_entry().said
        dataset = prepared.dataset
        is_readable = may_read(submission.analyst, dataset, said.actor)
        with self._sealing(), self.database.read() as connection:
            version = replace(dataset.registration, name=said.dataset, snapshot=said.snapshot, ended="")
            self.ledger.guard.trust.check_registered(connection, version)
        if not (
            is_readable
            and said.dataset == dataset.name
            and answers(prepared, submission.analyst.id, found.answer, exactly=exactly)
        ):
            raise self._contradiction(f"the release {found.id} is not the answer that the catalogue lists")

    @contextmanager
    def _sealing(self) -> Iterator[None]:
        """Seal the curator where the catalogue, or a dataset, is not one that it wrote."""
        try:
            yield
        except Contradiction as found:
            raise self._contradiction(str(found)) from None

    def _contradiction(self, reason: str) -> LedgerUnverified:
        self.ledger.guard.seal(reason)
        return unverified()

    def _anchor_before_send(self, release: StoredRelease, *, just_written: bool = False) -> StoredRelease:
        """Check last that the anchor has moved to the entry of whatever leaves."""
        self.ledger.guard.anchor_before_send(release.receipt, just_written=just_written)
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
        return self._anchor_before_send(release)

    def check_reader(self, release: StoredRelease, dataset: Dataset, reader: Principal) -> None:
        """Check that a dataset's policy lets a principal read a release.

        Raises
        ------
        NotFound
        """
        if not may_read(reader, dataset, release.read_entry().said.actor):
            raise release_not_found()

    def list_releases(self, dataset: Dataset, reader: Principal, *, after: int, count: int) -> bytes:
        """Return a page of a dataset's releases, without their statistics, as JSON."""
        with self.database.read() as connection:
            page, more = catalogue.list_summaries(
                connection,
                collection=None if may_read_all(reader, dataset) else collection_of(dataset, reader.id),
                dataset_id=dataset.id,
                after=after,
                count=count,
                bytes_max=PAGE_BYTES_MAX,
            )
        following = f'"{page[-1][0]}"' if more and page else "null"
        return f'{{"releases":[{",".join(summary for _, summary in page)}],"next":{following}}}'.encode()
