"""Work in a process of its own: it ends with its parent, within bounds, and tells nothing but JSON."""

import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import wait_for
from sqlalchemy import make_url

from curator_service.datasets.manifest import CsvOptions, Manifest
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.parquet import ParquetSource
from curator_service.datasets.sources.sql import CopySource, QuerySource
from curator_service.kit import apart
from curator_service.kit.apart import Bounds, WorkEnded, WorkRefused, work_apart

CANARY = "48151623"
BOUNDS = Bounds(2**28, 60)
Tell = Callable[[Any], None]


def fail(error: BaseException) -> Callable[[Tell], dict[str, Any]]:
    def work(_tell: Tell) -> dict[str, Any]:
        raise error

    return work


def is_running(process: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_what_is_told_arrives_in_order() -> None:
    heard: list[Any] = []

    def work(tell: Tell) -> dict[str, Any]:
        for i in range(3):
            tell([i, None])
        return {"pid": os.getpid()}

    assert work_apart(work, BOUNDS, KeyError, heard.append)["pid"] != os.getpid()
    assert heard == [[0, None], [1, None], [2, None]]


def test_a_process_has_its_bounds_and_keeps_no_core() -> None:
    def work(_tell: Tell) -> dict[str, Any]:
        names = ("RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_CORE")
        return {name: resource.getrlimit(getattr(resource, name)) for name in names} | {"data": apart._data_bytes()}

    found = work_apart(work, BOUNDS, KeyError)
    assert found["RLIMIT_CPU"][0] == 60
    assert found["RLIMIT_CORE"] == [0, 0]
    assert 0 <= found["RLIMIT_DATA"][0] - found["data"] + 2**25 <= 2**28 + 2**26
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_what_fails_is_told_without_data(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkRefused, match="for the operator"):
        work_apart(fail(KeyError("for the operator")), BOUNDS, KeyError)
    with pytest.raises(OSError, match="No space left") as full:
        work_apart(fail(OSError(errno.ENOSPC, CANARY, CANARY)), BOUNDS, KeyError)
    assert full.value.errno == errno.ENOSPC
    for error in (ValueError(CANARY), OSError(CANARY), SystemExit(CANARY), UnicodeError(CANARY)):
        with pytest.raises(WorkEnded, match=type(error).__name__) as ended:
            work_apart(fail(error), BOUNDS, KeyError)
        assert CANARY not in str(ended.value)
    with pytest.raises(WorkEnded, match="more memory than it may"):
        work_apart(lambda _tell: {"sum": float(np.ones(2**26).sum())}, BOUNDS, KeyError)

    def crash(_tell: Tell) -> dict[str, Any]:
        os.write(1, CANARY.encode())
        os.write(2, CANARY.encode())
        print(CANARY, flush=True)
        os.abort()

    with pytest.raises(WorkEnded, match="SIGABRT"):
        work_apart(crash, BOUNDS, KeyError)
    assert CANARY not in "".join(capfd.readouterr())


def test_an_answer_that_is_no_json_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart.json, "dumps", lambda _content: "{")
    with pytest.raises(WorkEnded, match="its process"):
        work_apart(lambda _tell: {}, BOUNDS, KeyError)


def test_too_much_processor_time_ends_the_work() -> None:
    def spin(_tell: Tell) -> dict[str, Any]:
        while True:
            pass

    with pytest.raises(WorkEnded, match="more processor time"):
        work_apart(spin, Bounds(2**28, 1), KeyError)


def test_a_process_ends_with_its_parent() -> None:
    script = """
import os, time
from curator_service.kit.apart import Bounds, work_apart
def work(tell):
    tell(os.getpid())
    time.sleep(3600)
work_apart(work, Bounds(2**28, 60), KeyError, lambda said: print(said, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not is_running(child), "the process has ended")


MANIFEST = Manifest.model_validate(
    {"name": "d", "population": "p", "row_capacity": 9, "columns": [{"name": "x", "type": "boolean"}]}
)


def test_a_reading_can_be_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no process is forked: everything that it needs is handed over, and nothing else differs."""
    query = (tmp_path / "q.sql", "SELECT 1", "hospital", make_url("sqlite://"))
    for source in (ParquetSource(tmp_path), CopySource(*query), QuerySource(*query)):
        assert pickle.loads(pickle.dumps(source)).label == source.label
    (tmp_path / "x.csv").write_text("x\ntrue\nfalse\n")
    made = []
    for forked in (True, False):
        monkeypatch.setattr(apart, "_IS_LINUX", forked)
        storage = Storage(tmp_path / f"forked {forked}")
        with storage.writing():
            source_of = CsvSource(tmp_path / "x.csv", CsvOptions())
            known = Pseudonymiser("key", bytes(32))
            made.append(storage.ingest("ds_x", MANIFEST, source_of, Sketcher(b"s"), pseudonymiser=known))
    one, other = made
    assert (one.values_digest, one.source_digest) == (other.values_digest, other.source_digest)
    assert one.sketch.to_bytes() == other.sketch.to_bytes()
