"""The curator's keys: whose name they have, who endorsed them, and what a file that is wrong or missing does."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from patience import scaled
from support import World, body

from curator_service.container import make_curator
from curator_service.kit.db import Database
from curator_service.ledger.chain.entries import Checkpoint
from curator_service.ledger.chain.signing import KeyRing, SigningError, check_keys

NOON = "2026-03-01T12:00:00Z"


def canonical_json(payload: dict[str, Any]) -> bytes:
    """Return RFC 8785 for strings and integers, written down once more."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Curators:
    """Processes of one curator: a database, and a folder of keys."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder / "keys"
        self.url = f"sqlite:///{folder / 'keys.sqlite3'}" if url is None else url
        self.databases: list[Database] = []
        self.announced: list[str] = []
        self.ring().database.upgrade()

    def ring(self) -> KeyRing:
        """Return the keys as another process holds them."""
        self.databases.append(Database(self.url))
        return KeyRing(
            self.databases[-1], self.folder, lambda _connection, signer, _moment: self.announce(signer.key_id)
        )

    def announce(self, key_id: str) -> None:
        """Note what the chains would say."""
        self.announced.append(key_id)

    def files(self) -> set[str]:
        """Return the names of the private keys."""
        return {path.name for path in self.folder.glob("*.pem")}


@pytest.fixture
def curators(tmp_path: Path) -> Iterator[Curators]:
    made = Curators(tmp_path, None)
    yield made
    for database in made.databases:
        database.dispose()


@pytest.fixture
def on_both(tmp_path: Path, empty_database_url: str | None) -> Iterator[Curators]:
    """Return the same, once on each database."""
    made = Curators(tmp_path, empty_database_url)
    yield made
    for database in made.databases:
        database.dispose()


def a_checkpoint(key_id: str, **change: Any) -> Checkpoint:
    return replace(Checkpoint("town", 7, "ab" * 32, 1, 100, 60, 5, key_id), **change)


def test_the_first_key_is_made_once_and_known_to_every_process(curators: Curators) -> None:
    first = curators.ring().signer(NOON)
    again = curators.ring().signer("2027-01-01T00:00:00Z")
    assert (again.key_id, again.public_keys) == (first.key_id, first.public_keys)
    assert again.sign(a_checkpoint(first.key_id)) == first.sign(a_checkpoint(first.key_id))
    (key,) = curators.ring().list_keys()
    assert (key.key_id, key.created_at, key.previous, key.endorsement) == (first.key_id, NOON, "", "")
    assert curators.announced == [first.key_id]
    assert curators.files() == {f"{first.key_id}.pem"}


def test_a_key_has_the_name_of_its_public_half(curators: Curators) -> None:
    signer = curators.ring().signer(NOON)
    digest = hashlib.sha256(base64.b64decode(signer.public_keys[signer.key_id])).hexdigest()
    prefix, _, name = signer.key_id.partition("_")
    assert (prefix, digest.startswith(name), len(name) >= 16) == ("key", True, True)


def test_private_keys_are_the_owners_alone_and_never_shown(curators: Curators) -> None:
    ring = curators.ring()
    signer = ring.signer(NOON)
    ring.rotate(NOON)
    assert curators.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in curators.folder.glob("*.pem")} == {0o600}
    assert "private" not in repr(signer).lower()


def test_anybody_verifies_a_signature_with_the_public_key_and_the_words_of_the_wire(curators: Curators) -> None:
    signer = curators.ring().signer(NOON)
    checkpoint = a_checkpoint(signer.key_id)
    payload = {
        "entry_hash": "ab" * 32,
        "epoch": 1,
        "key_id": signer.key_id,
        "limit": "100",
        "pending": "5",
        "population": "town",
        "posted": "60",
        "sequence": 7,
    }
    signature = base64.b64decode(signer.sign(checkpoint))
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(signer.public_keys[signer.key_id]))
    public.verify(signature, b"curator-checkpoint:1\n" + canonical_json(payload))
    with pytest.raises(InvalidSignature):
        public.verify(signature, b"curator-key:1\n" + canonical_json(payload))


@pytest.mark.parametrize(
    "change",
    [
        {"population": "valley"},
        {"sequence": 8},
        {"entry_hash": "ac" * 32},
        {"epoch": 2},
        {"limit": 101},
        {"posted": 59},
        {"pending": 6},
        {"key_id": "key_0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_signature_is_of_every_word_of_its_checkpoint(curators: Curators, change: dict[str, Any]) -> None:
    signer = curators.ring().signer(NOON)
    checkpoint = a_checkpoint(signer.key_id)
    signature = signer.sign(checkpoint)
    assert signer.holds(checkpoint, signature)
    assert not signer.holds(replace(checkpoint, **change), signature)


@pytest.mark.parametrize("signature", ["", "x", "é", "A" * 88, base64.b64encode(b"\0" * 64).decode()])
def test_text_that_is_no_signature_does_not_hold(curators: Curators, signature: str) -> None:
    signer = curators.ring().signer(NOON)
    assert not signer.holds(a_checkpoint(signer.key_id), signature)


# --- Rotation


def test_each_key_is_endorsed_by_the_one_before_and_old_signatures_hold(on_both: Curators) -> None:
    ring = on_both.ring()
    first = ring.signer(NOON)
    old = a_checkpoint(first.key_id)
    signature = first.sign(old)
    made = [ring.rotate(f"2026-03-0{day}T12:00:00Z") for day in (2, 3, 4)]
    keys = on_both.ring().list_keys()
    assert [key.key_id for key in keys] == [first.key_id, *(signer.key_id for signer in made)]
    assert on_both.announced == [key.key_id for key in keys]
    assert check_keys(keys) == ""
    for before, key in pairwise(keys):
        assert key.previous == before.key_id
        payload = {
            "created_at": key.created_at,
            "key_id": key.key_id,
            "previous": before.key_id,
            "public_key": key.public_key,
        }
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(before.public_key))
        public.verify(base64.b64decode(key.endorsement), b"curator-key:1\n" + canonical_json(payload))
    last = on_both.ring().signer(NOON)
    assert last.key_id == made[-1].key_id == ring.signer(NOON).key_id
    assert last.holds(old, signature)
    assert len(on_both.files()) == 4


def test_a_worker_that_runs_meets_a_new_key_when_it_is_named(curators: Curators) -> None:
    running = curators.ring()
    old = running.signer(NOON)
    new = curators.ring().rotate(NOON)
    checkpoint = a_checkpoint(new.key_id)
    signature = new.sign(checkpoint)
    assert running.verifier(knowing=old.key_id).holds(a_checkpoint(old.key_id), old.sign(a_checkpoint(old.key_id)))
    assert running.verifier(knowing=new.key_id).holds(checkpoint, signature)
    assert running.signer(NOON).key_id == new.key_id
    assert running.verifier(knowing="key_of_nobody").holds(checkpoint, signature)


def test_verifying_takes_no_private_key(curators: Curators) -> None:
    signer = curators.ring().signer(NOON)
    checkpoint = a_checkpoint(signer.key_id)
    (curators.folder / f"{signer.key_id}.pem").unlink()
    assert curators.ring().verifier().holds(checkpoint, signer.sign(checkpoint))
    assert not hasattr(curators.ring().verifier(), "sign")


def test_whoever_writes_to_the_database_cannot_put_another_first_key_in_place(curators: Curators) -> None:
    """All keys replaced by sound ones of somebody else: beside the private keys it is written which was the first."""
    first = curators.ring().signer(NOON)
    stranger = Curators(curators.folder.parent / "stranger", None)
    stranger.ring().signer(NOON)
    stranger.ring().rotate(NOON)
    foreign = stranger.ring().list_keys()
    with mock.patch.object(KeyRing, "list_keys", return_value=foreign):
        for ask in (lambda: curators.ring().verifier(), lambda: curators.ring().signer(NOON)):
            with pytest.raises(SigningError, match=first.key_id):
                ask()


def test_keys_that_do_not_follow_from_each_other_are_not_used(curators: Curators) -> None:
    ring = curators.ring()
    ring.signer(NOON)
    for _ in range(2):
        ring.rotate(NOON)
    first, second, third = ring.list_keys()
    another = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    broken = [
        [replace(first, public_key=another), second, third],
        [first, replace(second, public_key=another), third],
        [first, replace(second, endorsement=third.endorsement), third],
        [first, replace(second, endorsement=""), third],
        [first, replace(second, created_at="2020-01-01T00:00:00Z"), third],
        [second, third],
        [first, third],
        [first, third, second],
        [first, replace(third, previous=first.key_id)],
        [replace(first, public_key="not base64"), second, third],
        [first, second, third, replace(third, key_id="key_0", public_key=another)],
    ]
    assert check_keys([first, second, third]) == ""
    for keys in broken:
        assert check_keys(keys) != ""
        with mock.patch.object(KeyRing, "list_keys", lambda _ring, keys=keys: keys), pytest.raises(SigningError):
            curators.ring().signer(NOON)


def test_a_key_that_the_chains_could_not_be_told_of_does_not_sign(curators: Curators) -> None:
    ring = curators.ring()
    first = ring.signer(NOON)
    with mock.patch.object(curators, "announce", side_effect=ValueError), pytest.raises(ValueError):  # noqa: PT011
        ring.rotate(NOON)
    assert [key.key_id for key in ring.list_keys()] == [first.key_id]
    assert curators.ring().signer(NOON).key_id == first.key_id


# --- Files


def pem(key: Any, encryption: Any = None) -> bytes:
    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "copy it from where the curator was set up"),
        (b"", "holds no private key"),
        (b"garbage", "holds no private key"),
        (pem(Ed25519PrivateKey.generate()), "is not the one of"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "another kind than Ed25519"),
        (pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"a password")), "holds no private key"),
    ],
    ids=["missing", "empty", "garbage", "another", "another kind", "encrypted"],
)
def test_a_private_key_that_is_missing_or_wrong_is_named_and_nothing_is_signed(
    curators: Curators, content: bytes | None, reason: str
) -> None:
    signer = curators.ring().signer(NOON)
    path = curators.folder / f"{signer.key_id}.pem"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    for act in (lambda: curators.ring().signer(NOON), lambda: curators.ring().rotate(NOON)):
        with pytest.raises(SigningError, match=reason) as raised:
            act()
        assert signer.key_id in str(raised.value)
    assert [key.key_id for key in curators.ring().list_keys()] == [signer.key_id]


def test_keys_whose_rows_were_lost_come_back_in_their_order(curators: Curators) -> None:
    ring = curators.ring()
    first = ring.signer(NOON)
    made = [ring.rotate(NOON) for _ in range(2)]
    checkpoints = [(a_checkpoint(s.key_id), s.sign(a_checkpoint(s.key_id))) for s in (first, *made)]
    with ring.database.engine.begin() as connection:  # what a restored backup knows
        connection.exec_driver_sql("DROP TRIGGER signing_keys_no_delete")
        connection.exec_driver_sql(f"DELETE FROM signing_keys WHERE key_id <> '{first.key_id}'")
    announced, restored = list(curators.announced), curators.ring()
    assert restored.recover(NOON) == [signer.key_id for signer in made]
    assert curators.announced == announced  # a restored chain must not grow before it is reconciled
    assert check_keys(restored.list_keys()) == ""
    signer = curators.ring().signer(NOON)
    assert signer.key_id == made[-1].key_id
    assert all(signer.holds(checkpoint, signature) for checkpoint, signature in checkpoints)
    assert restored.recover(NOON) == []


def test_there_is_nothing_to_recover_where_no_key_is_known(curators: Curators) -> None:
    """An empty database beside key files is somebody's mistake: none of them becomes the first one of it."""
    curators.ring().signer(NOON)
    empty = Curators(curators.folder.parent, f"sqlite:///{curators.folder.parent / 'empty.sqlite3'}")
    with suppress(SigningError):  # it may say so
        assert empty.ring().recover(NOON) == []
    assert empty.ring().list_keys() == []


