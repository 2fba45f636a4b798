"""Recognition of people who have a budget already: keyed digests and sealed sketches in the database.

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

import hmac
import math
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from curator_service.datasets import repository
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.repository import PAD, SealedSketch, Version
from curator_service.datasets.sketch import NOBODY, Part, Sketch, Sketcher
from curator_service.datasets.snapshot import Snapshot, Storage
from curator_service.kit.db import Connection
from curator_service.kit.sealing import seal, unseal
from curator_service.ledger.chain.signing import KeyRing, SigningError
from curator_service.privacy.samplers import Distribution, NoiseSource, SystemNoise

_NONCE_CHARACTERS = 16
"""At the beginning of a sealed text: its nonce, which no other one has."""
Compared = dict[tuple[str, int, str], float]
"""By how much rows have more in common with each sketch than chance explains, by its dataset, version and nonce."""
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
_DIGESTS = 32
"""A dataset has so many digests, or a multiple: a cut writes as many whatever came, random ones for those that lack."""
_SEALED = 3
"""Sketches that a cut may need of a version's rows: in the place of the two of before, and beside them."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Digest and sketches that recognise the rows of a version, ready to be stored.

    Attributes
    ----------
    digest, key_id : str
        The keyed digest of their values, and its key.
    sketches : tuple of SealedSketch
        One sketch, sealed several times: two that are stored look unlike.
    """

    digest: str
    key_id: str
    sketches: tuple[SealedSketch, ...] = field(repr=False)


class LikenessService:
    """Recognises rows that are registered under another population.

    Parameters
    ----------
    storage : Storage
        Has the sketches of rows that wait.
    noise : NoiseSource, optional
        A test double; there is no setting for it.
    """

    def __init__(self, keys: KeyRing, storage: Storage, noise: NoiseSource | None = None) -> None:
        self.keys = keys
        self.storage = storage
        self.noise = SystemNoise() if noise is None else noise

    def sketcher(self) -> Sketcher:
        """Return what sketches rows as they are read.

        Raises
        ------
        SigningError
            If the first private key is not here.
        """
        first = self._key_ids()[0]
        people = Pseudonymiser(first, self.keys.secret(first, "pseudonym"))
        return Sketcher(self.keys.secret(first, "sketch"), people)

    def record(self, connection: Connection, about: Version, digests: list[str], sketch: Sketch) -> None:
        """Remember the digests and the sketch of a version of a dataset, under the newest key."""
        self.record_digests(connection, about, digests)
        repository.insert_sketch(connection, self.seal(about, sketch))

    def record_digests(self, connection: Connection, about: Version, digests: list[str]) -> None:
        """Remember digests of a dataset's rows, beside those that it has, under the newest key."""
        key_id = self._key_ids()[-1]
        held = repository.list_digests(connection, about.dataset_id)
        _put_digests(connection, about, held | {self.key_digest(key_id, digest): key_id for digest in digests})

    def seal(self, about: Version, sketch: Sketch) -> SealedSketch:
        """Encrypt a sketch under the newest key."""
        return self._seal(self._key_ids()[-1], about, sketch)

    def mark(self, about: Version, digest: str, sketch: Sketch) -> Marks:
        """Return what a version's rows are recognised by."""
        key_id = self._key_ids()[-1]
        sealed = tuple(self.seal(about, sketch) for _ in range(_SEALED))
        return Marks(self.key_digest(key_id, digest), key_id, sealed)

    def renew(
        self, connection: Connection, about: Version, marks: Marks, *, is_forgetting: bool, is_replaced: bool
    ) -> None:
        """Keep the digests and sketches of the people of a version's rows, without forgotten ones.

        As much is deleted and written whatever has changed: beside the sketch of the version the first one of its rows,
        or, where somebody is forgotten, that of the version again. The first one of a registration is of raw values,
        beyond bounds too. People of rows that were replaced have been charged: their sketches stay likewise, but for
        their pseudonyms, of which nobody could be erased any more.
        """
        held = repository.list_digests(connection, about.dataset_id)
        _put_digests(connection, about, ({} if is_forgetting else held) | {marks.digest: marks.key_id})
        newest, *spare = marks.sketches
        kept = repository.list_present_sketches(connection, about)
        if is_forgetting:
            kept = [replace(new, version=one.version) for one, new in zip(kept, spare, strict=False)]
        repository.forget_sketches(connection, about.dataset_id)
        for one in (*(map(self._without_subjects, kept) if is_replaced else kept[:1]), newest):
            repository.insert_sketch(connection, one)

    def forget_subjects(self, connection: Connection, about: Version) -> None:
        """Keep no pseudonym in the sketches of a dataset that ends: its rows are gone, and nobody could be erased."""
        kept = repository.list_present_sketches(connection, about)
        repository.forget_sketches(connection, about.dataset_id)
        for one in kept:
            repository.insert_sketch(connection, self._without_subjects(one))

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
        population : str
            Of the rows.
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
        compared = {} if compared is None else compared
        excess = self.compare(connection, population, snapshot, compared, others=others)
        return next((owner for owner in sorted(excess) if self._exceeds(excess[owner], refusals)), None)

    def compare(
        self,
        connection: Connection,
        population: str,
        snapshot: Snapshot,
        compared: Compared,
        *,
        others: Collection[str] = (),
    ) -> dict[str, float]:
        """Compare rows with the sketches of other populations that they were not compared with yet.

        That takes some milliseconds for each: most of it is done before others have to wait.

        Returns
        -------
        dict of str to float
            By how much rows have more in common with each population than chance explains: for `find_owner` alone,
            which adds noise.

        Raises
        ------
        SigningError
            As for `find_owner`.
        """
        excess: dict[str, float] = {}
        for stored in self._list_sketches(connection):
            if stored.population != population and stored.population not in others:
                which = stored.dataset_id, stored.version, stored.sealed[:_NONCE_CHARACTERS]
                if which not in compared:
                    compared[which] = self._open(stored).find_excess(snapshot.sketch)
                found = compared[which]
                excess[stored.population] = max(found, excess.get(stored.population, found))
        return excess

    def is_known(self, connection: Connection, dataset_id: str, snapshot: Snapshot, *, refusals: bytes) -> bool:
        """Tell whether a dataset has these rows, or nearly; `refusals` as for `find_owner`."""
        excess = [
            self._open(stored).find_excess(snapshot.sketch)
            for stored in self._list_sketches(connection)
            if stored.dataset_id == dataset_id and stored.sealed
        ]
        return bool(excess) and self._exceeds(max(excess), refusals)

    def list_subjects(self, connection: Connection) -> list[tuple[Version, Part]]:
        """Return what is kept of the persons of every dataset, and of rows that wait, where it is known.

        Raises
        ------
        SigningError
        """
        return [
            (Version(stored.dataset_id, stored.population, stored.version), subjects)
            for stored in self._list_sketches(connection)
            if stored.sealed and (subjects := self._open(stored).subjects) is not None
        ]

    def _list_sketches(self, connection: Connection) -> list[SealedSketch]:
        """Return the sketches of every dataset, and of rows that wait."""
        found = repository.list_sketches(connection)
        known = {(one.dataset_id, one.version) for one in found}
        for about, folder in repository.list_waiting_rows(connection):
            if (about.dataset_id, about.version) not in known:
                sealed = self.storage.read_sketch(folder)
                key_id, text = sealed.get("key_id", ""), sealed.get("sealed", "")
                found.append(SealedSketch(about.dataset_id, about.version, about.population, key_id, text))
        return found

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

    def _seal(self, key_id: str, about: Version, sketch: Sketch) -> SealedSketch:
        secret = self.keys.secret(key_id, "seal")
        sealed = seal(secret, sketch.to_bytes(), f"{about.dataset_id} {about.population}")
        return SealedSketch(about.dataset_id, about.version, about.population, key_id, sealed)

    def _without_subjects(self, stored: SealedSketch) -> SealedSketch:
        """Return a sketch, as large as it was, without persons; as it is where it has none, or its key is not here."""
        with suppress(SigningError):
            sketch = self._open(stored)
            if sketch.subjects is not None:
                about = Version(stored.dataset_id, stored.population, stored.version)
                return self._seal(stored.key_id, about, replace(sketch, subjects=NOBODY))
        return stored

    def _open(self, stored: SealedSketch) -> Sketch:
        if not stored.sealed:
            raise SigningError(
                f"the dataset {stored.dataset_id} has no sketch to compare with: its rows were not there when the "
                "curator started; bring them back, and start it again"
            )
        secret = self._secret(stored.key_id, "seal")
        try:
            return Sketch.from_bytes(unseal(secret, stored.sealed, f"{stored.dataset_id} {stored.population}"))
        except ValueError:
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


def _put_digests(connection: Connection, about: Version, digests: dict[str, str]) -> None:
    pads = -len(digests) % _DIGESTS
    repository.put_digests(connection, about, digests | {secrets.token_hex(32): PAD for _ in range(pads)})


def _draw_geometric(secret: bytes, label: bytes) -> int:
    """Return k with a weight of exp(−k/t): the difference of two is discrete Laplace noise of scale t.

    A float's error moves a bound between two numbers by 10⁻¹² of their weight, which adds as little to δ.
    """
    drawn = int.from_bytes(hmac.digest(secret, label, "sha256")) + 1
    return math.floor(THRESHOLD_SCALE * (256 * math.log(2) - math.log(drawn)))
