"""A pack of evidence: its files, their digests, and the folder or the archive that holds them.

The same evidence gives the same bytes: nothing of it comes from a clock, and archives are written without compression,
whose bytes differ between machines.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from curator_service.datasets.exports.processing import Holdings, render_record
from curator_service.evidence.check_page import render_check_page
from curator_service.evidence.crate import METADATA, render_crate
from curator_service.evidence.deployment import render_deployment
from curator_service.evidence.facts import Evidence, ReleaseFacts
from curator_service.evidence.service import EvidenceError
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.ledger.response_models import KeyModel

SUMS = "SHA256SUMS"
_PAGE, _KEYS, _RECORD, _DEPLOYMENT = "check.html", "keys.json", "processing-record.json", "dp-deployment.json"
_NAMES = {
    _PAGE: "The checker's page",
    _KEYS: "Public keys of the curator, each endorsed by the one before",
    _RECORD: "Of the record of processing activities (GDPR, Article 30) what these datasets are in",
    _DEPLOYMENT: "Draft of an entry in the registry of deployments of differential privacy",
    SUMS: "SHA-256 of every other file",
}
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest moment that an archive can state."""


def make_files(evidence: Evidence) -> dict[str, bytes]:
    """Return the files of a pack by their paths; the digests come last."""
    files: dict[str, bytes] = {_PAGE: render_check_page(evidence).encode()}
    names = {_PAGE: _NAMES[_PAGE]}

    def add(path: str, content: bytes, what: str) -> None:
        files[path], names[path] = content, what

    for release in evidence.releases:
        _add_release(evidence, release, add)
    for session in evidence.sessions:
        for path, entry in session.list_files(has_answers=evidence.has_answers).items():
            add(path, entry.receipt.text.encode(), "Entry of a threshold session, with hash and signature")
    for entry in () if evidence.permit is None else evidence.permit.entries:
        add(f"permit/{entry.file_name}", entry.receipt.text.encode(), "Entry of the permit, with hash and signature")
    made = {
        _KEYS: {"keys": [dict(KeyModel.of(key)) for key in evidence.keys]},
        _RECORD: _render_record(evidence),
        _DEPLOYMENT: render_deployment(evidence),
    }
    for path, content in made.items():
        add(path, _json(content), _NAMES[path])
    names[SUMS] = _NAMES[SUMS]
    files[METADATA] = _json(render_crate(evidence, names))
    files[SUMS] = "".join(f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files)).encode()
    return files


def _add_release(evidence: Evidence, release: ReleaseFacts, add: Callable[[str, bytes, str], None]) -> None:
    folder = f"releases/{release.id}/" if evidence.is_of_permit else ""
    receipt = "Entry of the ledger, with hash and signature"
    add(f"{folder}receipt.json", release.entry.receipt.text.encode(), receipt)
    if evidence.has_answers:
        add(f"{folder}answer.json", release.body, "The answer with its receipt, as it was sent")
    if release.source is not None and not evidence.is_of_permit:
        what = "Entry of the answer that this one was cut out of"
        add("source/receipt.json", release.source.receipt.text.encode(), what)


def _render_record(evidence: Evidence) -> dict[str, Any]:
    """Return the record's part about these datasets: recipients as the permit names them, and no places or readers."""
    terms = evidence.terms(None if evidence.is_of_permit else evidence.releases[0])
    people = {} if terms is None else terms.says["people"]
    principals = [Principal(who, name, frozenset({Role.ANALYST})) for who, name in sorted(people.items())]
    granted = [] if evidence.permit is None else [
        (person, dataset, evidence.permit.id)
        for entry in evidence.permit.entries
        for person in people.values()
        for dataset in entry.says["datasets"].values()
    ]  # fmt: skip
    record = render_record(
        Holdings(
            as_of=evidence.as_of,
            places={},
            populations=list(evidence.accounts.values()),
            datasets=evidence.datasets,
            principals=principals,
            grants=granted,
            identified=evidence.identified,
        )
    )
    if evidence.permit is None:
        for population in record["populations"]:
            for dataset in population["datasets"]:
                dataset["recipients"] = None  # as everywhere in the record: not known, rather than nobody
    return {name: part for name, part in record.items() if name not in {"places", "readers"}}


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def write_folder(files: dict[str, bytes], folder: Path) -> None:
    """Write a pack into a folder that is not there, or is empty.

    Raises
    ------
    EvidenceError
        If it holds something, or cannot be written: a file of another pack would be found to be changed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise EvidenceError(f"{folder}: the folder is not empty; name a new one")
        for path, content in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except OSError as error:
        raise EvidenceError(f"{folder}: cannot be written: {error.strerror}") from None


def make_archive(files: dict[str, bytes], name: str) -> bytes:
    """Return a pack as a ZIP archive with one folder."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as written:
        for path, content in files.items():
            member = zipfile.ZipInfo(f"{name}/{path}", _EPOCH)
            member.external_attr = 0o644 << 16
            written.writestr(member, content)
    return archive.getvalue()
