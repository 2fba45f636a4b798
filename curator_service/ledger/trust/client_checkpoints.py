"""Checkpoints that clients send back, in the header `Curator-Checkpoint`: what they saw of the ledger."""

import base64
import binascii
from collections import OrderedDict
from contextlib import suppress
from http import HTTPStatus

from pydantic_core import from_json

from curator_service.kit.problems import Problem
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint
from curator_service.ledger.trust.anchor import AnchorError
from curator_service.ledger.trust.contradictions import find_contradiction
from curator_service.ledger.trust.guard import SEEN_BY_CLIENT, Guard

KEPT_MAX = 10_000
"""Checkpoints that contradict the ledger which a process remembers; each was signed, and is of a lost history."""


class CheckpointInvalid(Problem):
    """A checkpoint that this curator never signed."""

    slug = "checkpoint-invalid"
    status = HTTPStatus.BAD_REQUEST
    title = "This checkpoint is not one of this curator's"


class ClientCheckpoints:
    """Holds the ledger against what clients saw of it.

    Parameters
    ----------
    guard : Guard
        Is told to seal the curator.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._kept: OrderedDict[Checkpoint, None] = OrderedDict()

    def receive(self, text: str | None, population: str) -> None:
        """Compare the ledger with a checkpoint that a client sends, and seal the curator if it is behind.

        Parameters
        ----------
        text : str or None
            The ``Curator-Checkpoint`` header: base64url of the checkpoint's canonical JSON.
        population : str
            The population that the request is about.

        Raises
        ------
        CheckpointInvalid
            If it is no checkpoint that this curator signed: nobody else can seal it.
        """
        if text is None:
            return
        guard, signed = self._guard, _read(text, population)
        seen = signed.checkpoint
        verifier = guard.keys.verifier(knowing=seen.key_id)
        if not verifier.holds(seen, signed.signature):
            raise CheckpointInvalid(
                "The checkpoint in `Curator-Checkpoint` is not signed by any key of this curator. Either it is of "
                "another curator, or its keys were replaced: compare `GET /v1/keys` with the key that you know."
            )
        with guard.database.read() as connection:
            fault = find_contradiction(connection, signed, verifier, guard.trust.holds)
        if not fault:
            guard.anchor.notice(seen)
            return
        guard.seal(f"{fault}, {SEEN_BY_CLIENT}")
        self._keep(signed)

    def _keep(self, signed: SignedCheckpoint) -> None:
        """Write evidence down once, however it was spelled and however often it is sent: a reconciliation reads it."""
        if signed.checkpoint in self._kept:
            return
        self._kept[signed.checkpoint] = None
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        with suppress(AnchorError):
            self._guard.anchor.keep(signed)


def _read(text: str, population: str) -> SignedCheckpoint:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        signed = SignedCheckpoint.read(from_json(raw))
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise CheckpointInvalid(
            "`Curator-Checkpoint` must be base64url of a checkpoint's canonical JSON, as budgets and receipts give it."
        ) from None
    if signed.checkpoint.population != population:
        raise CheckpointInvalid(
            f"The checkpoint is of the population {signed.checkpoint.population!r}, and the request of {population!r}."
        )
    return signed
