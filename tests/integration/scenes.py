"""Helpers of the tests of the ledger's life: noise that can be stopped and interrupted, and a client with a memory."""

import base64
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from patience import scaled
from support import Api, World, body, csv_text, make_rows, manifest_text

from curator_service.backup import read_backup, write_backup
from curator_service.container import Curator, make_curator
from curator_service.ledger.chain.entries import canonical
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.samplers import Distribution
from curator_service.releases.response_time import ResponseTimer
from curator_service.settings import Settings

COHORT = "/v1/datasets/cohort"
RELEASES, RESERVATIONS, QUOTES, BUDGET_OF = (
    f"{COHORT}/{name}" for name in ("releases", "reservations", "quotes", "budget")
)
ASYNC = {"Prefer": "respond-async"}
PATIENCE_S = scaled(20.0)


def box(**changes: Any) -> dict[str, Any]:
    """Return a request that needs no pass over rows."""
    return body(**{"rows": {"map": "box"}, **changes})


class Interrupted:
    """Noise that does something once, while an answer is worked on; then it draws its number, or breaks."""

    def __init__(self) -> None:
        self.calls = 0
        self.act: Callable[[], None] | None = None
        self.breaks = ""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        """Act, then return the number of the call."""
        self.calls += 1
        drawn = self.calls
        act, self.act = self.act, None
        if act is not None:
            act()
        if self.breaks:
            raise RuntimeError(self.breaks)
        return [drawn] * len(scales)


class Gate:
    """Noise that waits until it is opened: an answer that takes long."""

    def __init__(self) -> None:
        self.calls = 0
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        """Wait, then return the number of the call."""
        self.calls += 1
        drawn = self.calls
        self.entered.release()
        assert self.opened.wait(PATIENCE_S), "nobody opened the gate"
        return [drawn] * len(scales)

    def await_entry(self) -> None:
        """Return when somebody stands at the gate."""
        assert self.entered.acquire(timeout=PATIENCE_S), "nobody came to the gate"


def register_private(world: World, *analysts: str) -> str:
    """Register a dataset with private releases, grant it to analysts, and return its address."""
    manifest, data = world.folder / "private.toml", world.folder / "private.csv"
    text = manifest_text("private").replace("row_capacity", 'library = "own"\nrow_capacity', 1)
    manifest.write_text(text, encoding="utf-8")
    data.write_text(csv_text(make_rows(60, seed=21)), encoding="utf-8")
    dataset = world.curator.datasets.register(manifest, data, actor="operator:test")
    for analyst in analysts:
        world.grant(analyst, dataset.id)
    return "/v1/datasets/private"


def another_worker(world: World, *, noise: Any = None, response_timer: ResponseTimer | None = None) -> Curator:
    """Return another process's services on the same database and folders."""
    return make_curator(
        world.settings,
        noise=world.noise if noise is None else noise,
        now=world.clock,
        response_timer=ResponseTimer(0) if response_timer is None else response_timer,
    )


def in_background(act: Callable[[], httpx.Response]) -> Callable[[], httpx.Response]:
    """Begin to send a request from another thread; return what waits for its answer."""
    pool = ThreadPoolExecutor(1)
    sent = pool.submit(act)
    pool.shutdown(wait=False)
    return lambda: sent.result(PATIENCE_S)


def await_job(api: Api, job_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        job: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
        if job["state"] != "running":
            return job
        time.sleep(0.005)
    raise AssertionError(f"{job_id} does not end")


def seen(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return the header in which a client sends a checkpoint back."""
    text = base64.urlsafe_b64encode(canonical(checkpoint).encode()).decode().rstrip("=")
    return {"Curator-Checkpoint": text}


_MEMBERS = ("entry_hash", "epoch", "key_id", "limit", "pending", "population", "posted", "sequence", "signature")


def checkpoint_of(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: receipt[name] for name in _MEMBERS}


def head_of(api: Api) -> dict[str, Any]:
    """Return the checkpoint that the budget shows."""
    checkpoint: dict[str, Any] = api.get(BUDGET_OF).json()["checkpoint"]
    return checkpoint


def open_reservations(world: World) -> dict[str, int]:
    """Return what every open reservation still holds, as the database says."""
    return dict(world.sql("SELECT id, units - drawn_units FROM reservations WHERE state = 'open'"))


def kinds(world: World) -> list[str]:
    """Return the kinds of a chain's entries, without those of the setting."""
    return [entry["kind"] for entry in world.entries() if entry["kind"] not in {"open", "dataset", "permit"}]


def assert_sound(world: World, population: str = "town") -> None:
    """Assert that the chain holds, every signature included, and that it and what is stored agree."""
    witness = another_worker(world)
    try:
        found = witness.ledger.verify(population)
        assert found.ok, f"sequence {found.bad_sequence}: {found.reason}"
        discrepancies = world.discrepancies(population)
        assert not discrepancies, discrepancies
        assert witness.ledger.guard.reason() == ""
    finally:
        witness.database.dispose()


def copy_of(world: World, name: str = "copy", *, anchor_lost: bool = False) -> World:
    """Rehearse wrongly: restore with production's keys elsewhere, and reconcile, with a copy of the anchor or none."""
    file, folder = world.folder / f"for-{name}.tar", world.folder / f"{name}-anchor"
    write_backup(world.curator, file)
    settings = Settings(data_dir=world.folder / name, keys_dir=world.settings.keys_folder, anchor_dir=folder)
    curator = make_curator(settings, noise=world.noise, now=world.clock)
    read_backup(curator, file)
    if not anchor_lost:
        shutil.copytree(world.settings.anchor_folder, folder)
    reconcile(curator.ledger, actor="operator:test", anchor_lost=anchor_lost)
    return World(settings, curator, world.clock, world.folder, world.noise, dict(world.tokens))
