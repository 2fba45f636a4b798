"""Check a saved release against the ledger entry that it carries, offline.

What this proves: the file is whole. Its body has the digest that its receipt states, and the receipt has the hash that
it states, so nobody changed one without the other. Receipts are not signed yet, so somebody who rewrites the body *and*
the receipt passes this check. Comparing `sequence` and `entry_hash` with the curator's ledger, read from the curator or
from an auditor, proves the rest: an entry of the ledger cannot be changed without changing every hash after it.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyst_client._wire import parse_json
from analyst_client.errors import ServiceError

RECEIPT_MEMBER = ',"receipt":'
ENTRY_PREFIX = b"curator-ledger-entry:1\n"
EXIT_CODES = {"consistent": 0, "inconsistent": 1, "unverifiable": 2}
CAVEAT = (
    "Receipts are not signed yet: `consistent` means that a file agrees with the ledger entry it carries. "
    "Compare sequence and entry hash with the curator's ledger to know that the entry is the curator's."
)


@dataclass(frozen=True)
class Verification:
    """Outcome of checking one release or receipt.

    Attributes
    ----------
    verdict : str
        ``"consistent"``, ``"inconsistent"`` or ``"unverifiable"`` (no receipt that this version can check).
    reasons : tuple of str
        What failed, or why nothing could be checked.
    checked : tuple of str
        What was recomputed and found right.
    population, sequence, entry_hash
        The ledger entry that the receipt names, to compare with the curator's ledger.
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    population: str | None = None
    sequence: int | None = None
    entry_hash: str | None = None

    def __bool__(self) -> bool:
        """Tell whether the verdict is ``"consistent"``."""
        return self.verdict == "consistent"


def verify_text(text: str) -> Verification:
    """Check the text of a release, or of a receipt alone.

    Parameters
    ----------
    text : str
        The exact text that the curator sent: its digest covers every character.

    Returns
    -------
    Verification

    Examples
    --------
    >>> verify_text('{"id": "local"}').verdict
    'unverifiable'
    """
    try:
        body = parse_json(text)
    except ServiceError as error:
        return Verification("unverifiable", (str(error),))
    if not isinstance(body, dict):
        return Verification("unverifiable", ("not a release: the file holds no JSON object",))
    alone = "receipt" not in body and "entry_hash" in body
    receipt = body if alone else body.get("receipt")
    if not isinstance(receipt, dict):
        return Verification("unverifiable", ("the release carries no receipt",))
    if receipt.get("format") != 1:
        return Verification("unverifiable", (f"receipts of format {receipt.get('format')!r} are unknown",))
    failed, checked = check_entry_hash(receipt), ["entry_hash"]
    if not alone:
        failed += check_answer_digest(text, receipt) + check_agreement(body, receipt)
        checked += ["answer_digest", "release, dataset and cost"]
    sequence = receipt.get("sequence")
    return Verification(
        "inconsistent" if failed else "consistent",
        tuple(failed),
        () if failed else tuple(checked),
        str(receipt.get("population")),
        sequence if isinstance(sequence, int) else None,
        str(receipt.get("entry_hash")),
    )


def check_entry_hash(receipt: dict[str, Any]) -> list[str]:
    """Recompute the hash of the ledger entry; return what is wrong."""
    entry = {name: value for name, value in receipt.items() if name != "entry_hash"}
    if holds_floats(entry):
        return ["the receipt holds a number that is not an integer: its canonical form is not defined"]
    canonical = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = hashlib.sha256(ENTRY_PREFIX + encode(canonical)).hexdigest()
    return [] if receipt.get("entry_hash") == expected else ["entry_hash: the receipt was changed"]


def check_answer_digest(text: str, receipt: dict[str, Any]) -> list[str]:
    """Recompute the digest of the body without its receipt; return what is wrong."""
    head, found, tail = text.rpartition(RECEIPT_MEMBER)
    # What follows the cut is outside the digest, so it must be the receipt and nothing else.
    try:
        closed = bool(found) and text.endswith("}") and parse_json(tail[:-1]) == receipt
    except ServiceError:
        closed = False
    if not closed:
        return ["answer_digest: the receipt is not the last member of the body, as the curator writes it"]
    expected = hashlib.sha256(encode(head + "}")).hexdigest()
    return [] if receipt.get("answer_digest") == expected else ["answer_digest: the body was changed"]


def check_agreement(body: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    """Compare what body and receipt both state; return what is wrong."""
    cost = body.get("cost")
    pairs = {
        "release": (body.get("id"), receipt.get("release")),
        "dataset": (body.get("dataset"), receipt.get("dataset")),
        "cost": (cost.get("units") if isinstance(cost, dict) else None, receipt.get("units")),
    }
    return [f"{name}: the body states {a!r}, the receipt {b!r}" for name, (a, b) in pairs.items() if a != b]


def holds_floats(value: Any) -> bool:
    """Tell whether a JSON value holds a number with a fraction or an exponent."""
    if isinstance(value, dict):
        return any(map(holds_floats, value.values()))
    if isinstance(value, list):
        return any(map(holds_floats, value))
    return isinstance(value, float)


def encode(text: str) -> bytes:
    """Encode as UTF-8; a lone surrogate, which UTF-8 cannot say, becomes bytes that match no digest."""
    return text.encode("utf-8", errors="surrogatepass")


def verify_file(path: Path) -> Verification:
    """Check one file; one that cannot be read is unverifiable."""
    try:
        return verify_text(path.read_bytes().decode("utf-8"))
    except OSError as error:
        return Verification("unverifiable", (f"cannot be read: {error.strerror}",))
    except UnicodeDecodeError:
        return Verification("unverifiable", ("not text in UTF-8",))


def describe(path: str, outcome: Verification) -> str:
    """Return the verdict as lines for a person."""
    lines = [f"{path}: {outcome.verdict}", *(f"  {reason}" for reason in outcome.reasons)]
    if outcome.checked:
        lines.append(f"  recomputed: {', '.join(outcome.checked)}")
    if outcome.sequence is not None:
        lines.append(f"  population {outcome.population}, sequence {outcome.sequence}, entry hash {outcome.entry_hash}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `curator-verify`; return 0 when all files are consistent, 1 when one is not, 2 when one cannot be checked."""
    parser = argparse.ArgumentParser(
        prog="curator-verify",
        description="Check saved releases or receipts offline, each against the ledger entry that it carries.",
        epilog=CAVEAT + " Exit status: 0 all consistent, 1 one is inconsistent, 2 one could not be checked.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a saved release, or a receipt alone")
    parser.add_argument("--json", action="store_true", help="print one JSON array, an object for each file")
    options = parser.parse_args(arguments)
    outcomes = [(name, verify_file(Path(name))) for name in options.files]
    if options.json:
        lines = [json.dumps([{"file": name, **asdict(outcome)} for name, outcome in outcomes], indent=2)]
    else:
        lines = [*(describe(name, outcome) for name, outcome in outcomes), CAVEAT]
    sys.stdout.write("\n".join(lines) + "\n")
    codes = {EXIT_CODES[outcome.verdict] for _, outcome in outcomes}
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
