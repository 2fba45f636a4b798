"""A curator's answers, recorded once and played back, so that the notebook runs offline and says the same each time.

`Recorded` plays. `python docs/notebooks/recording.py` records anew: it starts a real server on the flchain cohort, as
the demo does, and asks what the notebook asks. New noise gives new numbers: run the notebook afterwards, and read it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
ANSWERS, RELEASE, KEY = (HERE / "recorded" / name for name in ("answers.json", "release.json", "curator-key.txt"))
REQUEST: dict[str, Any] = {"features": ["age", "sex", "creatinine", "lambda"], "target": "kappa", "delta": 1e-6}
KEPT_HEADERS = ("content-type", "curator-answer")


def describe(request: httpx.Request) -> dict[str, Any]:
    """Return what an answer depends on: no token, no idempotency key."""
    body = json.loads(request.content) if request.content else None
    return {"method": request.method, "path": request.url.path, "body": body}


class Recorded(httpx.BaseTransport):
    """Answer requests from a file. Of several answers to one request each is given in its turn, and the last again.

    Parameters
    ----------
    path : path-like
        What `Recorder` wrote.
    """

    def __init__(self, path: Path = ANSWERS) -> None:
        self.answers: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next answer to a request. Raise `httpx.ConnectError` for one that was never asked."""
        asked = describe(request)
        found = [answer for answer in self.answers if answer["request"] == asked]
        if not found:
            raise httpx.ConnectError("only what was recorded can be asked here", request=request)
        if len(found) > 1:
            self.answers.remove(found[0])
        return httpx.Response(found[0]["status"], headers=found[0]["headers"], text=found[0]["text"])


class Recorder(httpx.BaseTransport):
    """Pass requests on, and keep what was answered."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and keep its answer."""
        response = self.inner.handle_request(request)
        text = response.read().decode("utf-8")
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        self.answers.append(
            {"request": describe(request), "status": response.status_code, "headers": headers, "text": text}
        )
        return httpx.Response(response.status_code, headers=response.headers, content=text.encode())


def main() -> None:
    """Record a session with a real server."""
    sys.path.insert(0, str(HERE.parents[1] / "examples" / "flchain"))
    import demo  # noqa: PLC0415 -- needs the server; playing does not

    from analyst_client import BudgetExceededError, CuratorClient  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        demo.OUTPUT = Path(folder)
        demo.load_split().write_registered(demo.OUTPUT / "cohort.csv")
        hospital = demo.Hospital(demo.OUTPUT / "curator-data")
        budget = ("--adjacency", "add_remove", "--epsilon", "3", "--delta", "1e-6")
        hospital.run("populations", "create", "olmsted", *budget)
        hospital.run("datasets", "add", str(demo.HERE / "manifest.toml"), str(demo.OUTPUT / "cohort.csv"))
        token = json.loads(hospital.run("tokens", "create", "anna", "--role", "analyst", "--json"))["token"]
        hospital.run("grants", "add", "anna", "flchain")
        recorder = Recorder()
        with hospital.serve() as url, CuratorClient(url, token, memory=None, transport=recorder) as client:
            client.dataset("flchain")
            client.budget("flchain")
            client.quote("flchain", **REQUEST, epsilon=1.0)
            client.release("flchain", **REQUEST, epsilon=1.0).save(RELEASE)
            client.budget("flchain")
            try:
                client.release("flchain", **REQUEST, epsilon=5.0)
            except BudgetExceededError as refusal:
                print(refusal)
            client.release("flchain", **REQUEST, epsilon=0.1)
    listing = next(answer for answer in recorder.answers if answer["request"]["path"] == "/v1/keys")
    KEY.write_text(json.loads(listing["text"])["keys"][0]["public_key"] + "\n", encoding="utf-8")
    ANSWERS.write_text(json.dumps(recorder.answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
