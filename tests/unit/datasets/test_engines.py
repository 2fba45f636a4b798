"""Engines: all give the integers of a slow program, under any cut and in any order, or no sum at all."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from multiprocessing.process import parent_process
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_on_disk import special_rows, store_rows
from sums_slowly import rows_of, sum_slowly, write_sums
from support import World

import curator_service.kinds
from curator_service.app import create_app
from curator_service.container import make_curator, make_engine
from curator_service.datasets.batches import MARK
from curator_service.datasets.engines import conformance
from curator_service.datasets.engines import numpy as numpy_engine
from curator_service.datasets.engines.base import Engine, cut_rows
from curator_service.datasets.engines.conformance import check_engine
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.engines.processes import ProcessEngine
from curator_service.datasets.parts import RowsUnreadable, StoredRows
from curator_service.datasets.service import DatasetUnavailable
from curator_service.kinds.gram import kernel as gram
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.registry import KINDS
from curator_service.privacy import design
from curator_service.privacy.bases import tabulate
from curator_service.privacy.expressions import derive
from curator_service.privacy.lattice import to_request_lattice
from curator_service.privacy.row_maps import Ball
from curator_service.privacy.selection import Selection
from curator_service.privacy.selftest import SelfTestError
from curator_service.settings import Settings

ENGINES = {"one thread": (NumpyEngine, 1), "two threads": (NumpyEngine, 2), "four threads": (NumpyEngine, 4)}
ROWS = 1000


@pytest.fixture(scope="module", params=[*ENGINES, pytest.param("processes", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    make, workers = ENGINES.get(request.param, (ProcessEngine, 2))
    with closing(make(workers)) as made:
        yield made


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return special_rows(ROWS)


@pytest.fixture(scope="module")
def sums(table: dict[str, Any]) -> dict[str, list[int]]:
    """Return what the slow program says of every kernel."""
    return {case.name: sum_slowly(case.kernel, rows_of(table)) for case in KINDS.conformance}


def store_parts(folder: Path, table: Mapping[str, Any], cuts: list[int]) -> StoredRows:
    """Store rows in parts, the last with room for a hundred more."""
    folder.mkdir()
    parts, bounds = [], [0, *cuts, ROWS]
    for start, stop in pairwise(bounds):
        capacity = stop - start + (100 if stop == ROWS else 0)
        parts += store_rows(folder, {name: values[start:stop] for name, values in table.items()}, capacity).parts
    return StoredRows(folder, tuple(parts), ROWS + 100)


def test_an_engine_gives_the_sums_of_a_slow_program_under_any_cut(
    engine: Engine, tmp_path: Path, table: dict[str, Any], sums: dict[str, list[int]]
) -> None:
    for i, cuts in enumerate(([], [500], [1, 2, 3], [13, 350, 351, 750, 999], list(range(50, 1000, 50)))):
        rows = store_parts(tmp_path / str(i), table, cuts)
        for case in KINDS.conformance:
            assert engine.sum(case.kernel, rows).ravel().tolist() == sums[case.name], (case.name, cuts)


def test_an_engine_gives_the_same_sums_in_any_order(
    engine: Engine, tmp_path: Path, table: dict[str, Any], sums: dict[str, list[int]]
) -> None:
    order = np.random.default_rng(5).permutation(ROWS)
    rows = store_parts(tmp_path / "rows", {name: values[order] for name, values in table.items()}, [600])
    for case in KINDS.conformance:
        assert engine.sum(case.kernel, rows).ravel().tolist() == sums[case.name]


def test_an_engine_passes_the_check_of_a_start(engine: Engine, tmp_path: Path) -> None:
    check_engine(engine, KINDS.conformance, tmp_path)


def test_the_sums_that_are_known_are_those_of_the_slow_program(tmp_path: Path) -> None:
    kept = Path(curator_service.kinds.__path__[0])
    for kind in KINDS:
        (tmp_path / kind.name).mkdir()
    write_sums(tmp_path)
    for kind in KINDS:
        name = f"{kind.name}/conformance.json"
        assert json.loads((tmp_path / name).read_text()) == json.loads((kept / name).read_text()), "run sums_slowly.py"
        assert kind.conformance


def floored(stored: Any, out: Any = None, work: Any = None, **options: Any) -> Any:
    """Round half up, as nothing here does."""
    values = to_request_lattice(stored, out, work, **options)
    values[np.abs(stored) == 2**29] -= 1
    return values


def omit_nothing(columns: Any, asked: Any, count: int, counted: Any, out: Any) -> Any:
    return CODE_ROWS(columns, replace(asked, omitting=frozenset()), count, counted, out)


def count_damaged(tile: Any) -> Any:
    np.not_equal(tile[0][MARK], 0, out=tile[0][MARK], casting="unsafe")
    return tile


CODE_ROWS, TILES, TO_STORED = design.code_rows, StoredRows.tiles, conformance.to_stored
FLAWS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "ties of rounding": (design, "to_request_lattice", floored),
    "missing values": (gram, "code_rows", omit_nothing),
    "raw values": (conformance, "to_stored", lambda values, *bounds: TO_STORED(values + 2.0**-40, *bounds)),
    "bases": (design, "tabulate", lambda *given: tabulate(*given) - 1),
    "derived columns": (derive, "to_stored", lambda values, *bounds: TO_STORED(values + 2.0**-20, *bounds)),
    "conditions": (Selection, "select", lambda _self, _stored, counted: counted),
    "weights": (Selection, "weigh", lambda *_: None),
    "row maps": (Ball, "apply", lambda _self, rows, _design, _out=None: rows),
    "marks": (StoredRows, "tiles", lambda *given: map(count_damaged, TILES(*given))),
    "partial sums": (numpy_engine, "iadd", lambda _total, part: part),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_the_check_of_a_start_finds_a_flaw_in(flaw: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(*FLAWS[flaw])
    with pytest.raises(SelfTestError, match=r"the engine 'numpy' does not give the sums that are known \(\w+, .*\)\."):
        check_engine(NumpyEngine(2), KINDS.conformance, tmp_path)


def test_the_service_does_not_start_on_an_engine_that_sums_wrongly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = NumpyEngine.sum
    monkeypatch.setattr(NumpyEngine, "sum", lambda *given: right(*given) + 1)
    app = create_app(Settings(data_dir=tmp_path))

    async def start() -> None:
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(SelfTestError, match=r"the engine 'numpy' .* Nothing is released"):
        asyncio.run(start())
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == [".lock"]


@given(st.integers(1, 10_000), st.integers(1, 40))
def test_ranges_hold_each_row_once(capacity: int, count: int) -> None:
    ranges = cut_rows(capacity, count)
    assert len(ranges) <= count
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(capacity))


@pytest.mark.parametrize(("name", "made"), [("numpy", NumpyEngine), ("processes", ProcessEngine)])
def test_a_setting_names_the_engine(name: Any, made: type[Engine]) -> None:
    assert type(make_engine(Settings(engine=name, engine_workers=3))) is made
    assert made.name == name


class Fatal(GramKernel):
    """A kernel that ends the process that runs it, unless it is the first one."""

    def map(self, stored: Any, counted: Any, out: Any) -> None:
        if parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        super().map(stored, counted, out)


@pytest.mark.slow
def test_a_curator_with_worker_processes_gives_the_same_sums_and_says_when_it_cannot(world: World) -> None:
    """A killed worker fails its pass and no other."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    columns = (dataset.manifest.by_name["age"], dataset.manifest.by_name["sex"])
    kernel = GramKernel(design.make_design(columns, (), intercept=True), Ball.of_norm(1.1))
    settings = world.settings.model_copy(update={"engine": "processes", "engine_workers": 1})
    with closing(make_curator(settings, now=world.clock)) as curator:
        curator.check_engine()
        expected = world.curator.datasets.sum_rows(dataset, kernel).values
        assert np.array_equal(curator.datasets.sum_rows(dataset, kernel).values, expected)
        with pytest.raises(DatasetUnavailable, match="Nothing was charged") as caught:
            curator.datasets.sum_rows(dataset, Fatal(kernel.design, kernel.row_map))
        assert isinstance(caught.value.__cause__ or caught.value.__context__, RowsUnreadable)
        assert np.array_equal(curator.datasets.sum_rows(dataset, kernel).values, expected)


