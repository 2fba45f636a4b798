"""Record anew what `analyst_client.tutorial` plays back: a session with a real server on the flchain cohort.

``python docs/notebooks/recording.py`` starts the server as the demo does, and asks what the notebook asks. New noise
gives new numbers: run the notebook afterwards (``make notebooks``), and read it.
"""

import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from analyst_client import OLS, BudgetExceededError, CuratorClient, EstimationError, Release
from analyst_client.tutorial import ANSWERS, EXACT, HELD_OUT, KEY, RELEASE, REQUEST, describe

KEPT_HEADERS = ("content-type", "curator-answer")


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


def ask(client: CuratorClient, recorder: Recorder) -> Release:
    """Ask what the notebook asks; return the release that it keeps."""
    client.dataset("flchain")
    client.budget("flchain")
    client.quote("flchain", **REQUEST, epsilon=1.0)
    release = client.release("flchain", **REQUEST, epsilon=1.0)
    client.budget("flchain")
    try:
        client.release("flchain", **REQUEST, epsilon=5.0)
    except BudgetExceededError as refusal:
        print(refusal)
    # Fresh, because a request is answered from a stored release that is quieter.
    client.quote("flchain", **REQUEST, epsilon=0.1, fresh=True)
    while is_definite(client.release("flchain", **REQUEST, epsilon=0.1, fresh=True)):
        del recorder.answers[-1]  # the page shows what too small an ε may look like, as about every second draw does
    return release


def is_definite(release: Release) -> bool:
    """Tell whether least squares has a solution."""
    try:
        OLS().fit(release)
    except EstimationError:
        return False
    return True


def main() -> None:
    """Record a session with a real server, and what no analyst has: exact statistics, and people held out."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "flchain"))
    import demo  # noqa: PLC0415 -- needs the server
    from cohort import FEATURES, TARGET  # noqa: PLC0415 -- lies beside it

    split = demo.load_split()
    with tempfile.TemporaryDirectory() as folder:
        demo.OUTPUT = Path(folder)
        split.write_registered(demo.OUTPUT / "cohort.csv")
        hospital = demo.Hospital(demo.OUTPUT / "curator-data")
        budget = ("--adjacency", "add_remove", "--epsilon", "3", "--delta", "1e-6")
        hospital.run("populations", "create", "olmsted", *budget)
        hospital.run("datasets", "add", str(demo.HERE / "manifest.toml"), str(demo.OUTPUT / "cohort.csv"))
        token = json.loads(hospital.run("tokens", "create", "anna", "--role", "analyst", "--json"))["token"]
        hospital.run("grants", "add", "anna", "flchain")
        recorder = Recorder()
        with hospital.serve() as url, CuratorClient(url, token, memory=None, transport=recorder) as client:
            release = ask(client, recorder)
    release.save(RELEASE)
    names = [*FEATURES, TARGET]
    registered = dict(zip(names, split.table(split.registered).T, strict=True))
    Release.from_public(registered, release).save(EXACT)
    with HELD_OUT.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *split.table(split.held_out)])
    listing = next(answer for answer in recorder.answers if answer["request"]["path"] == "/v1/keys")
    KEY.write_text(json.loads(listing["text"])["keys"][0]["public_key"] + "\n", encoding="utf-8")
    ANSWERS.write_text(json.dumps(recorder.answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
