"""Counters for Prometheus: what a whole response shows to whoever asked, and the state of the service.

No label comes from a request, a person or a row: routes as the interface declares them, methods, classes of statuses,
problems, kinds and outcomes. There is no population, no budget, and nothing of the process itself: its processor time
or memory would show the work of a pass more finely than answers do, which end at public times.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from curator_service import __version__
from curator_service.kit.milestones import Milestone, find

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder where worker processes add up; the library reads it when it is imported."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MEDIA_TYPE = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class State:
    """The state of the service.

    Attributes
    ----------
    status : str
        As `/readyz` says it.
    jobs_open : int, optional
        Requests that wait or are worked on, and hold an amount, of every process; None where it cannot be told.
    waiting_bytes : int, optional
        What is stored of rows beside the versions that hold now; None where it cannot be told.
    """

    status: str
    jobs_open: int | None
    waiting_bytes: int | None = 0


class Metrics:
    """The counters of one process, and of all workers together where they share a folder.

    Parameters
    ----------
    kinds : iterable of str
        The kinds of release.
    folders : mapping of str to Path
        Whose disks may fill up, by what they are called.
    """

    def __init__(self, kinds: Iterable[str], data_dir: Path, folders: Mapping[str, Path]) -> None:
        self._kinds, self._data_dir, self._folders = frozenset(kinds), data_dir, folders
        self._registry = CollectorRegistry()
        self._requests = Counter("curator_requests", "Answers.", ["method", "route", "status"], registry=self._registry)
        self._seconds = Histogram(
            "curator_request_seconds",
            "Seconds from a request to the end of its answer.",
            ["route"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._refusals = Counter("curator_refusals", "Refusals by problem.", ["problem"], registry=self._registry)
        self._releases = Counter(
            "curator_releases", "Requests for releases.", ["kind", "outcome"], registry=self._registry
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer; a status of 0 is none, since nobody listened any more."""
        self._requests.labels(
            method if method in METHODS else OTHER, route, f"{status // 100}xx" if status else "none"
        ).inc()
        self._seconds.labels(route).observe(seconds)

    def count_refusal(self, problem: str) -> None:
        """Count a refusal by the slug of its problem."""
        self._refusals.labels(problem).inc()

    def count_release(self, kind: str, outcome: str) -> None:
        """Count a request for a release whose kind is known."""
        self._releases.labels(kind if kind in self._kinds else OTHER, outcome).inc()

    def render(self, state: State) -> bytes:
        """Return everything as Prometheus reads it.

        Returns
        -------
        bytes
            The text format, of the media type `MEDIA_TYPE`.
        """
        counters = self._registry
        if SHARED_FOLDER in os.environ:
            counters = CollectorRegistry()
            MultiProcessCollector(counters)  # type: ignore[no-untyped-call]
        gauges = CollectorRegistry()
        gauges.register(_Gauges(self._gauges(state)))
        return generate_latest(counters) + generate_latest(gauges)

    def _gauges(self, state: State) -> Iterator[GaugeMetricFamily]:
        yield _gauge("curator_build_info", "The version that runs.", 1, version=__version__)
        yield _gauge("curator_ready", "Whether /readyz is green.", state.status == "ready")
        yield _gauge("curator_sealed", "Whether the curator is sealed.", state.status == "sealed")
        if state.jobs_open is not None:
            yield _gauge("curator_jobs_open", "Jobs that wait or run, of every process.", state.jobs_open)
        verified = find(self._data_dir, Milestone.LEDGER_VERIFIED)
        if verified is not None:
            about = "When `curator ledger verify` ended last, in seconds since 1970."
            yield _gauge("curator_ledger_verified_timestamp_seconds", about, verified.at)
            yield _gauge("curator_ledger_holds", "Whether it found that the ledger holds.", verified.is_well)
        backup = find(self._data_dir, Milestone.BACKUP_WRITTEN)
        if backup is not None:
            about = "When `curator backup` ended last, in seconds since 1970."
            yield _gauge("curator_backup_timestamp_seconds", about, backup.at)
        if state.waiting_bytes is not None:
            yield self._free(state.waiting_bytes)

    def _free(self, waiting_bytes: int) -> GaugeMetricFamily:
        """Tell the free share of disks as it would be without rows that wait: nobody learns here that some came."""
        free = GaugeMetricFamily(
            "curator_disk_free_ratio",
            # A request's temporary files are far below a hundredth.
            "The share of a folder's disk that is free or taken by rows that wait for a cut, in hundredths.",
            labels=["folder"],
        )
        for name, share in measure_free(self._folders, self._data_dir, waiting_bytes).items():
            free.add_metric([name], share / 100)
        return free


def measure_free(folders: Mapping[str, Path], data_dir: Path, waiting_bytes: int) -> dict[str, int]:
    """Return the share of each folder's disk that is free or taken by rows that wait, in percent, rounded down."""
    found = {}
    for name, folder in folders.items():
        try:
            disk, is_of_data = shutil.disk_usage(folder), os.stat(folder).st_dev == os.stat(data_dir).st_dev
        except OSError:
            continue
        left = disk.free + (waiting_bytes if is_of_data else 0)
        found[name] = int(100 * min(left / disk.total, 1.0))
    return found


def _gauge(name: str, about: str, value: float, **labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=list(labels))
    family.add_metric(list(labels.values()), float(value))
    return family


class _Gauges(Collector):
    """Gauges that are read for each scrape, and are equal in every process."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families
