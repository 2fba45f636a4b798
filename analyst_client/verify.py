"""Check saved releases against the ledger entries that they carry, offline: the command ``curator-verify``.

`analyst_client.ledger.verification` says what this proves.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from analyst_client.error_base import ServiceError
from analyst_client.kinds.registry import find_wholes, read_saved
from analyst_client.ledger.keys import TrustedKeys
from analyst_client.ledger.verification import EXIT_CODES, Verification, compare, read_trusted_keys, verify_answer
from analyst_client.schema.wire import Fields, parse_json

CAVEAT = (
    "No signature was checked: `consistent` means that a file agrees with the entry that it carries, and nobody "
    "vouches for that entry. Give the curator's public key with --key."
)


def verify_text(text: str, keys: TrustedKeys | None = None) -> Verification:
    """Check the text of a saved release, or of a receipt alone.

    A part of a release is checked as the whole that it is cut out of, and it must be possible to cut it out. A changed
    one is checked as the release before, and its numbers must follow from that one by the stated changes. Of a release
    of several steps each answer is checked, and the first at fault is named.

    Parameters
    ----------
    text : str
        The exact text of the file.
    keys : mapping of str to bytes, optional
        The curator's public keys by their ids, from `read_trusted_keys`. None: the signature is not checked.

    Examples
    --------
    >>> verify_text('{"id": "local"}').verdict
    'unverifiable'
    """
    try:
        body = parse_json(text)
        wholes = find_wholes(Fields(body)) if isinstance(body, dict) else ()
        outcomes = [verify_text(whole, keys) for whole in wholes] or [verify_answer(text, keys)]
        outcome = next((one for one in outcomes if not one), outcomes[0])
        if not wholes or not outcome:
            return outcome
        read_saved(text)
    except ServiceError as error:
        return Verification("unverifiable", (str(error),))
    except ValueError as error:
        return replace(outcome, verdict="inconsistent", reasons=(f"it does not follow from its release: {error}",))
    return outcome


def verify_file(path: Path, keys: TrustedKeys | None = None) -> Verification:
    """Check one file; one that cannot be read is unverifiable."""
    try:
        return verify_text(path.read_bytes().decode("utf-8"), keys)
    except OSError as error:
        return Verification("unverifiable", (f"cannot be read: {error.strerror}",))
    except UnicodeDecodeError:
        return Verification("unverifiable", ("not text in UTF-8",))


def describe(path: str, outcome: Verification) -> str:
    """Return the verdict as lines for a person."""
    lines = [f"{path}: {outcome.verdict}", *(f"  {reason}" for reason in outcome.reasons)]
    if outcome.checked:
        lines.append(f"  found right: {', '.join(outcome.checked)}")
    if outcome.sequence is not None:
        place = f"population {outcome.population}, epoch {outcome.epoch}, sequence {outcome.sequence}"
        lines.append(f"  {place}, entry hash {outcome.entry_hash}, key {outcome.key_id}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `curator-verify`; return 0 when nothing is wrong, 1 when a file is, 2 when one cannot be checked."""
    parser = argparse.ArgumentParser(
        prog="curator-verify",
        description="Check saved releases or receipts offline: each against the ledger entry that it carries and "
        "against the curator's key, and all against each other.",
        epilog="Exit status: 0 all verified (or consistent, without --key), 1 one is inconsistent, 2 one could not be "
        "checked.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a saved release, or a receipt alone")
    parser.add_argument(
        "--key",
        action="append",
        metavar="KEY",
        help="the curator's public key in base64, its id, or a file with one of these or with the JSON of /v1/keys, "
        "whose endorsements lead from the keys that are stated (or from its first key, if none is) to later ones; "
        "may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array, an object for each file")
    options = parser.parse_args(arguments)
    try:
        keys = None if options.key is None else read_trusted_keys(options.key)
    except ValueError as error:
        parser.error(str(error))
    outcomes = list(zip(options.files, compare(verify_file(Path(name), keys) for name in options.files), strict=True))
    if options.json:
        lines = [json.dumps([{"file": name, **asdict(outcome)} for name, outcome in outcomes], indent=2)]
    else:
        lines = [*(describe(name, outcome) for name, outcome in outcomes), *([CAVEAT] if keys is None else [])]
    sys.stdout.write("\n".join(lines) + "\n")
    codes = {EXIT_CODES[outcome.verdict] for _, outcome in outcomes}
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
