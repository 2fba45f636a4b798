"""The release publisher: the only place where something is charged and published, durable together or not at all."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from curator_service.datasets.service import DatasetService
from curator_service.datasets.visibility import collection_of
from curator_service.kinds.listing import Listing
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import DATABASE_ERRORS, Connection, Database, is_retryable
from curator_service.kit.limiter import ConcurrencyLimiter
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Ledger, Refused, new_id
from curator_service.ledger.chain.entries import canonical
from curator_service.ledger.repository import Head, Population, find_population
from curator_service.ledger.service import LedgerService
from curator_service.permits.service import permit_expired
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.mechanism import NoisyStatistics, draw_noise
from curator_service.privacy.samplers import NoiseSource
from curator_service.releases import catalogue, repository
from curator_service.releases.answers import make_listing
from curator_service.releases.catalogue import Place
from curator_service.releases.charges import state_charge, state_derived
from curator_service.releases.jobs import JobRunner
from curator_service.releases.keys import KeyClaims
from curator_service.releases.library import Search, cut, least_sd
from curator_service.releases.preparation import Prepared
from curator_service.releases.rendering import (
    Outline,
    outline_of,
    outline_of_derived,
    render_answer,
    render_derived,
)
from curator_service.releases.repository import StoredRelease
from curator_service.releases.response_time import ResponseTimer
from curator_service.releases.stopping import StoppableKernel, Stopped
from curator_service.releases.submission import ATTEMPTS, JobEnded, Submission

_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class _Draft:
    """An answer that was drawn and rendered, and is not published yet."""

    release_id: str
    moment: str
    answer: str
    outline: Outline
    listing: Listing


class ReleasePublisher:
    """Charges a submission and publishes its answer.

    Every method returns None where the key, the library or the budget decided otherwise in the meantime: then the
    caller looks again.

    Parameters
    ----------
    job_runner : JobRunner
        Runs the jobs of this process.
    claims : KeyClaims
        Ties keys to answers.
    passes : ConcurrencyLimiter
        Of what takes time while its caller waits: each holds a thread and the memory of a pass over rows.
    response_timer : ResponseTimer
        Makes answers show at public times.
    answer_bytes_max : int
        Bytes of answers that are stored for one analyst of one population.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        datasets: DatasetService,
        noise: NoiseSource,
        job_runner: JobRunner,
        *,
        claims: KeyClaims,
        passes: ConcurrencyLimiter,
        response_timer: ResponseTimer,
        answer_bytes_max: int,
        now: Clock,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.datasets = datasets
        self.noise = noise
        self.job_runner = job_runner
        self.claims = claims
        self.passes = passes
        self.response_timer = response_timer
        self.answer_bytes_max = answer_bytes_max
        self.now = now

    # --- What takes no time: the charge and the answer in one unit of work

    def charge_and_publish(self, submission: Submission, population: Population) -> StoredRelease | None:
        """Charge and publish: durable together or not at all. None if the key, the library or the budget decide."""
        release_id = new_id("rel_")
        prepared = submission.prepared
        draws = draw_noise(prepared.plan, self.noise)  # of no data, and outside of the lock

        def work(ledger: Ledger) -> StoredRelease:
            self._claim(ledger, submission, release_id=release_id)
            moment = timestamp(self.now())
            dataset = prepared.dataset
            head = ledger.charge(dataset.population, dataset.id, prepared.cost, submission.payer, moment)
            self.datasets.check_current(ledger.connection, prepared.dataset)
            ledger.check_latest(prepared.dataset.registration, head, submission.payer, prepared.asked)
            self._check_unanswered(ledger, submission)
            draft = self._draft(release_id, prepared, population, self._compute(prepared, draws), moment)
            return self._publish(ledger, submission, draft, head)

        return self._decide(work, submission)

    def _decide(self, work: Callable[[Ledger], StoredRelease], submission: Submission) -> StoredRelease | None:
        """Run a unit of work. None if the database decided against it, or against its moment.

        A commit whose outcome is unknown is looked up by its key.
        """
        try:
            with self.ledger.unit() as ledger:
                return work(ledger)
        except Refused:
            return None
        except DATABASE_ERRORS as error:
            if is_retryable(error):
                return None
            found = self._look_up_again(submission)
            if found is not None:
                return found
            raise

    def _look_up_again(self, submission: Submission) -> StoredRelease | None:
        with self.database.read() as connection:
            known = repository.find_key(connection, submission.analyst.id, submission.key)
            if known is None or known.release_id is None or known.fingerprint != submission.prepared.fingerprint:
                return None
            return repository.find_release(connection, known.release_id)

    def _claim(self, ledger: Ledger, submission: Submission, **holder: str) -> None:
        if not self.claim(ledger.connection, submission, **holder):
            raise Refused

    def claim(
        self,
        connection: Connection,
        submission: Submission,
        *,
        release_id: str | None = None,
        reservation_id: str | None = None,
    ) -> bool:
        """Tie the key of a submission to an answer or a job; False if somebody has it.

        Raises
        ------
        TooManyRequests
        """
        return self.claims.claim(
            connection,
            submission.analyst.id,
            submission.key,
            submission.prepared.fingerprint,
            release_id=release_id,
            reservation_id=reservation_id,
        )

    @staticmethod
    def _check_unanswered(ledger: Ledger, submission: Submission, *, but_for: str = "") -> None:
        """Refuse what was answered, or begun, in the meantime: the account is locked, so whoever did has committed."""
        prepared = submission.prepared
        if prepared.request.fresh:
            return
        if Search(ledger.connection, prepared, submission.analyst.id).find_exact() is not None:
            raise Refused
        if but_for:
            running = reservations.list_running(ledger.connection, prepared.dataset.id)
            if any(job.id != but_for and submission.joins(job) for job in running):
                raise Refused

    def _compute(
        self, prepared: Prepared, draws: IntArray, is_stopped: Callable[[], bool] | None = None
    ) -> NoisyStatistics:
        kernel = prepared.kernel if is_stopped is None else StoppableKernel(prepared.kernel, is_stopped)
        return prepared.perturb(self.datasets.sum_rows(prepared.dataset, kernel), draws)

    def _compute_in_steps(self, prepared: Prepared, draws: IntArray, job: Reservation) -> NoisyStatistics:
        """Compute at a public pace; where the job ends meanwhile, at the next public step but one."""
        try:
            return self.response_timer.work_in_steps(
                lambda is_stopped: self._compute(prepared, draws, is_stopped),
                prepared.duration_s,
                lambda: self._has_ended(job),
                step_least_s=prepared.piece_s,
            )
        except Stopped:
            self._check_open(job)
            raise

    def _has_ended(self, job: Reservation) -> bool:
        """Tell whether a job was ended; where the database does not answer, the next look tells."""
        with suppress(Problem, *DATABASE_ERRORS), self.database.read() as connection:
            current = reservations.find_reservation(connection, job.id)
            return current is None or current.state != reservations.OPEN
        return False

    @staticmethod
    def _draft(
        release_id: str, prepared: Prepared, population: Population, noisy: NoisyStatistics, moment: str
    ) -> _Draft:
        outline = outline_of(prepared, population)
        answer = render_answer(release_id, prepared, outline, noisy, moment)
        return _Draft(release_id, moment, answer, outline, prepared.listing)

    def _publish(
        self, ledger: Ledger, submission: Submission, draft: _Draft, head: Head, reservation: Reservation | None = None
    ) -> StoredRelease:
        """Write the entry of a charge and the answer's body, in the unit of work that charged."""
        prepared = submission.prepared
        reservation_id = reservation.id if reservation is not None else submission.payer.reservation_id
        charge = state_charge(draft.release_id, prepared, draft.answer, draft.moment, submission.payer, reservation_id)
        receipt = ledger.record(head, charge, prepared.cost)
        release = StoredRelease(
            id=draft.release_id,
            dataset_id=prepared.dataset.id,
            population=prepared.dataset.population,
            sequence=head.sequence,
            request_digest=prepared.request_digest,
            answer=draft.answer,
            receipt=receipt,
        )
        self._store(ledger, submission, draft, release, is_job=reservation is not None)
        return release

    def _store(
        self, ledger: Ledger, submission: Submission, draft: _Draft, release: StoredRelease, *, is_job: bool = False
    ) -> None:
        """Store an answer where it is found again. What a job has worked for has its space, whoever took some since."""
        prepared, analyst, connection = submission.prepared, submission.analyst.id, ledger.connection
        most = _UNBOUNDED if is_job else self.answer_bytes_max
        repository.insert_release(connection, release)
        place = Place(release.id, prepared.dataset.id, collection_of(prepared.dataset, analyst), release.sequence)
        noise, summary = draft.outline.noise, draft.outline.summary(release.id, draft.moment)
        row = catalogue.make_row(place, draft.listing, least_sd(prepared.kind, draft.listing), noise, summary)
        catalogue.insert_listing(connection, row, draft.listing)
        if not catalogue.add_space(connection, release.population, analyst, prepared.answer_bytes, most):
            raise Refused

    def derive(self, submission: Submission, source: StoredRelease) -> StoredRelease | None:
        """Cut an answer out of a stored one, and publish it: it costs nothing, and has its own entry and receipt."""
        release_id, prepared, moment = new_id("rel_"), submission.prepared, timestamp(self.now())
        with self.database.read() as connection:
            population = find_population(connection, prepared.dataset.population)
        assert population is not None
        stored = json.loads(source.answer)
        listing = make_listing(prepared.kind, prepared.dataset, stored)
        block = cut(prepared.kind, listing, prepared.listing, stored["statistics"])
        outline = outline_of_derived(prepared, population, block)
        answer = render_derived(release_id, prepared, outline, source.id, block, moment)
        listing = replace(prepared.listing, distribution=block.distribution, sd=block.sd, derived_from=source.id)
        draft = _Draft(release_id, moment, answer, outline, listing)

        def work(ledger: Ledger) -> StoredRelease:
            self._claim(ledger, submission, release_id=release_id)
            derived = state_derived(release_id, prepared, answer, moment, submission.payer, source)
            receipt = ledger.note(prepared.dataset.population, derived)
            ledger.check_registered(prepared.dataset.registration)
            self._check_unanswered(ledger, submission)
            release = StoredRelease(
                id=release_id,
                dataset_id=prepared.dataset.id,
                population=prepared.dataset.population,
                sequence=receipt.signed.checkpoint.sequence,
                request_digest=prepared.request_digest,
                answer=answer,
                receipt=receipt,
            )
            self._store(ledger, submission, draft, release)
            return release

        return self._decide(work, submission)

    # --- What takes time, by declarations: reserve, compute at a public pace, post

    def _new_job(self, submission: Submission, population: Population) -> Reservation:
        prepared, payer = submission.prepared, submission.payer
        details = {
            "request": json.dumps(prepared.canonical),
            "noise": json.dumps(prepared.listing.noise),
            "duration_ms": self._duration_ms(prepared),
        }
        return Reservation(
            id=new_id(reservations.JOB),
            population=population.name,
            dataset_id=prepared.dataset.id,
            principal_id=submission.analyst.id,
            permit_id=payer.permit_id,
            project=payer.project,
            drawn_from=payer.reservation_id,
            units=prepared.cost,
            drawn=0,
            state=reservations.OPEN,
            outcome=reservations.RUNNING,
            request_digest="" if prepared.request.fresh else prepared.request_digest,
            details=canonical(details),
            owner=self.job_runner.worker_id,
            created_at=timestamp(self.now()),
            expires_at="",
        )

    def _reserve(self, submission: Submission, job: Reservation) -> Reservation | None:
        """Hold the cost of a request under its key; None if the key, the library or the budget decide."""
        try:
            with self.ledger.unit() as ledger:
                self._claim(ledger, submission, reservation_id=job.id)
                ledger.reserve(job)
                ledger.check_registered(submission.prepared.dataset.registration)
                self._check_unanswered(ledger, submission, but_for=job.id)
        except Refused:
            return None
        except DATABASE_ERRORS as error:
            if is_retryable(error):
                return None
            raise  # if it was reserved after all, nobody attends to it, and the watcher gives it up
        return job

    @staticmethod
    def _duration_ms(prepared: Prepared) -> int:
        return int(prepared.duration_s * 1000)

    def reserve_and_publish(self, submission: Submission, population: Population) -> StoredRelease | None:
        """Reserve, compute at a public pace, and post, while the caller waits.

        Raises
        ------
        TooManyRequests
            If as many callers wait as may. Nothing was reserved, and the key is free.
        """
        job = self._new_job(submission, population)
        with self.passes.place(submission.analyst.id), self.job_runner.attending(job.id):
            return None if self._reserve(submission, job) is None else self._work(submission, population, job)

    def start_job(self, submission: Submission, population: Population) -> Reservation | None:
        """Reserve, and let the job runner do the rest; None if the key, the library or the budget decide.

        Raises
        ------
        TooManyRequests
            If as many jobs wait as may. Nothing was reserved, and the key is free.
        """
        job = self._new_job(submission, population)
        with self.job_runner.place(job.id, submission.analyst.id, submission.prepared.expected_s) as place:
            if self._reserve(submission, job) is None:
                return None
            place.take(lambda: self._work(submission, population, job, in_steps=True))
        return job

    def _work(
        self, submission: Submission, population: Population, job: Reservation, *, in_steps: bool = False
    ) -> StoredRelease:
        """Compute, and post at a public time; in steps, nothing is computed any more once the job was cancelled.

        A pass in another process cannot be told: it would free its thread when it really ends, so it has no steps.

        Whatever goes wrong shows at the same times, and gives the reservation back: a charge is only ever posted with
        its answer.

        Raises
        ------
        JobEnded
            If its analyst cancelled it in the meantime.
        Unavailable
            If it was given up in the meantime.
        """
        release_id = new_id("rel_")
        try:
            self._check_open(job)
            self.database.give_back()  # there are fewer connections than threads
            draws = draw_noise(submission.prepared.plan, self.noise)  # of no data: not a part of what takes public time
            if in_steps and self.datasets.storage.engine.is_here:
                noisy = self._compute_in_steps(submission.prepared, draws, job)
            else:
                with self.response_timer.ending_at_public_time(submission.prepared.duration_s):
                    noisy = self._compute(submission.prepared, draws)
            draft = self._draft(release_id, submission.prepared, population, noisy, timestamp(self.now()))

            def work(ledger: Ledger) -> StoredRelease:
                head = ledger.post(job, draft.moment)
                self.datasets.check_current(ledger.connection, submission.prepared.dataset)
                prepared = submission.prepared
                ledger.check_latest(prepared.dataset.registration, head, submission.payer, prepared.asked)
                release = self._publish(ledger, submission, draft, head, job)
                repository.answer_keys(ledger.connection, job.id, release.id)
                return release

            published = self._decide_job(work, submission)
        except Exception:
            with suppress(Problem, *DATABASE_ERRORS):  # then the watcher does it, or a reconciliation
                self.ledger.end(job.id, reservations.VOIDED, actor="curator")
            raise
        if published is None:
            self._check_open(job)
            self.ledger.guard.check_open()
            self.ledger.end(job.id, reservations.EXPIRED, actor="curator")
            raise permit_expired(timestamp(self.now()))  # it was open: nothing else forbids to post it
        return published

    def _check_open(self, job: Reservation) -> None:
        """Refuse to go on with a job that has ended: what others did to it, and when, is public."""
        with self.database.read() as connection:
            current = reservations.find_reservation(connection, job.id)
        if current is None or current.outcome == reservations.CANCELLED:
            raise JobEnded(
                f"The job {job.id!r} was cancelled. Nothing was charged; send the request again to begin anew."
            )
        if current.state != reservations.OPEN:
            raise Unavailable(f"The job {job.id!r} was given up. Nothing was charged; send the request again.")

    def _decide_job(self, work: Callable[[Ledger], StoredRelease], submission: Submission) -> StoredRelease | None:
        for _ in range(ATTEMPTS):
            try:
                with self.ledger.unit() as ledger:
                    return work(ledger)
            except Refused:
                return self._look_up_again(submission)
            except DATABASE_ERRORS as error:
                if is_retryable(error):
                    continue
                found = self._look_up_again(submission)
                if found is not None:
                    return found
                raise
        raise Unavailable("The database was busy too often. Nothing was charged; send the request again.")
