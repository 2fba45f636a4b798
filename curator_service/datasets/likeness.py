"""Whether rows are those of people who have a budget already: keyed digests and sealed sketches in the database.

Secrets are derived from the curator's private keys. Digests and seals are under the newest key, so older ones stay
needed. Sketches are comparable for good: their tokens are under a secret of the first key, and they are encrypted.

Digests are compared exactly. Sketches are compared with noise, by the sparse vector technique [1]_ for one refusal: a
threshold with noise of its own, which stays until something is refused, and fresh noise for each comparison. So all
comparisons of sketches up to a refusal, and the refusal, are together ε-differentially private for every person of the
rows on either side (`REFUSAL_EPSILON`).

References
----------
.. [1] M. Lyu, D. Su, N. Li, "Understanding the Sparse Vector Technique for Differential Privacy", VLDB 2017.
"""

import base64
import binascii
import hmac
import math
import os
from collections.abc import Collection
from contextlib import suppress
from fractions import Fraction

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from curator_service.datasets import repository
from curator_service.datasets.repository import SealedSketch, Version
from curator_service.datasets.sketch import Sketch, Sketcher
from curator_service.datasets.snapshot import Snapshot
from curator_service.kit.db import Connection
from curator_service.ledger.chain.signing import KeyRing, SigningError
from curator_service.privacy.samplers import Distribution, NoiseSource, SystemNoise

_NONCE_BYTES = 12
Compared = dict[SealedSketch, float]
"""By how much rows have more in common with each stored sketch than chance explains, without noise."""
REFUSAL_EPSILON = Fraction(1)
"""What one refusal, and all that was accepted since the one before, tell at most of a person who is there or not."""
_UNIT = 2**10
"""Steps in which an excess is counted."""
_MOVE = _UNIT + 1
"""How far one person moves a counted excess: by 1, and by a step for rounding."""
EXCESS = 15
"""The excess from which on rows are taken for those of the same people, before noise."""
THRESHOLD_SCALE = math.ceil(_MOVE / (REFUSAL_EPSILON * Fraction(2, 5)))
QUERY_SCALE = math.ceil(2 * _MOVE / (REFUSAL_EPSILON * Fraction(3, 5)))
"""Scales of discrete Laplace noise: two fifths of ε are the threshold's, three fifths the comparisons'."""


