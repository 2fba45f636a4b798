"""Actor, reason and time in entries, against the tables that state the same.

A signature holds for whatever was signed with the key. A table is written in the transaction of its entry, so whoever
rewrites a chain has to rewrite the tables too. What no table states is listed in docs/ledger.md.
"""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, select

from curator_service.approvals.entries import Closed, Proposed
from curator_service.approvals.repository import Proposal, find_proposal
from curator_service.approvals.service import state_closed, state_proposed
from curator_service.datasets.repository import Dataset
from curator_service.entries.amounts import Derive, Reserve, Void
from curator_service.entries.base import Entry, Event
from curator_service.entries.rows import Dataset as DatasetEntry
from curator_service.entries.rows import Refusal
from curator_service.entries.terms import Permit as PermitEntry
from curator_service.identity.attestation import commitment
from curator_service.identity.entries import PrincipalNamed, TokenIssued
from curator_service.identity.repository import list_principals, list_tokens
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.accounts.reservations import find_reservation
from curator_service.permits.repository import find_permit
from curator_service.releases.models import IdempotencyKeyRow

_TERMS = ("project", "purpose", "legal_basis", "conditions")
_ASKED = Statement(
    select(IdempotencyKeyRow.key)
    .where(
        IdempotencyKeyRow.release_id == bindparam("release"), IdempotencyKeyRow.principal_id == bindparam("principal")
    )
    .limit(1)
)


class TableStatements:
    """Holds what entries say of acts against tables.

    Parameters
    ----------
    connection : Connection
        Of one consistent read.
    """

    def __init__(self, connection: Connection, datasets: Iterable[Dataset]) -> None:
        self._connection = connection
        self._datasets = {dataset.name: dataset for dataset in datasets}
        self._principals = {principal.id: principal for principal in list_principals(connection)}
        self._tokens = {token.id: token for token in list_tokens(connection)}
        self._versions: dict[str, int] = {}

    def list_faults(self, entry: Entry[Event]) -> list[str]:
        """Return the members of an entry that a table states otherwise."""
        try:
            stated = self._list_stated(entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            return ["text"]
        return [name for name, value in stated.items() if getattr(entry.said, name, None) != value]

    def _list_stated(self, entry: Entry[Event]) -> dict[str, Any]:
        """Return what tables state of an entry's members; None of one that the entry must not have."""
        said = entry.said
        stated: dict[str, Any] = {}
        proposal_id = getattr(said, "proposal", None)
        if proposal_id is not None:
            proposal = find_proposal(self._connection, proposal_id)
            stated |= {"proposal": None} if proposal is None else _of_proposal(said, proposal)
        match said:
            case DatasetEntry():
                stated |= self._of_dataset(said)
            case PermitEntry():
                stated |= self._of_permit(entry.place.population, said)
            case Reserve() | Void():
                stated |= self._of_reservation(said)
            case Derive() if _ASKED.first(self._connection, release=said.release, principal=said.actor) is None:
                stated |= {"actor": None}
            case PrincipalNamed():
                known = self._principals.get(said.principal)
                stated |= {"name": None if known is None else known.name}
            case TokenIssued() if said.token in self._tokens:
                stated |= self._of_token(said)
        return stated

    def _of_dataset(self, said: DatasetEntry) -> dict[str, Any]:
        dataset = self._datasets.get(said.dataset)
        if dataset is None:
            return {"dataset": None}
        found: dict[str, Any] = {"dataset_id": dataset.id, "manifest_digest": dataset.manifest_digest}
        if said.ended is not None:
            return found | {"ended": dataset.retired_at, "time": dataset.retired_at}
        version = self._versions[dataset.id] = self._versions.get(dataset.id, 0) + 1
        found["version"] = None if version == 1 else str(version)
        if version == 1:
            found["time"] = dataset.created_at
        elif version == dataset.version and dataset.cut_at:
            found["time"] = dataset.cut_at
        return found

    def _of_permit(self, population: str, said: PermitEntry) -> dict[str, Any]:
        permit = find_permit(self._connection, said.permit)
        if permit is None:
            return {"permit": None}
        stored, known, own = json.loads(permit.terms), self._principals, self._datasets.values()
        found: dict[str, Any] = {
            "people": {who: known[who].name for who in said.people if who in known},
            "datasets": {one.id: one.name for one in own if one.id in said.datasets and one.population == population},
        }
        before = self._versions.get(f"{permit.id} {population}", 0)
        self._versions[f"{permit.id} {population}"] = said.version
        if not before < said.version <= permit.version:
            found["version"] = permit.version
        if said.version == 1:
            found["time"] = permit.granted_at
        if said.version == permit.version:
            terms = json.loads(stored["terms"])
            found |= {name: terms.get(name) or "" for name in _TERMS} | {"rules": terms.get("rules") or None}
            if population in stored["limits"]:  # else no dataset of it is left, and the limit of before stands
                found["permit_limit"] = stored["limits"][population]
            if permit.ended_at:
                found["time"] = permit.ended_at
            elif said.people:
                found["people"] = stored["people"]
        return found

    def _of_reservation(self, said: Reserve | Void) -> dict[str, Any]:
        reservation = find_reservation(self._connection, said.reservation)
        if reservation is None:
            return {"reservation": None}
        if isinstance(said, Void):
            return {"holder": reservation.principal_id, "outcome": reservation.outcome}
        found = {"actor": reservation.principal_id, "time": reservation.created_at}
        return found | {"expires_at": reservation.expires_at or None}

    def _of_token(self, said: TokenIssued) -> dict[str, Any]:
        token = self._tokens[said.token]
        found: dict[str, Any] = {
            "principal": token.principal.id,
            "holder": token.principal.name,
            "scopes": [str(name) for name in token.scopes.names],
            "commitment": commitment(token.id, token.secret_hash),
            "time": token.created_at,
        }
        if not token.replaced_by:
            found["expires_at"] = token.expires_at
        return found


def _of_proposal(said: Event, proposal: Proposal) -> dict[str, Any]:
    if isinstance(said, Proposed):
        return dict(state_proposed(proposal))
    if isinstance(said, Closed):
        return dict(state_closed(proposal, proposal.proposed_by))
    if isinstance(said, Refusal):
        return {"time": proposal.proposed_at}  # whoever registers the rows need not be who proposes them
    own = ("actor", "approved_by", "reason", "time")
    by = proposal.decided_by or proposal.proposed_by
    found = dict(zip(own, (proposal.proposed_by, by, proposal.reason, proposal.decided_at), strict=True))
    if isinstance(said, PermitEntry):
        terms = json.loads(proposal.content)
        found |= {name: terms.get(name) or "" for name in _TERMS} | {"rules": terms.get("rules") or None}
    return found
