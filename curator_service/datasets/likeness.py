"""Whether rows are those of people who have a budget already: keyed digests and sealed sketches in the database.

Secrets are derived from the curator's private keys. Digests and seals are under the newest key, so older ones stay
needed. Sketches are comparable for good: their tokens are under a secret of the first key, and they are encrypted.
"""

import base64
import binascii
import hmac
import os
from collections.abc import Iterator
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from curator_service.datasets import repository
from curator_service.datasets.repository import SealedSketch, Version
from curator_service.datasets.sketch import Sketch, Sketcher
from curator_service.datasets.snapshot import Snapshot
from curator_service.kit.db import Connection
from curator_service.ledger.chain.signing import KeyRing, SigningError

_NONCE_BYTES = 12


class LikenessService:
    """Recognises rows that are registered under another population."""

    def __init__(self, keys: KeyRing) -> None:
        self.keys = keys

    def sketcher(self) -> Sketcher:
        """Return what sketches rows as they are read.

        Raises
        ------
        SigningError
            If the first private key is not here.
        """
        return Sketcher(self.keys.secret(self._key_ids()[0], "sketch"))

    def record(self, connection: Connection, about: Version, digests: list[str], sketch: Sketch) -> None:
        """Remember the digests and the sketch of a version of a dataset, under the newest key."""
        for digest in digests:
            self.record_digest(connection, digest, about.population, about.dataset_id)
        repository.insert_sketch(connection, self._seal(self._key_ids()[-1], about, sketch))

    def record_digest(self, connection: Connection, digest: str, population: str, dataset_id: str = "") -> None:
        """Remember whose a digest is, under the newest key."""
        key_id = self._key_ids()[-1]
        repository.claim_snapshot(connection, self.key_digest(key_id, digest), population, key_id, dataset_id)

    def forget(self, connection: Connection, dataset_id: str, digests: list[str]) -> None:
        """Delete the digests of a dataset's rows, and the sketches of those that it had until now.

        Parameters
        ----------
        connection : Connection
        dataset_id : str
        digests : list of str
            Those that earlier versions of this service noted under no dataset.
        """
        keyed = []
        for key_id in repository.list_keys_of_snapshots(connection):
            with suppress(SigningError):  # what is under a key that is not here was noted under the dataset, or stays
                keyed += [self.key_digest(key_id, digest) for digest in digests]
        repository.forget_snapshots(connection, dataset_id, keyed)
        repository.forget_sketches(connection, dataset_id)

    def find_owners(self, connection: Connection, population: str, snapshot: Snapshot) -> Iterator[str]:
        """Yield each other population that has these rows, or nearly; perhaps more than once.

        Nothing else is told, and the threshold has a secret part that depends on the very rows: so the answer does not
        tell whether one more person is among the registered rows.

        Raises
        ------
        SigningError
            If a dataset of another population cannot be compared: its key is not here, or its sketch is not there.
        """
        for key_id in repository.list_keys_of_snapshots(connection):
            for digest in (snapshot.source_digest, snapshot.values_digest):
                for owner in repository.list_owners(connection, self.key_digest(key_id, digest)):
                    if owner != population:
                        yield owner
        for stored in repository.list_sketches(connection):
            if stored.population != population and self._open(stored).is_like(
                snapshot.sketch, margin=self._margin(stored.dataset_id, snapshot)
            ):
                yield stored.population

    def is_known(self, connection: Connection, dataset_id: str, snapshot: Snapshot) -> bool:
        """Tell whether rows are those of a dataset, or nearly."""
        return any(
            stored.dataset_id == dataset_id
            and stored.sealed
            and self._open(stored).is_like(snapshot.sketch, margin=self._margin(dataset_id, snapshot))
            for stored in repository.list_sketches(connection)
        )

    def label(self, manifest_digest: str, snapshot: Snapshot, owner: str) -> str:
        """Return what two admins agree on: that these very rows, under this very manifest, are not the owner's."""
        return self.key_digest(self._key_ids()[0], f"{manifest_digest} {snapshot.lattice_digest} {owner}")[:60]

    def key_digest(self, key_id: str, digest: str) -> str:
        """Return a digest under the secret of a key: HMAC-SHA256, in hexadecimal."""
        return hmac.new(self._secret(key_id, "digest"), digest.encode(), "sha256").hexdigest()

    def _margin(self, dataset_id: str, snapshot: Snapshot) -> float:
        drawn = hmac.digest(
            self.keys.secret(self._key_ids()[0], "margin"), f"{dataset_id} {snapshot.lattice_digest}".encode(), "sha256"
        )
        return int.from_bytes(drawn[:4]) / 2**32

    def _seal(self, key_id: str, about: Version, sketch: Sketch) -> SealedSketch:
        nonce = os.urandom(_NONCE_BYTES)
        cipher = AESGCM(self.keys.secret(key_id, "seal"))
        sealed = nonce + cipher.encrypt(nonce, sketch.to_bytes(), f"{about.dataset_id} {about.population}".encode())
        return SealedSketch(
            about.dataset_id, about.version, about.population, key_id, base64.b64encode(sealed).decode()
        )

    def _open(self, stored: SealedSketch) -> Sketch:
        if not stored.sealed:
            raise SigningError(
                f"the dataset {stored.dataset_id} has no sketch to compare with: its rows were not there when the "
                "curator started; bring them back, and start it again"
            )
        try:
            sealed = base64.b64decode(stored.sealed, validate=True)
            cipher = AESGCM(self._secret(stored.key_id, "seal"))
            about = f"{stored.dataset_id} {stored.population}".encode()
            return Sketch.from_bytes(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about))
        except (InvalidTag, binascii.Error, ValueError) as error:
            if isinstance(error, SigningError):
                raise
            raise SigningError(f"the sketch of the dataset {stored.dataset_id} is not one of this curator's") from None

    def _secret(self, key_id: str, purpose: str) -> bytes:
        if key_id not in self._key_ids():
            raise SigningError(f"digests or sketches are under {key_id!r}, which is no key of this curator")
        return self.keys.secret(key_id, purpose)

    def _key_ids(self) -> list[str]:
        keys = self.keys.list_keys()
        if not keys:
            raise SigningError("the curator has no key yet")
        return [key.key_id for key in keys]
