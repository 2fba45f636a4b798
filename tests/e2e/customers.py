"""Analysts in processes of their own: many requests at once, with a record of every answer."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from deployments import Caller, slug
from patience import scaled


@dataclass(frozen=True)
class Submission:
    """A request with its key, and how its last sending ended: status 0 is no answer."""

    path: str
    content: dict[str, Any]
    key: str
    status: int
    slug: str
    digest: str


def buy(
    url: str, token: str, path: str, content: dict[str, Any], keys: Sequence[str], start_at: float, record: str
) -> None:
    """Buy with each key in turn, from an instant on, insisting on an answer; record how each ended."""
    with Caller(url, token, timeout_s=scaled(60)) as caller, Path(record).open("w", encoding="utf-8") as file:
        caller.get("/healthz")
        time.sleep(max(0.0, start_at - time.time()))
        for key in keys:
            answer = caller.insist(path, content, key, within_s=120)
            _write(file, path, content, key, answer)


def buy_until_cut_off(
    url: str,
    token: str,
    planned_requests: Sequence[tuple[str, dict[str, Any]]],
    prefix: str,
    seconds: float,
    record: str,
) -> None:
    """Send one wish after the other, each once, for some seconds; record the answers, and those that never came."""
    end, count = time.monotonic() + seconds, 0
    with Caller(url, token) as caller, Path(record).open("w", encoding="utf-8") as file:
        while time.monotonic() < end:
            path, content = planned_requests[count % len(planned_requests)]
            key = f"{prefix}-{count}"
            count += 1
            try:
                answer: httpx.Response | None = caller.post(path, content, key)
            except httpx.TransportError:
                answer = None
            _write(file, path, content, key, answer)
            if answer is None:
                time.sleep(0.02)


def _write(file: Any, path: str, content: dict[str, Any], key: str, answer: httpx.Response | None) -> None:
    status, problem = (0, "") if answer is None else (answer.status_code, slug(answer))
    digest = "" if answer is None else hashlib.sha256(answer.content).hexdigest()
    file.write(json.dumps([path, content, key, status, problem, digest]) + "\n")


def read_record(file: Path) -> list[Submission]:
    return [Submission(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def buy_across(
    url: str, token: str, path: str, content: dict[str, Any], keys: Sequence[str], start_at: float, record: str
) -> None:
    """Buy with each key in turn, from an instant on; record when each was sent, and how it ended."""
    with Caller(url, token, timeout_s=scaled(60)) as caller, Path(record).open("w", encoding="utf-8") as file:
        caller.get("/healthz")
        time.sleep(max(0.0, start_at - time.time()))
        for key in keys:
            sent = time.time()
            answer = caller.insist(path, content, key, within_s=120)
            file.write(json.dumps([sent, answer.status_code, slug(answer)]) + "\n")
