"""Work that is done again and again: also after a failure, of which a log keeps no data, and not after its end."""

import threading

import pytest
from patience import scaled, wait_for

from curator_service.kit.periodic import Periodic


def test_a_failure_is_logged_without_its_data_and_the_next_run_comes(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def run() -> None:
        runs.append(len(runs))
        raise ValueError("a patient's value")

    work = Periodic("the work", run, 0.001)
    work.start()
    wait_for(lambda: len(runs) > 2, "it runs again")
    work.stop()
    assert "the work" in caplog.text
    assert "patient" not in caplog.text


def test_a_run_that_is_under_way_is_waited_for_and_none_follows() -> None:
    begun, go_on, runs = threading.Event(), threading.Event(), []

    def run() -> None:
        begun.set()
        go_on.wait(scaled(10))
        runs.append(1)

    work = Periodic("the work", run, 0.0)
    work.start()
    assert begun.wait(scaled(10))
    stopping = threading.Thread(target=work.stop)
    stopping.start()
    assert runs == []
    go_on.set()
    stopping.join(scaled(10))
    assert len(runs) == 1
