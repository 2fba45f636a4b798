"""Who acted, why and when: what entries say of it, against the tables that state the same.

A signature holds for whatever was signed with the key. A table is written in the transaction of its entry, so whoever
rewrites a chain has to rewrite the tables too. What no table states is listed in docs/ledger.md.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import bindparam, select

from curator_service.approvals.repository import Proposal, find_proposal
from curator_service.approvals.service import state_closed, state_proposed
from curator_service.datasets.repository import Dataset
from curator_service.identity.attestation import commitment
from curator_service.identity.repository import list_principals, list_tokens
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.accounts.reservations import find_reservation
from curator_service.ledger.chain.verification import PERMIT, PROPOSED, REGISTER
from curator_service.permits.repository import find_permit
from curator_service.releases.models import IdempotencyKeyRow

Stated = Mapping[str, Any]
_TERMS = ("project", "purpose", "legal_basis", "conditions")
_ASKED = Statement(
    select(IdempotencyKeyRow.key)
    .where(
        IdempotencyKeyRow.release_id == bindparam("release"), IdempotencyKeyRow.principal_id == bindparam("principal")
    )
    .limit(1)
)


class Acts:
    """Holds what entries say of acts against tables.

    Parameters
    ----------
    connection : Connection
        Of one consistent read.
    datasets : iterable of Dataset
    """

    def __init__(self, connection: Connection, datasets: Iterable[Dataset]) -> None:
        self._connection = connection
        self._datasets = {dataset.name: dataset for dataset in datasets}
        self._principals = {principal.id: principal for principal in list_principals(connection)}
        self._tokens = {token.id: token for token in list_tokens(connection)}
        self._versions: dict[str, int] = {}

    def list_faults(self, payload: Stated) -> list[str]:
        """Return the members of an entry that a table states otherwise."""
        try:
            stated = self._list_stated(payload)
        except (ValueError, KeyError, TypeError, AttributeError):
            return ["text"]
        return [name for name, value in stated.items() if payload.get(name) != value]

    def _list_stated(self, payload: Stated) -> dict[str, Any]:
        """Return what tables state of an entry's members; None of one that the entry must not have."""
        kind = payload["kind"]
        stated: dict[str, Any] = {}
        if "proposal" in payload:
            proposal = find_proposal(self._connection, payload["proposal"])
            stated |= {"proposal": None} if proposal is None else self._of_proposal(payload, proposal)
        match kind:
            case "dataset":
                stated |= self._of_dataset(payload)
            case "permit":
                stated |= self._of_permit(payload)
            case "reserve" | "void":
                stated |= self._of_reservation(payload)
            case "derive" if (
                _ASKED.first(self._connection, release=payload["release"], principal=payload["actor"]) is None
            ):
                stated |= {"actor": None}
            case "principal":
                known = self._principals.get(payload["principal"])
                stated |= {"name": None if known is None else known.name}
            case "token" if payload["token"] in self._tokens:
                stated |= self._of_token(payload)
        return stated

    def _of_proposal(self, payload: Stated, proposal: Proposal) -> dict[str, Any]:
        if payload["kind"] == PROPOSED:
            return state_proposed(proposal)
        if payload["population"] == REGISTER:
            return {"asked_by": proposal.proposed_by, **state_closed(proposal)}
        if payload["kind"] == "refusal":
            return {"time": proposal.proposed_at}  # whoever registers the rows need not be who proposes them
        own = ("actor", "approved_by", "reason", "time")
        by = proposal.decided_by or proposal.proposed_by
        found = dict(zip(own, (proposal.proposed_by, by, proposal.reason, proposal.decided_at), strict=True))
        if payload["kind"] == PERMIT:
            terms = json.loads(proposal.content)
            found |= {name: terms.get(name) or "" for name in _TERMS}
        return found

    def _of_dataset(self, payload: Stated) -> dict[str, Any]:
        dataset = self._datasets.get(payload["dataset"])
        if dataset is None:
            return {"dataset": None}
        found: dict[str, Any] = {"dataset_id": dataset.id, "manifest_digest": dataset.manifest_digest}
        if "ended" in payload:
            return found | {"ended": dataset.retired_at, "time": dataset.retired_at}
        version = self._versions[dataset.id] = self._versions.get(dataset.id, 0) + 1
        found["version"] = None if version == 1 else str(version)
        if version == 1:
            found["time"] = dataset.created_at
        elif version == dataset.version and dataset.cut_at:
            found["time"] = dataset.cut_at
        return found

    def _of_permit(self, payload: Stated) -> dict[str, Any]:
        permit = find_permit(self._connection, payload["permit"])
        if permit is None:
            return {"permit": None}
        population, stored = payload["population"], json.loads(permit.terms)
        found: dict[str, Any] = {
            "people": {who: self._principals[who].name for who in payload["people"] if who in self._principals},
            "datasets": {
                one.id: one.name for one in self._datasets.values()
                if one.id in payload["datasets"] and one.population == population
            },
        }  # fmt: skip
        before = self._versions.get(f"{permit.id} {population}", 0)
        self._versions[f"{permit.id} {population}"] = payload["version"]
        if not before < payload["version"] <= permit.version:
            found["version"] = permit.version
        if payload["version"] == 1:
            found["time"] = permit.granted_at
        if payload["version"] == permit.version:
            terms = json.loads(stored["terms"])
            found |= {name: terms.get(name) or "" for name in _TERMS}
            if population in stored["limits"]:  # else no dataset of it is left, and the limit of before stands
                found["permit_limit"] = stored["limits"][population]
            if permit.ended_at:
                found["time"] = permit.ended_at
            elif payload["people"]:
                found["people"] = stored["people"]
        return found

    def _of_reservation(self, payload: Stated) -> dict[str, Any]:
        reservation = find_reservation(self._connection, payload["reservation"])
        if reservation is None:
            return {"reservation": None}
        if payload["kind"] == "void":
            return {"holder": reservation.principal_id, "outcome": reservation.outcome}
        found = {"actor": reservation.principal_id, "time": reservation.created_at}
        return found | {"expires_at": reservation.expires_at or None}

    def _of_token(self, payload: Stated) -> dict[str, Any]:
        token = self._tokens[payload["token"]]
        found: dict[str, Any] = {
            "principal": token.principal.id,
            "holder": token.principal.name,
            "scopes": [str(name) for name in token.scopes.names],
            "commitment": commitment(token.id, token.secret_hash),
        }
        if not token.replaced_by:
            found["expires_at"] = token.expires_at
        if "reason" not in payload:  # else it was issued before there was a register
            found["time"] = token.created_at
        return found
