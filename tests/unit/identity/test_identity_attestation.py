"""Rows without a signature attest nothing: tables alone, without a register, let nobody act."""

from contextlib import AbstractContextManager

from curator_service.entries.base import Event
from curator_service.identity.attestation import ActsUnit, Attestation
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, Scopes, TokenRecord

ANALYST = frozenset({Role.ANALYST})
ADA = Principal("prn_ada", "ada", ANALYST)


class NoRegister:
    """Acts of a database that has no register, or lost it."""

    def unit(self) -> AbstractContextManager[ActsUnit]:
        raise AssertionError("nothing is written")

    def is_open(self) -> bool:
        return False

    def list_acts(self, after: int, /) -> tuple[int, list[Event]] | None:
        return None


def test_rows_without_a_register_let_nobody_act() -> None:
    attestation = Attestation(NoRegister())
    token = TokenRecord("token", ADA, "hash", "2026-03-01T12:00:00Z", "2036-03-01T12:00:00Z", Scopes(ANALYST))
    assert attestation.restrict(token, "2026-03-01T12:00:00Z") is None
    assert attestation.restrict_roles(ADA) == frozenset()
