"""From a question to an answer that somebody else can check: one human decision, and a minute of machine time.

An analyst's part, at her own desk, with the library alone. It looks at the price, which is free; asks for a permit,
and waits until a privacy officer has decided; buys one release, fits it, and fetches what a checker reads; and verifies
all of it against the curator's signature, offline.

    CURATOR_URL=https://curator.hospital.example CURATOR_TOKEN=… python study.py
"""

import argparse
import json
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analyst_client import AdaSSP, CuratorClient
from analyst_client.schema import Proposal
from analyst_client.verify import main as verify

DATASET, FEATURES, TARGET = "flchain", ["age", "sex", "kappa", "lambda"], "creatinine"
PRICE = {"epsilon": 1.0, "delta": 1e-6}
PERMIT = {
    "purpose": "How far free light chains go with kidney function",
    "legal_basis": "Art. 53(1)(e) Regulation (EU) 2025/327",
    "expires_at": "2099-12-31T23:59:59Z",
    "reason": "the study of protocol 14",
    "limit": PRICE,
}


class Times:
    """What took how long."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Time a step, and say that it begins."""
        print(f"{step} …", file=sys.stderr, flush=True)
        begun = time.monotonic()
        yield
        self.taken[step] = time.monotonic() - begun


def wait_for_decision(client: CuratorClient, asked: Proposal) -> None:
    """Wait until somebody has decided; end where the answer is no."""
    while (asked := client.proposal(asked)).state == "open":
        time.sleep(2)
    if asked.state not in ("approved", "applied"):
        raise SystemExit(f"The permit was {asked.state}: {asked.decision}")


def main() -> int:
    """Run the study; return what `curator-verify` does."""
    options = argparse.ArgumentParser(description="A study, from its question to a checked answer")
    options.add_argument("--project", default="kidney", help="its name in the ledger")
    options.add_argument("--person", default="ada", help="who may spend: the name that this token belongs to")
    options.add_argument("--out", type=Path, default=Path("study"), help="folder of what comes out of it")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    times = Times()
    with CuratorClient(os.environ["CURATOR_URL"], os.environ["CURATOR_TOKEN"]) as client:
        with times.of("ask"):
            quote = client.quote(DATASET, FEATURES, target=TARGET, **PRICE)
            asked = client.ask_permit(
                given.project, [DATASET], people=[given.person], idempotency_key=f"ask-{given.project}", **PERMIT
            )
            print(quote)
        with times.of("wait for a person"):
            wait_for_decision(client, asked)
        with times.of("buy"):
            key = f"buy-{given.project}"  # whenever this is run again, the same answer, paid once
            release = client.release(
                DATASET, FEATURES, target=TARGET, project=given.project, idempotency_key=key, **PRICE
            )
            release.save(given.out / "release.json")
        with times.of("fit"):
            print(AdaSSP().fit(release).summary())
        with times.of("fetch the evidence"):
            client.evidence(release.id, given.out / "evidence.zip")
    with times.of("verify"):
        with zipfile.ZipFile(given.out / "evidence.zip") as pack:
            pack.extractall(given.out)
            evidence = given.out / Path(pack.namelist()[0]).parts[0]
        signed = [evidence / "receipt.json", evidence / "answer.json", *sorted((evidence / "permit").glob("*.json"))]
        outcome = verify(["--key", str(evidence / "keys.json"), str(given.out / "release.json"), *map(str, signed)])
    waited = times.taken.pop("wait for a person")
    print(json.dumps({"machine_s": round(sum(times.taken.values()), 2), "person_s": round(waited, 2)}))
    return outcome


if __name__ == "__main__":
    sys.exit(main())
