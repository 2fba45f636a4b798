"""Verification of an answer against the ledger entry that it carries, and against the curator's key.

Without a key: the answer is whole. Its body has the digest that its receipt states, and the receipt has
the hash that it states, so nobody changed one without the other; but whoever rewrites both passes. With the curator's
public key: the curator signed this entry, and the account as it stood there. Several answers are also held against each
other: a curator that signed two entries for one place of its ledger, or two that do not follow from each other, is
caught by those who compare. That the entry still stands in the ledger today, only the ledger can tell.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, listing, quiet, untrusted
from analyst_client.error_base import ServiceError
from analyst_client.ledger.keys import CuratorKey, TrustedKeys, extend_trust, parse_key, read_listing
from analyst_client.ledger.receipts import (
    check_agreement,
    check_answer_digest,
    check_entry,
    check_shape,
    check_signature,
    is_known,
)
from analyst_client.schema.wire import parse_json

EXIT_CODES = {"verified": 0, "consistent": 0, "inconsistent": 1, "unverifiable": 2}


MEANINGS = {
    "verified": "signed by a given key",
    "consistent": "its parts fit together; no key was given, so nobody vouches for it",
    "inconsistent": "something is wrong",
    "unverifiable": "nothing could be decided",
}


@dataclass(frozen=True)
class Verification(Displayable):
    """Outcome of checking one release or receipt.

    Attributes
    ----------
    verdict : str
        ``"verified"`` (signed by a given key), ``"consistent"`` (no key was given, so nobody vouches for it),
        ``"inconsistent"`` or ``"unverifiable"`` (no receipt that this version, or no key that was given, can check).
    reasons : tuple of str
        Checks that failed, or reasons why nothing could be checked.
    checked : tuple of str
        Parts that were recomputed and found right.
    population, epoch, sequence, entry_hash, previous_hash
        The ledger entry that the receipt names, and the hash of the one before.
    key_id : str or None
        The key that the receipt says signed it.

    Examples
    --------
    >>> from analyst_client.tutorial import RELEASE, curator_key
    >>> from analyst_client import Release
    >>> verification = Release.load(RELEASE).verify(curator_key())
    >>> verification.verdict, verification.population
    ('verified', 'olmsted')
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    population: str | None = None
    epoch: int | None = None
    sequence: int | None = None
    entry_hash: str | None = None
    previous_hash: str | None = None
    key_id: str | None = None

    def __bool__(self) -> bool:
        """Return whether nothing was found to be wrong."""
        return EXIT_CODES[self.verdict] == 0

    def _view(self) -> View:
        return show_verification(self)


def verify_answer(text: str, keys: TrustedKeys | None = None) -> Verification:
    """Check the text of an answer, or of a receipt alone; see `analyst_client.verify.verify_text` for what was saved.

    Parameters
    ----------
    text : str
        The exact text that the curator sent: its digest covers every character.
    keys : mapping of str to bytes, optional
        The curator's public keys by their ids, from `read_trusted_keys`. None: the signature is not checked.

    Examples
    --------
    >>> verify_answer('{"id": "local"}').verdict
    'unverifiable'
    """
    try:
        body = parse_json(text)
        if not isinstance(body, dict):
            return Verification("unverifiable", ("not a release: the file holds no JSON object",))
        return verify_body(text, body, keys)
    except ServiceError as error:
        return Verification("unverifiable", (str(error),))
    except RecursionError:
        return Verification("unverifiable", ("not a release: it is nested too deeply",))


def verify_body(text: str, body: dict[str, Any], keys: TrustedKeys | None) -> Verification:
    """Check an object, given with its text."""
    alone = "receipt" not in body and "entry_hash" in body
    receipt = body if alone else body.get("receipt")
    if not isinstance(receipt, dict):
        return Verification("unverifiable", ("the release carries no receipt",))
    if not is_known(receipt):
        return Verification("unverifiable", (f"receipts of format {receipt.get('format')!r} are unknown",))
    malformed = check_shape(receipt)
    names = ("population", "epoch", "sequence", "entry_hash", "previous_hash", "key_id")
    place = {} if malformed else {name: receipt[name] for name in names}
    failed, checked = check_entry(receipt) + malformed, ["entry_hash"]
    if not alone:
        failed += check_answer_digest(text, receipt) + check_agreement(body, receipt)
        checked += ["answer_digest", "release, dataset and cost"]
    is_key_given = keys is not None and place.get("key_id") in keys
    if keys is not None and is_key_given and not failed:
        failed, checked = check_signature(receipt, keys), [*checked, "signature"]
    if failed:
        return Verification("inconsistent", tuple(failed), **place)
    if keys is None or is_key_given:
        return Verification("consistent" if keys is None else "verified", (), tuple(checked), **place)
    reason = f"signed by {place['key_id']}, which is not among the given keys and which none of them endorsed"
    return Verification("unverifiable", (reason,), tuple(checked), **place)


