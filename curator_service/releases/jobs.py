"""The jobs of one process: a lane for long ones, one for short ones, and a thread that looks for silent workers.

A lane is a queue and a thread that works on one job after the other. One that is cancelled frees it at a public step.

A worker that died leaves reservations behind. One of this machine has let go of its lock, and its jobs are given up at
the next look: at once when it is started again. For the others every worker shows a beat in the database; one whose
beat stands still for a lease, by the watcher's own clock and no other, has its jobs given up. If it only slept, its
reservation is closed by then, and the database refuses its answer.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from curator_service.kit.clock import SettledClock, timestamp
from curator_service.kit.db import DATABASE_ERRORS, Database
from curator_service.kit.limiter import ConcurrencyLimiter
from curator_service.kit.logs import log_without_data
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.unit_of_work import new_id
from curator_service.ledger.service import LedgerService
from curator_service.releases.presence import Presence
from curator_service.releases.submission import JobEnded

log = logging.getLogger("curator_service")

JOBS_RETRY_AFTER_S = 10
SHORT_S = 1.0
"""Jobs that take no longer, by public numbers, have a lane of their own: no long one keeps them waiting."""


class Place:
    """A place in the queue, for a job that is being reserved."""

    def __init__(self) -> None:
        self.work: Callable[[], object] | None = None

    def take(self, work: Callable[[], object]) -> None:
        """Let the job wait for its turn."""
        self.work = work


class FairQueue:
    """A queue that serves principals in turn, whoever of them has how many jobs waiting."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[str, Callable[[], object]]]] = {}
        self._ready = threading.Semaphore(0)
        self._turn = threading.Lock()

    def put(self, principal_id: str, job_id: str, work: Callable[[], object]) -> None:
        """Add a job behind the others of its principal."""
        with self._turn:
            self._waiting.setdefault(principal_id, deque()).append((job_id, work))
        self._ready.release()

    def get(self) -> tuple[str, str, Callable[[], object]]:
        """Wait for a job of the principal whose turn it is; return the principal, the job's id and its work."""
        self._ready.acquire()
        with self._turn:
            principal_id = next(iter(self._waiting))
            jobs = self._waiting.pop(principal_id)
            job_id, work = jobs.popleft()
            if jobs:
                self._waiting[principal_id] = jobs  # behind everybody else
        return principal_id, job_id, work

    def send_back(self, principal_id: str) -> None:
        """Let everybody else who waits come before a principal."""
        with self._turn:
            if principal_id in self._waiting:
                self._waiting[principal_id] = self._waiting.pop(principal_id)