# --- Two processes at once


def test_of_two_processes_that_make_the_first_key_at_once_one_does(on_both: Curators) -> None:
    rings = [on_both.ring() for _ in range(4)]
    gate, list_keys = threading.Barrier(4, timeout=scaled(20)), KeyRing.list_keys
    first_look = {id(ring) for ring in rings}

    def look_together(ring: KeyRing) -> Any:
        found = list_keys(ring)
        if id(ring) in first_look:
            first_look.discard(id(ring))
            gate.wait()
        return found

    with mock.patch.object(KeyRing, "list_keys", look_together), ThreadPoolExecutor(4) as pool:
        signers = list(pool.map(lambda ring: ring.signer(NOON), rings))
    assert len({signer.key_id for signer in signers}) == 1
    (key,) = on_both.ring().list_keys()
    assert on_both.files() == {f"{key.key_id}.pem"}
    assert on_both.announced == [key.key_id]


def test_of_two_rotations_at_once_one_counts(curators: Curators) -> None:
    first, second = curators.ring(), curators.ring()
    first.signer(NOON)
    stale = second.list_keys()
    new = first.rotate(NOON)
    with mock.patch.object(second, "list_keys", side_effect=[stale, first.list_keys()]):
        assert second.rotate(NOON).key_id == new.key_id
    assert check_keys(curators.ring().list_keys()) == ""
    assert len(curators.ring().list_keys()) == len(curators.files()) == 2


