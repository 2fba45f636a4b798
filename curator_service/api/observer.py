"""Records of a request after its answer has left: a line of the log, counters and an optional span."""

import logging
import time
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from curator_service.api.metrics import METHODS, OTHER, Metrics
from curator_service.api.traces import Tracer
from curator_service.kit.limiter import network_of
from curator_service.kit.logs import REQUESTS

log = logging.getLogger(REQUESTS)

NOTES = ("problem", "kind", "outcome", "principal")
"""What those who answer a request note of it, in the state of its scope; each from a closed set, or an id."""


class Observer:
    """Tells the operator of requests.

    Parameters
    ----------
    count : callable, optional
        Takes the route and the status of each answer.
    """

    def __init__(
        self, metrics: Metrics, tracer: Tracer | None = None, count: Callable[[str, int], None] | None = None
    ) -> None:
        self.metrics = metrics
        self.tracer = tracer
        self._count = count

    def end(self, scope: Scope, status: int, seconds: float) -> None:
        """Tell of a request that is over.

        Parameters
        ----------
        status : int
            0 where whoever asked has left before there was one.
        seconds : float
            That it took.
        """
        notes: dict[str, Any] = scope["state"]
        # As the interface declares it: what somebody asked for may be anything.
        route = getattr(scope.get("route"), "path_format", OTHER)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        fields = {
            "event": "request",
            "request": notes["instance"],
            "method": method,
            "route": route,
            "status": status,
            "duration_ms": round(1000 * seconds),
            "peer": peer_of(scope),
            **{name: notes[name] for name in NOTES if name in notes},
        }
        self.metrics.count_request(method, route, status, seconds)
        if self._count is not None:
            self._count(route, status)
        if "problem" in notes:
            self.metrics.count_refusal(notes["problem"])
        if "kind" in notes:
            self.metrics.count_release(notes["kind"], notes.get("outcome", "refused"))
        log.info("", extra=fields)
        if self.tracer is not None:
            self.tracer.record(fields, Headers(scope=scope).get("traceparent"), time.time_ns(), seconds)

    def close(self) -> None:
        """Send what is left."""
        if self.tracer is not None:
            self.tracer.close()


def peer_of(scope: Scope) -> str:
    """Return the address of whoever asks: the proxy's client, where a proxy is declared."""
    return network_of((scope.get("client") or ("",))[0])
