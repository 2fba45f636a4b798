"""A permit that is asked for, as JSON."""

from typing import Any

from pydantic import BaseModel

from curator_service.approvals.terms import PermitTerms
from curator_service.kit.wire import STRICT, Name, Reason


class PermitRequest(PermitTerms):
    """A permit that is asked for, or a change of one."""

    model_config = STRICT

    reason: Reason


class RevocationRequest(BaseModel):
    """Take a dataset out of an analyst's permit without a project."""

    model_config = STRICT

    analyst: Name
    dataset: Name
    reason: Reason


REVOCATION_EXAMPLE = {"analyst": "ada", "dataset": "flchain", "reason": "ada has left the hospital"}
PERMIT_EXAMPLE: dict[str, Any] = {
    "project": "kidney-2027",
    "people": ["ada", "ben"],
    "datasets": ["flchain"],
    "purpose": "Which blood values foretell kidney disease",
    "legal_basis": "Art. 53(1)(e) Regulation (EU) 2025/327",
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "expires_at": "2027-12-31T23:59:59Z",
    "reason": "the study of protocol 2027-14",
}