# --- In the chains


def test_a_rotation_is_an_entry_of_every_chain_signed_by_the_new_key(both: World) -> None:
    before = both.curator.ledger.guard.signer().key_id
    signer = both.curator.keys.rotate(NOON)
    for population in ("town", "valley"):
        entry = both.entries(population)[-1]
        assert (entry["kind"], entry["signing_key"], entry["key_id"]) == ("key", signer.key_id, signer.key_id)
        assert entry["units"] == "0"
        assert both.curator.ledger.verify(population).ok
    shown = both.api().get("/v1/keys").json()
    assert (shown["active"], [key["key_id"] for key in shown["keys"]]) == (signer.key_id, [before, signer.key_id])
    assert (shown["keys"][0]["previous"], shown["keys"][0]["endorsement"]) == (None, None)


def test_a_worker_that_runs_verifies_what_a_newer_key_signed(world: World) -> None:
    """An auditor's look through a running worker must not take a rotation for a forgery."""
    api = world.api()
    assert api.post("/v1/datasets/cohort/releases", json=body(), key="k1").status_code == 201
    running = api.app.state.curator
    assert running.ledger.verify("town").ok
    other = make_curator(world.settings, now=world.clock)
    other.keys.rotate(NOON)
    other.close()
    assert running.ledger.verify("town").ok
    assert api.post("/v1/datasets/cohort/releases", json=body(fresh=True), key="k2").status_code == 201
    assert running.ledger.verify("town").ok
