"""Proofs of rows that let somebody in: whoever may write tables, and has no private key, makes and changes none."""

import hashlib
import hmac
import json
from collections.abc import Sequence

from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.problems import Unavailable
from curator_service.ledger.chain.signing import KeyRing, SigningError


class RowProofs:
    """Authenticates rows under a secret that is derived from the first of the private keys.

    Parameters
    ----------
    now : callable
        The clock.
    """

    def __init__(self, keys: KeyRing, now: Clock) -> None:
        self._keys, self._now = keys, now
        self._secret = b""

    def prove(self, table: str, said: Sequence[str]) -> str:
        """Return what proves a row.

        Parameters
        ----------
        table : str
            So that no row of one is taken for one of another.
        said : sequence of str
            Its members, in the table's order.

        Raises
        ------
        Unavailable
            If the private keys are not here.
        """
        if not self._secret:
            try:
                # A new curator makes its first key here; that it is the first one is checked there, too.
                first = next(iter(self._keys.signer(timestamp(self._now())).public_keys))
                self._secret = self._keys.secret(first, "session")
            except SigningError:
                raise Unavailable("The curator's private keys are not here, so nobody can sign in.") from None
        text = json.dumps([table, *said], ensure_ascii=True)
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def holds(self, table: str, said: Sequence[str], proof: str) -> bool:
        """Tell whether a proof belongs to a row.

        Raises
        ------
        Unavailable
        """
        return hmac.compare_digest(proof.encode(), self.prove(table, said).encode())
