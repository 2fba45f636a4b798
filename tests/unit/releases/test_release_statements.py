"""Statements whose meaning hangs on what an inner SELECT is about."""

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from curator_service.releases import repository


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
def test_whether_a_job_was_given_up_is_asked_of_the_key_that_is_claimed(dialect: sqlite.dialect) -> None:
    """Otherwise one job that ended would open every key, and two requests with one key would both be charged."""
    text = " ".join(str(repository._CLAIM_KEY._build(dialect).compile(dialect=dialect)).split())
    inner = text[text.index("EXISTS") :]
    assert "FROM reservations WHERE reservations.id = idempotency_keys.reservation_id" in inner
    assert "FROM reservations, idempotency_keys" not in inner
