"""The digest of the audited code, and whether docs/audit.md still is about it.

    python -m audit.digest

exits with 0 if the page's digest is that of the code, and with 1 if an audit is due.
"""

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/audit.md"
AUDITED = (
    "audit",
    "curator_service/datasets/engines",
    "curator_service/datasets/snapshot.py",
    "curator_service/datasets/sources",
    "curator_service/ledger/accounts/unit_of_work.py",
    "curator_service/ledger/repository.py",
    "curator_service/ledger/accounts/reservations.py",
    "curator_service/ledger/service.py",
    "curator_service/ledger/trust/guard.py",
    "curator_service/kinds",
    "curator_service/privacy",
    "curator_service/releases",
)
"""Folders, with every Python file below them, and files."""

_LINE = re.compile(r"^Digest of the audited code \(SHA-256\): `([0-9a-f]{64})`$", re.MULTILINE)


def audited_files(root: Path = ROOT) -> list[str]:
    """Return the audited files by path, in order."""
    found = set()
    for name in AUDITED:
        path = root / name
        found |= {path} if path.is_file() else set(path.rglob("*.py"))
    return sorted(path.relative_to(root).as_posix() for path in found)


def code_digest(root: Path = ROOT) -> str:
    """Hash paths and contents, each after its length: no two trees share a text."""
    digest = hashlib.sha256()
    for name in audited_files(root):
        for content in (name.encode(), (root / name).read_bytes()):
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def digest_line(digest: str) -> str:
    """Return the page's line about a digest."""
    return f"Digest of the audited code (SHA-256): `{digest}`"


def is_current(root: Path = ROOT) -> bool:
    """Tell whether the page is about this code."""
    page = root / PAGE
    stated = _LINE.findall(page.read_text(encoding="utf-8")) if page.is_file() else []
    return stated == [code_digest(root)]


if __name__ == "__main__":
    sys.exit(0 if is_current() else 1)