def test_rows_that_cannot_be_read_are_told_from_any_engine(engine: Engine, tmp_path: Path, table: Any) -> None:
    rows = store_parts(tmp_path / "rows", table, [700])
    os.truncate(rows.parts[1].rows_path(rows.folder), 100)
    with pytest.raises(RowsUnreadable):
        engine.sum(KINDS.conformance[0].kernel, rows)


PROGRAM = """
import sys, tempfile
from multiprocessing import active_children
from pathlib import Path

if __name__ == "__main__":
    from curator_service.datasets.engines.conformance import check_engine
    from curator_service.datasets.engines.processes import ProcessEngine
    from curator_service.kinds.registry import KINDS

    engines = [ProcessEngine(1), ProcessEngine(1)]
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            check_engine(engine, KINDS.conformance[:1], Path(folder))
        print(*(process.pid for process in active_children()), flush=True)
    sys.stdin.readline()
    engines[0].close()
    print("closed", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
def test_worker_processes_end_with_their_engine_and_with_the_service_however_it_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        (first,) = map(int, service.stdout.readline().split())
        (second,) = {int(word) for word in service.stdout.readline().split()} - {first}
        assert is_alive(first)
        service.stdin.write("\n")
        service.stdin.flush()
        assert service.stdout.readline() == "closed\n"
        assert not is_alive(first)
        assert is_alive(second)
        service.kill()
    deadline = time.monotonic() + 30
    while is_alive(second):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    """Return whether a process runs: one that has ended may wait for somebody to ask how."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False
