"""Spans for OpenTelemetry, an option: one for each request, made of an allow-list when its answer has left.

The framework's own telemetry stays off, and so does the API's global provider: a span that somebody else begins here
leads nowhere. So there is no exception in a span, no address with its query, no header, and nothing of a body.
"""

import logging
from typing import TYPE_CHECKING, Any

from curator_service import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

ATTRIBUTES = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "request": "curator.request_id",
}
"""What a span says, by the field of the log; besides its moments and the ids of its trace."""


class Tracer:
    """Sends spans to a collector, in batches, on a thread of its own."""

    def __init__(self, exporter: "SpanExporter") -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        # Said here, and not detected: a detector would look at the environment, the host and the command line.
        resource = Resource({"service.name": "curator", "service.version": __version__})
        self._provider = TracerProvider(sampling.ALWAYS_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("curator_service")

    def record(self, fields: dict[str, Any], traceparent: str | None, ended_ns: int, seconds: float) -> None:
        """Record a request that is over.

        Parameters
        ----------
        fields : dict
            Those of the log; what is not in `ATTRIBUTES` is dropped.
        traceparent : str, optional
            The header, so that a span hangs below the caller's; of ids in hexadecimal, or it counts for nothing.
            Its companions `tracestate` and `baggage` hold any text, and are not read.
        ended_ns : int
            Nanoseconds since 1970.
        seconds : float
            That it took.
        """
        from opentelemetry.context import Context  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent or ""}, Context())
        told = {name: fields[field] for field, name in ATTRIBUTES.items() if field in fields}
        span = self._tracer.start_span(
            f"{fields['method']} {fields['route']}",
            parent,
            SpanKind.SERVER,
            told,
            start_time=ended_ns - int(1e9 * seconds),
        )
        span.end(ended_ns)

    def close(self) -> None:
        """Send what is left, within the exporter's bounds."""
        self._provider.shutdown()


def make_tracer(url: str | None) -> Tracer | None:
    """Return what sends spans to an address over HTTP; None where none is set.

    Parameters
    ----------
    url : str, optional
        Such as ``http://collector:4318/v1/traces``.

    Returns
    -------
    Tracer or None
        None where nothing is to be traced.
    """
    if url is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 -- an extra

    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # a collector that is away is one line, not many
    return Tracer(OTLPSpanExporter(endpoint=url, timeout=5))