def compare(outcomes: Iterable[Verification]) -> tuple[Verification, ...]:
    """Hold outcomes against each other: those that contradict another become ``"inconsistent"``.

    Two entries of one population, epoch and sequence must be the same one, and an entry states the hash of the one
    before. Only what is right by itself is compared. Across epochs the entry before may be another one: what a curator
    wrote after the backup from which it was restored is lost.
    """
    found = list(outcomes)
    hashes: dict[tuple[object, object, object], set[str | None]] = {}
    for outcome in filter(None, found):
        hashes.setdefault((outcome.population, outcome.epoch, outcome.sequence), set()).add(outcome.entry_hash)
    for i, outcome in enumerate(found):
        if not outcome or outcome.sequence is None:
            continue
        reasons = []
        if len(hashes[outcome.population, outcome.epoch, outcome.sequence]) > 1:
            reasons.append("fork: another file has another entry at the same population, epoch and sequence")
        before = hashes.get((outcome.population, outcome.epoch, outcome.sequence - 1), {outcome.previous_hash})
        if before != {outcome.previous_hash}:
            reasons.append("fork: another file has another entry at the sequence before than this one states")
        if reasons:
            found[i] = replace(outcome, verdict="inconsistent", reasons=tuple(reasons))
    return tuple(found)


def read_trusted_keys(arguments: "Iterable[str | os.PathLike[str]]") -> dict[str, bytes]:
    """Read the keys to trust.

    Parameters
    ----------
    arguments : iterable of str or path-like
        Each a public key in base64, its id, or a file with one of these or with the JSON of ``GET /v1/keys``. A
        listing adds what follows by endorsement from the keys that were stated; if none was, from its own first key.

    Returns
    -------
    dict of str to bytes
        Public keys by their ids.

    Raises
    ------
    ValueError
        If an argument is none of these, or names a key that no listing holds.
    """
    stated: dict[str, bytes | None] = {}
    listed: list[CuratorKey] = []
    first: dict[str, bytes | None] = {}
    for argument in arguments:
        keys = read_key_argument(argument)
        if isinstance(keys, dict):
            stated |= keys
        else:
            listed += keys
            first[keys[0].key_id] = keys[0].public_key
    known = {key.key_id: key.public_key for key in listed}
    roots = {key_id: public_key or known.get(key_id) for key_id, public_key in (stated or first).items()}
    missing = [key_id for key_id, public_key in roots.items() if public_key is None]
    if missing:
        raise ValueError(f"{missing[0]} is an id alone: give the JSON of /v1/keys beside it")
    return extend_trust({key_id: key for key_id, key in roots.items() if key is not None}, listed)


def read_key_argument(argument: "str | os.PathLike[str]") -> dict[str, bytes | None] | tuple[CuratorKey, ...]:
    """Read one argument: a key by its id, or the keys of a listing. Raise `ValueError` when it is neither."""
    try:
        return dict([parse_key(str(argument))])
    except ValueError:
        pass
    try:
        text = Path(argument).read_bytes().decode("utf-8").strip()
        return read_listing(parse_json(text)) if text.startswith("{") else dict([parse_key(text)])
    except (OSError, ValueError, ServiceError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{argument} is no public key, and no file with one: {said}") from None


def show_verification(outcome: Verification) -> View:
    """Show the verdict."""
    stated: list[tuple[Inline, Inline]] = [("meaning", MEANINGS.get(outcome.verdict, ""))]
    if outcome.reasons:
        stated.append(("reasons", listing(outcome.reasons)))
    if outcome.checked:
        stated.append(("checked", ", ".join(outcome.checked)))
    if outcome.population is not None:
        place = quiet(f", epoch {outcome.epoch}, sequence {outcome.sequence}")
        stated.append(("entry", join(untrusted(outcome.population), place)))
    if outcome.entry_hash is not None:
        stated.append(("entry_hash", code(outcome.entry_hash)))
    if outcome.key_id is not None:
        stated.append(("key_id", code(outcome.key_id)))
    return (facts(join("Verification: ", outcome.verdict), stated),)
