"""Evidence packs, which are larger than other answers."""

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from analyst_client.errors import ServiceError
from analyst_client.http.transport import Transport
from analyst_client.ledger.files import replace_file

BYTES_MAX = 4 * 2**30


def save_evidence(
    transport: Transport, subject: str, path: str | os.PathLike[str], params: Mapping[str, str] | None = None
) -> None:
    """Save the evidence of the release or the permit at an address; raise `ServiceError` for what is no archive."""
    answered = transport.request("GET", f"{subject}/evidence", params=params, bytes_max=BYTES_MAX)
    if not zipfile.is_zipfile(io.BytesIO(answered.content)):
        raise ServiceError("malformed answer: not an archive", status=answered.status_code)
    replace_file(Path(path), answered.content)