class JobRunner:
    """Runs jobs, shows that this worker lives, and gives up the jobs of workers that do not.

    Parameters
    ----------
    lease_s : float
        How long a worker may be silent.
    presence : Presence
        Tells which workers of this machine have ended.
    waiting_max : int
        How many jobs may wait or run here; half of them of one principal.
    clock : SettledClock
        For reservations whose time is over.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        presence: Presence,
        *,
        lease_s: float,
        waiting_max: int,
        clock: SettledClock,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.presence = presence
        self.lease_s = lease_s
        self.worker_id = new_id("wrk_")
        self.clock = clock
        self._places = ConcurrencyLimiter(waiting_max, "jobs", retry_after_s=JOBS_RETRY_AFTER_S)
        self._lanes = {"jobs": FairQueue(), "short jobs": FairQueue()}
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._attended: set[str] = set()
        self._seen: dict[str, tuple[int | None, float]] = {}

    # --- The queue

    @contextmanager
    def attending(self, job_id: str) -> Iterator[None]:
        """Mark a job as worked on here, from before it is reserved until its work is over."""
        self._attended.add(job_id)
        try:
            yield
        finally:
            self._attended.discard(job_id)

    @contextmanager
    def place(self, job_id: str, principal_id: str, expected_s: float) -> Iterator[Place]:
        """Hold a place in the queue while a job is reserved, of which public numbers say how long it takes.

        Raises
        ------
        TooManyRequests
            If as many jobs wait as may.
        Unavailable
            If this process is being stopped.
        """
        if self._stopping.is_set():
            raise Unavailable("The server is being stopped. Nothing was charged; send the request again.")
        self._places.acquire(principal_id)
        self._attended.add(job_id)
        place = Place()
        try:
            yield place
        finally:
            if place.work is None:
                self._leave(job_id, principal_id)
            else:
                lane = "short jobs" if expected_s <= SHORT_S else "jobs"
                self._lanes[lane].put(principal_id, job_id, place.work)
                self._begin(lane, partial(self._run, self._lanes[lane]))

    def _leave(self, job_id: str, principal_id: str) -> None:
        self._attended.discard(job_id)
        self._places.release(principal_id)

    def _run(self, queue: FairQueue) -> None:
        """Work on one job after the other, each to a public time: the next one's begin tells nothing of rows."""
        while True:
            principal_id, job_id, work = queue.get()
            try:
                if not self._stopping.is_set():
                    work()
            except JobEnded:
                queue.send_back(principal_id)  # whoever cancels what he began has had his turn
            except Problem:
                pass  # it was given up already; whoever asks is told
            except Exception as error:
                log_without_data(job_id, error)
            finally:
                self._leave(job_id, principal_id)

    def _begin(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread once; it does not keep the process from ending."""
        with self._starting:
            if all(thread.name != name for thread in self._threads):
                self._threads.append(threading.Thread(target=run, name=name, daemon=True))
                self._threads[-1].start()

    # --- Life and death of workers

    def start(self) -> None:
        """Show that this worker lives from now on, and look for those who do not: at once for those of this machine."""
        if not self.presence.announce(self.worker_id):
            log.warning("this worker holds no lock: if it is killed, its jobs are given up when its lease is over")
        self.presence.sweep()
        with self.database.begin() as connection:
            reservations.register_worker(connection, self.worker_id)
        with suppress(Problem):  # then the watcher tries again
            self.sweep()
        self._begin("watcher", self._watch)

    def stop(self) -> None:
        """Give this worker's jobs up, and take leave: nobody has to wait for its lease."""
        self._stopping.set()
        left = True
        try:
            with self.database.read() as connection:
                own = [job for job, owner, _beat in reservations.list_jobs(connection) if owner == self.worker_id]
            left = bool([job_id for job_id in own if not self._give_up(job_id)])
            with self.database.begin() as connection:
                reservations.retire_worker(connection, self.worker_id)
        except DATABASE_ERRORS:
            log.warning("the database did not answer at shut-down: another process gives the jobs up")
        self.presence.leave(self.worker_id, forget=not left and not self._attended)

    def _give_up(self, job_id: str) -> bool:
        if self.ledger.guard.reason():
            return False
        try:
            self.ledger.end(job_id, reservations.VOIDED, actor="curator")
        except (Problem, *DATABASE_ERRORS):
            log.warning("a job could not be given up at shut-down: another process does it")
            return False
        return True

    def _watch(self) -> None:
        while not self._stopping.wait(self.lease_s / 4):
            try:
                with self.database.begin() as connection:
                    if not reservations.beat(connection, self.worker_id):
                        reservations.register_worker(connection, self.worker_id)
                self.sweep()
            except DATABASE_ERRORS:
                log.warning("the database does not answer; the watcher tries again")
            except Exception as error:
                log_without_data("the watcher", error)

    def sweep(self) -> list[str]:
        """Give up the jobs of silent workers, and close the reservations whose time is over; return their ids."""
        if self.ledger.guard.reason():
            return []  # nothing is written under a seal, and a reconciliation closes them all
        now = timestamp(self.clock.judge())  # before it is believed: the clock may be set in between
        is_settled = self.clock.is_settled()
        with self.database.read() as connection:
            jobs = reservations.list_jobs(connection)
            expired = reservations.list_expired(connection, now) if is_settled else []
        moment, seen = time.monotonic(), self._seen
        self._seen = {}
        for _job, owner, beat in jobs:
            known = seen.get(owner)
            self._seen[owner] = (beat, moment) if known is None or known[0] != beat else known
        given_up = [job for job, owner, _beat in jobs if self._is_given_up(job, owner, moment)]
        ended = [job for job in given_up if self.ledger.end(job, reservations.VOIDED, actor="curator")] + [
            reservation
            for reservation in expired
            if self.ledger.end(reservation, reservations.EXPIRED, actor="curator")
        ]
        self._bury({owner for job, owner, _beat in jobs if job not in given_up})
        return ended

    def _is_given_up(self, job: str, owner: str, moment: float) -> bool:
        if owner == self.worker_id:
            return job not in self._attended
        return moment - self._seen[owner][1] >= self.lease_s or self.presence.is_dead(owner)

    def _bury(self, busy: set[str]) -> None:
        """Forget the dead of this machine who have nothing open any more."""
        for worker in set(self.presence.list_known()) - busy:
            if self.presence.is_dead(worker, forget=True):
                with self.database.begin() as connection:
                    reservations.retire_worker(connection, worker)
