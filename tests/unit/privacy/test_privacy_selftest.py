"""The start-up check: passes here, and stops the service where an assumption of the proofs is broken."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from curator_service.app import create_app
from curator_service.kinds.registry import KINDS
from curator_service.privacy import selftest
from curator_service.privacy.samplers import SystemNoise
from curator_service.privacy.selftest import SelfTestError, run_self_test
from curator_service.settings import Settings


def seeded(self: SystemNoise, distribution: Any, scales: list[int]) -> list[int]:
    return np.rint(np.random.default_rng(1).normal(size=len(scales)) * np.array(scales)).astype(int).tolist()


def halved(self: SystemNoise, distribution: Any, scales: list[int]) -> list[int]:
    return [draw // 2 for draw in SAMPLE(self, distribution, scales)]


SAMPLE = SystemNoise.sample
GRAM = selftest.compute_gram
STORED = selftest.to_stored
BROKEN: list[tuple[str, str, Callable[..., Any], str]] = [
    ("selftest", "compute_gram", lambda blocks, k: GRAM(blocks, k) + np.eye(k, dtype=np.int64), "matrix product"),
    ("selftest", "to_stored", lambda *a: STORED(*a) + 1, "rounded"),
    ("selftest", "threadpool_info", lambda: [{"user_api": "blas", "num_threads": 2}], "thread"),
    ("sampler", "sample", seeded, "sampler"),
    ("sampler", "sample", halved, "sampler"),
]


def test_this_machine_holds_what_the_proofs_assume() -> None:
    with threadpool_limits(1, user_api="blas"):
        run_self_test(KINDS.self_tests)


@pytest.mark.parametrize(("where", "name", "wrong", "message"), BROKEN)
def test_a_broken_assumption_is_named(
    monkeypatch: pytest.MonkeyPatch, where: str, name: str, wrong: Callable[..., Any], message: str
) -> None:
    monkeypatch.setattr(selftest if where == "selftest" else SystemNoise, name, wrong)
    with threadpool_limits(1, user_api="blas"), pytest.raises(SelfTestError, match=message):
        run_self_test(KINDS.self_tests)


def test_a_product_in_reduced_precision_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = np.tile
    monkeypatch.setattr(np, "tile", lambda a, reps: tile(a.astype(np.float32), reps))
    assert not selftest._is_gram_exact()


def test_the_service_refuses_to_start_when_the_check_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SystemNoise, "sample", seeded)
    app = create_app(Settings(data_dir=tmp_path))

    async def start() -> None:
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(SelfTestError, match="Nothing is released"):
        asyncio.run(start())
