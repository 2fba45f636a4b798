"""Work that is done again and again beside the requests."""

import threading
from collections.abc import Callable

from curator_service.kit.logs import log_without_data


class Periodic:
    """A thread that runs a function, waits, and runs it again; it does not keep the process from ending.

    Parameters
    ----------
    name : str
        Of the thread, and of what a log says where the function fails.
    every_s : float
        Between the end of a run and the begin of the next.
    """

    def __init__(self, name: str, run: Callable[[], object], every_s: float) -> None:
        self._name, self._run, self._every_s = name, run, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        """Begin with the first run."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Begin no other run, and wait a while for one that is under way."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        while True:
            try:
                self._run()
            except Exception as error:
                log_without_data(self._name, error)
            if self._stopping.wait(self._every_s):
                return
