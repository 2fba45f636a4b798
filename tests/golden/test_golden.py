"""Nothing that was sold changes by accident: requests, digests, entries, receipts and answers, byte by byte."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest
from net import RECORDS, stored
from scenario import GOLDEN, run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("golden") / "world")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def anew() -> Iterator[BaseContext]:
    """Return what forks processes of a new one, which has imported what records, and nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["net"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the one that is forked, too
        yield context


@pytest.mark.parametrize("name", list(RECORDS))
def test_what_is_told_is_what_was_told(name: str, anew: BaseContext, tmp_path: Path) -> None:
    """Of a difference that is wanted the file is written anew, and it is said in differences.md."""
    # A process of its own: what others have made in this one, ids among it, would be taken over.
    with ProcessPoolExecutor(1, mp_context=anew) as pool:
        recorded = pool.submit(RECORDS[name], tmp_path).result()
    found, before = json.loads(json.dumps(recorded)), stored(name)
    if isinstance(before, dict):
        assert found.keys() == before.keys()
        for what, told in before.items():
            assert found[what] == told, what
    else:
        assert len(found) == len(before)
        for told, expected in zip(found, before, strict=True):
            assert told == expected


def test_everybody_is_told_what_they_were_told(found: dict[str, Any], golden: dict[str, Any]) -> None:
    assert found["told"].keys() == golden["told"].keys()
    for name, told in golden["told"].items():
        assert found["told"][name] == told, name


def test_ledgers_are_written_as_they_were(found: dict[str, Any], golden: dict[str, Any]) -> None:
    for population, entries in golden["entries"].items():
        assert found["entries"][population] == entries, population


def test_the_life_shows_every_way_to_an_answer(golden: dict[str, Any]) -> None:
    told = golden["told"].values()
    assert {step["headers"].get("curator-answer") for step in told} >= {"new", "stored", "derived"}
    assert {step["status"] for step in told} >= {200, 201, 202, 404, 409, 422}
