"""Keys that count: a key known beforehand, or the first that was seen, and those that it leads to."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from client_examples import (
    FIRST,
    RELEASE_TEXT,
    SECOND,
    STRANGER,
    THIRD,
    Curator,
    Ledger,
    Signer,
    ask,
    compact,
    key_listing,
    problem,
    released,
)
from hypothesis import given
from hypothesis import strategies as st

from analyst_client import CuratorClient
from analyst_client.errors import KeyUntrustedError, ReceiptInvalidError
from analyst_client.ledger import Checkpoint
from analyst_client.ledger.keys import extend_trust, key_id_of, read_listing, trust_on_first_use

SIGNERS = [FIRST, SECOND, THIRD]


def pinned(client: CuratorClient) -> set[str]:
    return set(client._session.trust.memory.refresh().keys)


def ids(*signers: Signer) -> set[str]:
    return {signer.key_id for signer in signers}


# The chain of endorsements


def test_key_id_is_made_of_the_key() -> None:
    assert key_id_of(FIRST.raw) == FIRST.key_id


@given(st.permutations(range(3)), st.integers(0, 2))
def test_trust_goes_forward_whatever_the_order_of_the_listing(order: list[int], root: int) -> None:
    keys = read_listing(key_listing(*SIGNERS))
    trusted = extend_trust({SIGNERS[root].key_id: SIGNERS[root].raw}, [keys[i] for i in order])
    assert set(trusted) == ids(*SIGNERS[root:])


@pytest.mark.parametrize("name", ["created_at", "previous", "public_key", "endorsement"])
def test_endorsement_covers_every_member_of_the_listing(name: str) -> None:
    listing = key_listing(FIRST, SECOND, THIRD)
    key = listing["keys"][2]
    if name == "public_key":
        key |= {"public_key": STRANGER.public_key, "key_id": STRANGER.key_id}
    else:
        key[name] = {"created_at": "2027", "previous": FIRST.key_id, "endorsement": listing["keys"][1]["endorsement"]}[
            name
        ]
    assert set(extend_trust({FIRST.key_id: FIRST.raw}, read_listing(listing))) == ids(FIRST, SECOND)


def test_key_without_an_endorsement_is_not_trusted() -> None:
    listing = key_listing(FIRST, SECOND)
    listing["keys"][1]["endorsement"] = None
    assert set(extend_trust({FIRST.key_id: FIRST.raw}, read_listing(listing))) == ids(FIRST)


def test_first_use_takes_the_older_keys_too_and_none_that_is_not_linked() -> None:
    linked, other = key_listing(FIRST, SECOND, THIRD)["keys"], key_listing(STRANGER)["keys"]
    keys = read_listing({"keys": other + linked})
    assert set(trust_on_first_use(SECOND.key_id, keys)) == ids(FIRST, SECOND, THIRD)
    assert trust_on_first_use(SECOND.key_id, keys[:2]) == {}


def test_first_use_does_not_take_an_older_key_that_did_not_endorse() -> None:
    listing = {"keys": [*key_listing(STRANGER)["keys"], unendorsed()["keys"][1] | {"previous": STRANGER.key_id}]}
    assert set(trust_on_first_use(SECOND.key_id, read_listing(listing))) == ids(SECOND)


def test_chain_that_bites_its_tail_ends() -> None:
    keys = key_listing(FIRST, SECOND, FIRST)["keys"]
    assert set(trust_on_first_use(SECOND.key_id, read_listing({"keys": keys[1:]}))) == ids(FIRST, SECOND)


def test_checkpoint_is_verified_by_its_key_alone() -> None:
    checkpoint = Checkpoint.read(Ledger().checkpoint)
    assert checkpoint.is_signed_by(FIRST.raw)
    assert not checkpoint.is_signed_by(SECOND.raw)
    assert not checkpoint.is_signed_by(bytes(32))


# A client


def test_first_key_that_is_seen_is_trusted_and_remembered(tmp_path: Path) -> None:
    curator = Curator(released())
    client = curator.client(memory=tmp_path / "memory.json")
    ask(client)
    assert pinned(client) == ids(FIRST)
    forger = Curator(released(Ledger(signer=STRANGER).release()), keys=key_listing(STRANGER))
    with pytest.raises(KeyUntrustedError, match=FIRST.key_id) as caught:
        ask(forger.client(memory=tmp_path / "memory.json"), idempotency_key="mine")
    assert caught.value.key_id == STRANGER.key_id
    assert caught.value.idempotency_key == "mine"
    assert caught.value.release.answer == "new"
    assert pinned(client) == ids(FIRST)


def test_keys_are_asked_for_once() -> None:
    ledger = Ledger()
    curator = Curator(*(released(ledger.release()) for _ in range(3)))
    client = curator.client()
    for _ in range(3):
        ask(client)
    assert curator.listings == 1


def test_key_that_is_known_beforehand_needs_no_listing() -> None:
    curator = Curator(released())
    assert ask(curator.client(key=FIRST.public_key)).text == RELEASE_TEXT
    assert curator.listings == 0


@pytest.mark.parametrize("known", ["public_key", "key_id"])
def test_key_that_is_known_beforehand_refuses_all_others(known: str) -> None:
    curator = Curator(released(Ledger(signer=SECOND).release()), keys=key_listing(SECOND))
    client = curator.client(key=getattr(FIRST, known))
    with pytest.raises(KeyUntrustedError, match=f"no trusted key \\({FIRST.key_id}\\) endorsed"):
        ask(client)
    assert pinned(client) == set()


def test_key_that_is_known_beforehand_counts_more_than_what_was_seen_first(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    ask(Curator(released(Ledger(signer=STRANGER).release()), keys=key_listing(STRANGER)).client(memory=path))
    curator = Curator(released(Ledger(30, signer=STRANGER).release()), keys=key_listing(STRANGER))
    with pytest.raises(KeyUntrustedError):
        ask(curator.client(memory=path, key=FIRST.public_key))


def test_id_that_is_known_beforehand_is_looked_up() -> None:
    ledger = Ledger()
    curator = Curator(released(ledger.release()), released(ledger.release()))
    client = curator.client(key=FIRST.key_id)
    ask(client), ask(client)
    assert curator.listings == 1


@pytest.mark.parametrize(
    "key", ["", "key_", "key_XYZ", FIRST.public_key[:-4], FIRST.key_id + "0", " " + FIRST.public_key]
)
def test_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="neither a public key"):
        Curator().client(key=key)


@pytest.mark.parametrize("key", [None, FIRST.public_key, FIRST.key_id])
def test_endorsed_rotation_is_followed(key: str | None, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    ledger = Ledger()
    curator = Curator(released(ledger.release()))
    client = curator.client(key=key, memory=path)
    ask(client)
    ledger.signer = THIRD
    curator.answers += [released(ledger.release()), released(ledger.release())]
    curator.listing = key_listing(FIRST, SECOND, THIRD)
    before = curator.listings
    ask(client), ask(client)
    assert curator.listings == before + 1
    assert pinned(client) == ids(FIRST, SECOND, THIRD)
    again = Curator(released(ledger.release()))
    ask(again.client(memory=path))
    assert again.listings == 0


def unendorsed() -> dict[str, Any]:
    listing = key_listing(FIRST, SECOND)
    listing["keys"][1]["endorsement"] = None
    return listing


def endorsed_by_itself() -> dict[str, Any]:
    listing = key_listing(FIRST, SECOND)
    key = listing["keys"][1]
    payload = {name: value for name, value in key.items() if name != "endorsement"}
    key["endorsement"] = SECOND.sign("curator-key:1\n", payload)
    return listing


@pytest.mark.parametrize(
    "listing",
    [
        unendorsed(),
        endorsed_by_itself(),
        key_listing(STRANGER, SECOND),
        key_listing(SECOND),
        key_listing(FIRST),
        {"keys": [], "active": ""},
        {"keys": "none"},
        [],
        problem("internal-error", 500),
    ],
    ids=range(9),
)
def test_rotation_without_an_endorsement_is_refused_and_the_release_kept(listing: Any) -> None:
    ledger = Ledger()
    curator = Curator(released(ledger.release()))
    client = curator.client()
    ask(client)
    ledger.signer = SECOND
    curator.answers += [released(text := ledger.release())]
    curator.listing = listing
    with pytest.raises(KeyUntrustedError) as caught:
        ask(client)
    assert caught.value.key_id == SECOND.key_id
    assert caught.value.release.text == text
    assert pinned(client) == ids(FIRST)
    assert client._session.trust.memory.refresh().highest["olmsted"].sequence == 12


def test_first_use_of_a_curator_that_does_not_list_its_key_is_refused() -> None:
    client = Curator(released(), keys=key_listing(SECOND)).client()
    with pytest.raises(KeyUntrustedError, match="does not list"):
        ask(client)
    assert pinned(client) == set()


def test_first_use_trusts_nothing_when_the_signature_does_not_hold() -> None:
    forged = Ledger().post()
    text = Ledger().release().replace(forged["signature"], "x")
    receipt_signature = text[text.rindex('"signature":"') + 13 : -3]
    forged_text = text.replace(receipt_signature, forged["signature"])
    client = Curator(released(forged_text)).client()
    with pytest.raises(ReceiptInvalidError, match="signature"):
        ask(client)
    assert pinned(client) == set()
    assert client._session.trust.memory.refresh().highest == {}


def test_other_process_that_was_first_decides(tmp_path: Path) -> None:
    """Two clients start together; the second to write is held to what the first one saw."""
    path = tmp_path / "memory.json"
    slow = Curator(released(Ledger(signer=STRANGER).release()), keys=key_listing(STRANGER))
    slow_client = slow.client(memory=path)
    quick = Curator(released()).client(memory=path)
    listing = slow.listing

    def meanwhile(request: httpx.Request) -> httpx.Response:
        ask(quick)
        return httpx.Response(200, content=compact(listing))

    answer = slow.__call__
    slow_client._transport._http._transport = httpx.MockTransport(
        lambda request: meanwhile(request) if request.url.path == "/v1/keys" else answer(request)
    )
    with pytest.raises(KeyUntrustedError, match=FIRST.key_id):
        ask(slow_client)
    assert pinned(slow_client) == ids(FIRST)
