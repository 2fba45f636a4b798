"""Checks of a receipt, and of the body that it belongs to. Each returns what is wrong, as texts for a person."""

import hashlib
from typing import Any

from analyst_client.error_base import ServiceError
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.keys import HASH_PATTERN, TrustedKeys, canonical
from analyst_client.schema.wire import parse_json

RECEIPT_FORMAT = 2
RECEIPT_MEMBER = ',"receipt":'
ENTRY_PREFIX = b"curator-ledger-entry:2\n"
OUTSIDE_HASH = frozenset({"entry_hash", "signature"})


def is_known(receipt: dict[str, Any]) -> bool:
    """Return whether this version can check receipts of this format."""
    number = receipt.get("format")
    return type(number) is int and number == RECEIPT_FORMAT


def check_entry(receipt: dict[str, Any]) -> list[str]:
    """Recompute the hash of the ledger entry."""
    if not holds_texts_and_integers(receipt):
        return ["the receipt holds something beside strings and integers: its canonical form is not defined"]
    entry = {name: value for name, value in receipt.items() if name not in OUTSIDE_HASH}
    expected = hashlib.sha256(ENTRY_PREFIX + canonical(entry)).hexdigest()
    return [] if receipt.get("entry_hash") == expected else ["entry_hash: the receipt was changed"]


def check_shape(receipt: dict[str, Any]) -> list[str]:
    """Check that the receipt names an entry, its link and its checkpoint."""
    try:
        Checkpoint.read(receipt)
    except ValueError as error:
        return [f"the receipt is no entry with a checkpoint: {error}"]
    previous = receipt.get("previous_hash")
    if not isinstance(previous, str) or not HASH_PATTERN.fullmatch(previous):
        return ["the receipt is no entry with a checkpoint: previous_hash is missing or malformed"]
    return []


def check_signature(receipt: dict[str, Any], keys: TrustedKeys) -> list[str]:
    """Check the signature on a receipt of valid shape and with a trusted key id."""
    checkpoint = Checkpoint.read(receipt)
    if checkpoint.is_signed_by(keys[checkpoint.key_id]):
        return []
    return [f"signature: it is not that of {checkpoint.key_id} on this entry and its account"]


def check_answer_digest(text: str, receipt: dict[str, Any]) -> list[str]:
    """Recompute the digest of the body without its receipt."""
    head, found, tail = text.rpartition(RECEIPT_MEMBER)
    # The text after the cut is outside the digest, so it must be the receipt and nothing else.
    try:
        closed = bool(found) and text.endswith("}") and parse_json(tail[:-1]) == receipt
    except ServiceError:
        closed = False
    if not closed:
        return ["answer_digest: the receipt is not the last member of the body, as the curator writes it"]
    body = (head + "}").encode("utf-8", errors="surrogatepass")
    expected = hashlib.sha256(body).hexdigest()
    return [] if receipt.get("answer_digest") == expected else ["answer_digest: the body was changed"]


def check_agreement(body: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    """Compare what body and receipt both state."""
    kind, cost = receipt.get("kind"), body.get("cost")
    if kind not in {"charge", "derive"}:
        return [f"kind: an entry of kind {kind!r} is the charge of no release"]
    pairs = {
        "release": (body.get("id"), receipt.get("release")),
        "dataset": (body.get("dataset"), receipt.get("dataset")),
        "cost": (cost.get("units") if isinstance(cost, dict) else None, receipt.get("units")),
        "source": (body.get("derived_from"), receipt.get("source")),
    }
    wrong = [f"{name}: the body states {a!r}, the receipt {b!r}" for name, (a, b) in pairs.items() if a != b]
    if kind == "derive" and receipt.get("units") != "0":
        wrong.append(f"cost: what is derived costs nothing, and the receipt states {receipt.get('units')!r}")
    return wrong


def holds_texts_and_integers(value: Any) -> bool:
    """Return True if a JSON value holds strings and integers alone: no fraction, exponent, truth value or null."""
    if isinstance(value, dict):
        return all(map(holds_texts_and_integers, value.values()))
    if isinstance(value, list):
        return all(map(holds_texts_and_integers, value))
    return type(value) in {str, int}