class LikenessService:
    """Recognises rows that are registered under another population.

    Parameters
    ----------
    keys : KeyRing
    noise : NoiseSource, optional
        A test double; there is no setting for it.
    """

    def __init__(self, keys: KeyRing, noise: NoiseSource | None = None) -> None:
        self.keys = keys
        self.noise = SystemNoise() if noise is None else noise

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
        key_id = self._key_ids()[-1]
        repository.insert_sketch(connection, about, key_id, self._seal(key_id, about, sketch))

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

    def find_owner(
        self,
        connection: Connection,
        population: str,
        snapshot: Snapshot,
        *,
        refusals: bytes,
        others: Collection[str] = (),
        compared: Compared | None = None,
    ) -> str | None:
        """Return another population that has these rows, or nearly; None if none is found.

        Parameters
        ----------
        connection : Connection
        population : str
            Of the rows.
        snapshot : Snapshot
        refusals : bytes
            What all refusals so far are, in short: with each the threshold changes.
        others : collection of str
            Populations of other people, as is known: nothing is compared with theirs.
        compared : dict, optional
            What `compare` found of these rows: only what was stored since is compared.

        Raises
        ------
        SigningError
            If a dataset of another population cannot be compared: its key is not here, or its sketch is not there.
        """
        for key_id in repository.list_keys_of_snapshots(connection):
            for digest in (snapshot.source_digest, snapshot.values_digest):
                for owner in repository.list_owners(connection, self.key_digest(key_id, digest)):
                    if owner != population and owner not in others:
                        return owner
        excess: dict[str, float] = {}
        compared = {} if compared is None else compared
        for stored in self.compare(connection, population, snapshot, others=others, compared=compared):
            found = compared[stored]
            excess[stored.population] = max(found, excess.get(stored.population, found))
        return next((owner for owner in sorted(excess) if self._exceeds(excess[owner], refusals)), None)

    def compare(
        self,
        connection: Connection,
        population: str,
        snapshot: Snapshot,
        *,
        others: Collection[str] = (),
        compared: Compared,
    ) -> list[SealedSketch]:
        """Compare rows with each sketch of other populations that they were not compared with; return all of these.

        It takes some milliseconds for each, and is done before others have to wait. What is found is for `find_owner`
        alone, which adds noise.

        Raises
        ------
        SigningError
            As for `find_owner`.
        """
        of_others = [
            stored
            for stored in repository.list_sketches(connection)
            if stored.population != population and stored.population not in others
        ]
        for stored in of_others:
            if stored not in compared:
                compared[stored] = self._open(connection, stored).find_excess(snapshot.sketch)
        return of_others

    def is_known(self, connection: Connection, dataset_id: str, snapshot: Snapshot, *, refusals: bytes) -> bool:
        """Tell whether rows are those of a dataset, or nearly; `refusals` as for `find_owner`."""
        excess = [
            self._open(connection, stored).find_excess(snapshot.sketch)
            for stored in repository.list_sketches(connection)
            if stored.dataset_id == dataset_id and stored.key_id
        ]
        return bool(excess) and self._exceeds(max(excess), refusals)

    def label(self, manifest_digest: str, snapshot: Snapshot, owner: str) -> str:
        """Return what two admins agree on: that these very rows, under this very manifest, are not the owner's."""
        return self.key_digest(self._key_ids()[0], f"{manifest_digest} {snapshot.lattice_digest} {owner}")[:60]

    def key_digest(self, key_id: str, digest: str) -> str:
        """Return a digest under the secret of a key: HMAC-SHA256, in hexadecimal."""
        return hmac.new(self._secret(key_id, "digest"), digest.encode(), "sha256").hexdigest()

    def _exceeds(self, excess: float, refusals: bytes) -> bool:
        (noise,) = np.asarray(self.noise.sample(Distribution.DISCRETE_LAPLACE, [QUERY_SCALE]))
        return round(excess * _UNIT) + int(noise) >= EXCESS * _UNIT + self._draw_threshold(refusals)

    def _draw_threshold(self, refusals: bytes) -> int:
        """Return the threshold's noise: the same until something is refused, as whoever is told of it must not see."""
        secret = self.keys.secret(self._key_ids()[0], "threshold")
        return _draw_geometric(secret, b"+" + refusals) - _draw_geometric(secret, b"-" + refusals)

    def _seal(self, key_id: str, about: Version, sketch: Sketch) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        cipher = AESGCM(self.keys.secret(key_id, "seal"))
        sealed = nonce + cipher.encrypt(nonce, sketch.to_bytes(), f"{about.dataset_id} {about.population}".encode())
        return base64.b64encode(sealed).decode()

    def _open(self, connection: Connection, stored: SealedSketch) -> Sketch:
        if not stored.key_id:
            raise SigningError(
                f"the dataset {stored.dataset_id} has no sketch to compare with: its rows were not there when the "
                "curator started; bring them back, and start it again"
            )
        try:
            sealed = base64.b64decode(repository.read_sealed(connection, stored), validate=True)
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


def _draw_geometric(secret: bytes, label: bytes) -> int:
    """Return k with a weight of exp(−k/t): the difference of two is discrete Laplace noise of scale t.

    A float's error moves a bound between two numbers by 10⁻¹² of their weight, which adds as little to δ.
    """
    drawn = int.from_bytes(hmac.digest(secret, label, "sha256")) + 1
    return math.floor(THRESHOLD_SCALE * (256 * math.log(2) - math.log(drawn)))
