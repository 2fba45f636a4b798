"""Spans, where somebody wants them: of an allow-list, and nothing that another one puts into a process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import BrokenNoise, body, open_world, problem

from curator_service.api.traces import ATTRIBUTES, Tracer, make_tracer
from curator_service.kit.logs import FIELDS
from curator_service.settings import Settings

CANARY = "canary-4711"
RELEASES = "/v1/datasets/cohort/releases"
PARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

pytest.importorskip("opentelemetry.sdk", reason="traces are NOT tested: pip install 'dp-curator[traces]'")


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Receive what is exported; yield an address, and the bodies."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            received.append(str(self.headers).encode() + content)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Kept:
    """An exporter that keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def export(self, spans: Any) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, _timeout_ms: int = 0) -> bool:
        return True


def recorded(**changes: Any) -> Any:
    """Return the span of one request."""
    kept = Kept()
    tracer = Tracer(kept)  # type: ignore[arg-type]
    fields = {
        "method": "POST",
        "route": "/v1/keys",
        "status": 200,
        "request": "req_1",
        "principal": CANARY,
        "row": CANARY,
    }
    tracer.record(fields | changes.pop("fields", {}), changes.get("traceparent"), 5_000_000_000, 1.5)
    tracer.close()
    (span,) = kept.spans
    return span


def test_nothing_is_traced_unless_an_address_is_set() -> None:
    assert make_tracer(None) is None
    assert Settings().traces_url is None


def test_a_span_has_the_fields_of_its_list_alone() -> None:
    span = recorded()
    told = json.loads(span.to_json())
    assert told["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/v1/keys",
        "http.response.status_code": 200,
        "curator.request_id": "req_1",
    }
    assert set(ATTRIBUTES) <= set(FIELDS)
    assert (told["name"], told["events"], told["links"]) == ("POST /v1/keys", [], [])
    assert (span.start_time, span.end_time) == (3_500_000_000, 5_000_000_000)
    assert CANARY not in span.to_json()


def test_the_environment_adds_nothing_to_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"):
        monkeypatch.setenv(name, f"a={CANARY}")
    assert set(json.loads(recorded().to_json())["resource"]["attributes"]) == {"service.name", "service.version"}


@pytest.mark.parametrize("sent", [None, "", CANARY, f"{PARENT}-{CANARY}", "00-" + "z" * 32 + "-" + "z" * 16 + "-01"])
def test_a_parent_that_is_no_pair_of_ids_counts_for_nothing(sent: str | None) -> None:
    assert recorded(traceparent=sent).parent is None


def test_a_span_hangs_below_that_of_its_caller() -> None:
    span = recorded(traceparent=PARENT)
    assert f"{span.parent.span_id:016x}" == "0123456789abcdef"
    assert not span.parent.trace_state


def test_no_row_token_or_exception_reaches_a_collector(tmp_path: Path) -> None:
    """The whole way: a server that fails with a text of a row, and every byte that it exports."""
    headers = {"tracestate": f"a={CANARY}", "baggage": f"a={CANARY}", "traceparent": PARENT}
    with collector() as (url, received), open_world(tmp_path, noise=BrokenNoise(CANARY), traces_url=url) as world:
        api = world.api()
        asked = api.post(f"{RELEASES}?token={CANARY}", json=body(), key=CANARY, headers=headers)
        problem(asked, "internal-error", 500)
        api.get(f"/{CANARY}")
        observer = next(m.kwargs["observer"] for m in api.app.user_middleware if "observer" in m.kwargs)
        observer.close()
        tokens = [token.encode() for token in world.tokens.values()]
    sent = b"".join(received)
    assert b"/v1/datasets/{name}/releases" in sent
    assert asked.headers["x-request-id"].encode() in sent
    for secret in (CANARY.encode(), b"RuntimeError", b"Traceback", b"cohort", *tokens):
        assert secret not in sent


def test_a_collector_that_is_away_delays_nobody(tmp_path: Path) -> None:
    with open_world(tmp_path, traces_url="http://127.0.0.1:1/v1/traces") as world:
        api = world.api()
        assert api.get("/v1/keys").status_code == 200
        assert api.get("/readyz").status_code == 200


def test_traces_without_their_library_are_refused_by_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator_service.settings.find_spec", lambda _name: None)
    with pytest.raises(ValidationError, match="traces_url"):
        Settings(traces_url="http://127.0.0.1:4318/v1/traces")


OWN_TELEMETRY = """
import sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import BrokenNoise, body, open_world

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
with open_world(Path(sys.argv[1]), noise=BrokenNoise("a row")) as world:
    answer = world.api().post("/v1/datasets/cohort/releases", json=body(), key="k")
assert answer.status_code == 500, answer.text
print(len(kept.get_finished_spans()))
"""


def test_the_framework_s_own_telemetry_stays_off_whatever_is_configured(tmp_path: Path) -> None:
    """A process has one global provider, so this is one of its own."""
    command = [sys.executable, "-W", "ignore", "-c", OWN_TELEMETRY, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr
