"""Idempotency keys as they are used: each new one leaves something for good, so a day has only so many."""

from datetime import datetime, timedelta

from curator_service.kit.clock import Clock
from curator_service.kit.db import Connection
from curator_service.kit.problems import TooManyRequests
from curator_service.ledger.accounts import reservations
from curator_service.releases import repository


class KeyClaims:
    """Ties idempotency keys to answers and reservations, at most so many new keys for a principal and day.

    A reservation that is given back leaves two signed entries, a stored answer that is read under a new key a row, and
    neither costs anything. All of it begins with a new key.

    Parameters
    ----------
    per_day : int
        New keys of one principal on one day, in UTC.
    now : callable
        The clock, for when to ask again.
    """

    def __init__(self, per_day: int, now: Clock) -> None:
        self.per_day = per_day
        self.now = now

    def claim(
        self,
        connection: Connection,
        principal_id: str,
        key: str,
        fingerprint: str,
        *,
        release_id: str | None = None,
        reservation_id: str | None = None,
    ) -> bool:
        """Claim a key as `repository.claim_key` does, and count it; the account is locked afterwards.

        Whoever has a reservation may use twice as many keys, so that a plan that has begun can go on.

        Parameters
        ----------
        connection : Connection
            Inside `Database.begin`.

        Raises
        ------
        TooManyRequests
            If the principal has used as many new keys today as may be.
        """
        claimed = repository.claim_key(
            connection, principal_id, key, fingerprint, release_id=release_id, reservation_id=reservation_id
        )
        if not claimed:
            return False
        if repository.count_key(connection, principal_id, self.per_day):
            return True
        holds = any(not one.owner for one in reservations.list_held(connection, of=principal_id))
        if holds and repository.count_key(connection, principal_id, 2 * self.per_day):
            return True
        raise TooManyRequests(
            f"{self.per_day} new keys a day are what one principal may use, twice as many while a reservation is open, "
            "since each leaves something for good. Nothing was charged or reserved. Keys that were used before are "
            "answered as always. Send this request again tomorrow (UTC), or ask the operator to raise "
            "CURATOR_KEYS_PER_DAY.",
            retry_after_s=_seconds_left(self.now()),
        )


def _seconds_left(moment: datetime) -> int:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return int((midnight - moment).total_seconds()) + 1
