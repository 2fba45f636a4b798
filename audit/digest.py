"""The digest of the audited code, and whether docs/audit.md still is about it.

    python -m audit.digest

exits with 0 if the page's digest is that of the code, and with 1 if an audit is due.
"""

import hashlib
import re
import sys
from pathlib import Path

from audit.code import read_code
from audit.core import ROOT, files_below, guaranteeing, read_core

PAGE = "docs/audit.md"

_LINE = re.compile(r"^Digest of the audited code \(SHA-256\): `([0-9a-f]{64})`$", re.MULTILINE)


def audited_files(root: Path = ROOT) -> list[str]:
    """Return the files of the audit itself and of the trusted core, by path and in order.

    Raises
    ------
    MissingPathError
        If the page of the trusted core names a path that does not exist.
    """
    return sorted({*files_below("audit", root), *guaranteeing(read_core(root))})


def code_digest(root: Path = ROOT) -> str:
    """Hash paths and code, each after its length: no two trees share a text. Comments and docstrings are no code."""
    digest = hashlib.sha256()
    for name in audited_files(root):
        for content in (name.encode(), read_code((root / name).read_text(encoding="utf-8")).encode()):
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
