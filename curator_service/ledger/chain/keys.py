"""Queries of the signing keys and of the seal."""

from dataclasses import dataclass

from sqlalchemy import bindparam, literal, or_, select, update

from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.models import SEAL_ID, SealRow, SigningKeyRow


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key in base64, and its endorsement by the one before; the first has none."""

    key_id: str
    public_key: str
    created_at: str
    previous: str
    endorsement: str


_INSERT_KEY = InsertIfAbsent(SigningKeyRow)
_KEYS = Statement(
    select(
        SigningKeyRow.key_id,
        SigningKeyRow.public_key,
        SigningKeyRow.created_at,
        SigningKeyRow.previous,
        SigningKeyRow.endorsement,
    )
)
_FIND_SEAL = Statement(select(SealRow.reason, SealRow.sealed_at).where(SealRow.id == SEAL_ID))
_SET_SEAL = Statement(
    update(SealRow)
    .where(SealRow.id == SEAL_ID, or_(SealRow.reason == "", literal("") == bindparam("reason")))
    .values(reason=bindparam("reason"), sealed_at=bindparam("moment"))
)


def insert_key(connection: Connection, key: PublicKey) -> bool:
    """Insert a public key after the one before; False if that one is followed already."""
    inserted = _INSERT_KEY.changed(
        connection,
        key_id=key.key_id,
        public_key=key.public_key,
        created_at=key.created_at,
        previous=key.previous,
        endorsement=key.endorsement,
    )
    return inserted == 1


def list_keys(connection: Connection) -> list[PublicKey]:
    """Return every public key in the order in which each follows the one before; strays come last."""
    found = {key.previous: key for key in (PublicKey(*row) for row in _KEYS.all(connection))}
    ordered: list[PublicKey] = []
    while found:
        following = found.pop(ordered[-1].key_id if ordered else "", None)
        if following is None:
            return ordered + list(found.values())
        ordered.append(following)
    return ordered


def find_seal(connection: Connection) -> tuple[str, str]:
    """Return why and since when the curator is sealed: two empty texts while it is not."""
    row = _FIND_SEAL.first(connection)
    return ("the row of the seal is missing", "") if row is None else (row[0], row[1])


def set_seal(connection: Connection, reason: str, moment: str) -> bool:
    """Seal the curator, or lift the seal with an empty reason; the first reason stays. False if nothing changed."""
    return _SET_SEAL.changed(connection, reason=reason, moment=moment) == 1
