"""The hash chain: sound ones verify, and one changed character anywhere is found."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from entry_examples import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from curator_service.entries.account import GENESIS, Account
from curator_service.entries.base import FORMAT, Place
from curator_service.ledger.chain.entries import (
    Checkpoint,
    Receipt,
    StoredEntry,
    canonical,
    entry_hash,
)
from curator_service.ledger.chain.verification import Verification, verify_chain

TERMS = {"adjacency": "add_remove", "accountant": "gdp", "delta": "1e-06", "time": "2026-03-01T12:00:00Z"}
HOLDER = "prn_ada"
A, B = "prm_" + "a" * 24, "prm_" + "b" * 24
NEXT, LATER = "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"
MOMENT = "2026-03-02T12:00:00Z"
KEY = "key_" + "0" * 32


def sign(checkpoint: Checkpoint) -> str:
    """Return what stands for the signature: nothing of the chain depends on how it is made."""
    return hashlib.sha256(b"the curator's key" + checkpoint.statement).hexdigest()


def is_signed(checkpoint: Checkpoint, signature: str) -> bool:
    return sign(checkpoint) == signature


def opening(limit: int) -> dict[str, Any]:
    return {**TERMS, "kind": "open", "units": str(limit)}


def charge(units: int, **payload: str) -> dict[str, Any]:
    of = {"dataset": "cohort", "release_kind": "gram", "time": MOMENT}
    return {"kind": "charge", "units": str(units), "actor": HOLDER, **of, **payload}


def reserve(units: int, reservation: str, **payload: str) -> dict[str, Any]:
    return {"kind": "reserve", "units": str(units), "actor": HOLDER, "reservation": reservation, **payload}


def permit(**terms: Any) -> dict[str, Any]:
    """Return a permit for the holder, as an operator at the machine grants it."""
    granted = {"people": {HOLDER: "ada"}, "datasets": {"ds_1": "cohort"}, "permit": A, "time": MOMENT}
    host = {"actor": "operator:root", "approved_by": "operator:root"}
    return {"kind": "permit", "units": "0", **granted, **host, **terms}


OFFICERS = {"actor": "prn_olga", "approved_by": "prn_otto"}
ALONE = {"actor": "prn_olga", "approved_by": "prn_olga"}
UNDER_A = {"permit": A}


def void(units: int, reservation: str, **payload: str) -> dict[str, Any]:
    return {
        "kind": "void",
        "units": str(units),
        "actor": "curator",
        "holder": HOLDER,
        "reservation": reservation,
        **payload,
    }


def make_chain(entries: Sequence[dict[str, Any]], **stated: str) -> list[StoredEntry]:
    """Write entries as the curator would: each states the account after it, and is signed."""
    chain, previous, account = [], GENESIS, {"limit": 0, "posted": 0, "pending": 0}
    for sequence, payload in enumerate(entries, start=1):
        units, is_drawn = int(payload["units"]), "from" in payload or "to" in payload
        match payload["kind"]:
            case "open" | "limit":
                account["limit"] = units
            case "charge":
                account["posted"] += units
                account["pending"] -= units if "reservation" in payload else 0
            case "reserve":
                account["pending"] += 0 if is_drawn else units
            case "void":
                account["pending"] -= 0 if is_drawn else units
        payload_text = canonical(
            {
                "format": FORMAT,
                "population": "town",
                "sequence": sequence,
                "previous_hash": previous,
                "epoch": 1,
                "key_id": KEY,
                **{name: str(amount) for name, amount in account.items()},
                **(stated if sequence == len(entries) else {}),
                **(EXAMPLES[payload["kind"]].payload if payload["kind"] in EXAMPLES else {}),
                **payload,
            }
        )
        previous = entry_hash(payload_text)
        checkpoint = Checkpoint("town", sequence, previous, 1, **account, key_id=KEY)
        chain.append(StoredEntry(sequence, payload_text, previous, sign(checkpoint)))
    return chain


def verify(chain: list[StoredEntry], **options: Any) -> Verification:
    """Verify a chain against the account that its own entries imply."""
    account = verify_chain("town", chain, Account(), lambda *_: True).state
    return verify_chain("town", chain, account, is_signed, **options)


amounts = st.lists(st.integers(1, 10**18), min_size=1, max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return sound entries: charges at once, and amounts that are held first and then charged or given back."""
    entries: list[dict[str, Any]] = []
    for i, units in enumerate(draw(amounts)):
        end = draw(st.sampled_from(["at once", "charged", "given back", "open"]))
        entries += [charge(units, **UNDER_A)] if end == "at once" else [reserve(units, f"job_{i}", **UNDER_A)]
        entries += [charge(units, reservation=f"job_{i}", **UNDER_A)] if end == "charged" else []
        entries += [void(units, f"job_{i}", **UNDER_A)] if end == "given back" else []
    return [opening(sum(int(entry["units"]) for entry in entries)), permit(), *entries]


@given(histories())
def test_a_sound_chain_verifies_and_implies_its_account(entries: list[dict[str, Any]]) -> None:
    chain = make_chain(entries)
    found = verify(chain)
    assert (found.bad_sequence, found.entries) == (None, len(chain))
    stated, state = json.loads(chain[-1].payload_text), found.state
    assert (stated["limit"], stated["posted"], stated["pending"]) == (
        str(state.limit),
        str(state.posted),
        str(state.pending),
    )
    assert state.pending == sum(state.reservations.values())
    assert sum(units for _, units in state.spending.values()) == state.posted
    share = state.shares[A]
    assert (share.posted, share.pending) == (state.posted, state.pending)


@given(histories(), st.data())
def test_one_changed_character_is_found_at_its_entry(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    chain = make_chain(entries)
    index = data.draw(st.integers(0, len(chain) - 1))
    member = data.draw(st.sampled_from(["payload_text", "signature"]))
    text = getattr(chain[index], member)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[place]))
    chain[index] = replace(chain[index], **{member: text[:place] + other + text[place + 1 :]})
    found = verify(chain)
    assert found.bad_sequence == index + 1
    assert found.entries == index + 1


@given(histories(), st.data())
def test_a_removed_entry_is_found_at_its_place(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    chain = make_chain(entries)
    index = data.draw(st.integers(0, len(chain) - 2))
    del chain[index]
    assert verify(chain).bad_sequence == index + 1


@given(amounts, st.booleans())
def test_charges_beyond_the_limit_are_found_at_the_first_that_exceeds_it(charges: list[int], held: bool) -> None:
    """Held amounts count: what is reserved is as good as spent."""
    spent = [reserve(units, f"job_{i}") if held else charge(units) for i, units in enumerate(charges)]
    chain = make_chain([opening(sum(charges) - 1), *spent])
    found = verify(chain)
    assert (found.bad_sequence, found.reason) == (len(chain), "the charges exceed the limit")


WRONG: dict[str, list[dict[str, Any]]] = {
    "an amount that was not held is charged": [charge(5, reservation="job_a")],
    "more is charged than was held": [reserve(5, "job_a"), charge(6, reservation="job_a")],
    "less is charged than a job held": [reserve(5, "job_a"), charge(4, reservation="job_a")],
    "a job is charged twice": [reserve(5, "job_a"), charge(5, reservation="job_a"), charge(5, reservation="job_a")],
    "a job is charged after it was given back": [reserve(5, "job_a"), void(5, "job_a"), charge(5, reservation="job_a")],
    "a job is given back after it was charged": [reserve(5, "job_a"), charge(5, reservation="job_a"), void(5, "job_a")],
    "a job is given back twice": [reserve(5, "job_a"), void(5, "job_a"), void(5, "job_a")],
    "more is given back than was held": [reserve(5, "job_a"), void(6, "job_a")],
    "less is given back than was held": [reserve(5, "job_a"), void(4, "job_a")],
    "a reservation is opened twice": [reserve(5, "job_a"), reserve(5, "job_a")],
    "more is drawn from a reservation than it holds": [reserve(5, "res_a"), charge(6, reservation="res_a")],
    "a job draws on a reservation that is not there": [reserve(5, "job_a", **{"from": "res_a"})],
    "a job gives back to a reservation that is not there": [reserve(5, "job_a"), void(5, "job_a", to="res_a")],
    "a second account is opened": [opening(10**6)],
    "nothing is charged": [charge(0)],
    "nothing is reserved": [reserve(0, "job_a")],
    "a negative charge": [charge(-1)],
    "something else costs": [{"kind": "derive", "units": "1", "actor": HOLDER}],
    "a kind that nobody knows": [{"kind": "refund", "units": "1", "actor": HOLDER}],
    "one admin raises the limit": [{"kind": "limit", "units": "200", "actor": "prn_root", "approved_by": "prn_root"}],
    "a charge names no permit where there are some": [permit(), charge(5)],
    "a charge names a permit that was not granted": [permit(), charge(5, permit=B)],
    "a charge of somebody else than the permit's people": [permit(), charge(5, permit=A, actor="prn_ben")],
    "a charge for another dataset than the permit's": [permit(), charge(5, permit=A, dataset="twin")],
    "a charge at the permit's end": [permit(expires_at=MOMENT), charge(5, **UNDER_A)],
    "a charge after it was ended": [permit(), permit(people={}, datasets={}, expires_at=MOMENT), charge(5, **UNDER_A)],
    "a charge beyond the permit's limit": [permit(permit_limit="4"), charge(5, **UNDER_A)],
    "charges beyond it together": [permit(permit_limit="9"), charge(5, **UNDER_A), charge(5, **UNDER_A)],
    "what is held counts": [
        permit(permit_limit="9"),
        reserve(5, "job_a", time=MOMENT, **UNDER_A),
        charge(5, **UNDER_A),
    ],
    "a job is reserved after the end": [permit(expires_at=MOMENT), reserve(5, "job_a", time=MOMENT, **UNDER_A)],
    "a job is charged after the end": [
        permit(expires_at="2026-03-03T00:00:00Z"),
        reserve(5, "job_a", time=MOMENT, **UNDER_A),
        charge(5, reservation="job_a", **UNDER_A | {"time": "2026-03-03T00:00:00Z"}),
    ],
    "a permit's limit falls below what was spent": [permit(), charge(5, **UNDER_A), permit(permit_limit="4")],
    "one officer grants alone": [permit(**ALONE)],
    "the curator grants by itself": [permit(actor="curator", approved_by="curator")],
    "one officer raises a limit alone": [permit(permit_limit="4"), permit(permit_limit="5", **ALONE)],
    "one officer lifts a limit alone": [permit(permit_limit="4"), permit(**ALONE)],
    "one officer lengthens alone": [permit(expires_at=NEXT), permit(expires_at=LATER, **ALONE)],
    "one officer adds a person alone": [permit(), permit(people={HOLDER: "ada", "prn_ben": "ben"}, **ALONE)],
    "one officer adds a dataset alone": [permit(), permit(datasets={"ds_1": "cohort", "ds_2": "twin"}, **ALONE)],
    "a permit costs something": [permit(units="1")],
}


@pytest.mark.parametrize("entries", WRONG.values(), ids=list(WRONG))
def test_an_entry_that_breaks_a_rule_is_found_though_it_is_signed(entries: list[dict[str, Any]]) -> None:
    chain = make_chain([opening(100), *entries])
    found = verify(chain)
    assert found.bad_sequence == len(chain)
    is_below_zero = '":"-' in chain[-1].payload_text
    assert (found.reason == "the entry's text is not an entry") is is_below_zero


@pytest.mark.parametrize(
    "changed",
    [
        permit(rules={"none": 1}),
        permit(rules={"kinds": "counts"}),
        permit(permit_limit="9" * 5000),
        charge(5) | {"units": "9" * 5000},
        charge(5) | {"sequence": 2.5},
    ],
    ids=["a rule that there is not", "a rule that is none", "a limit", "an amount", "a sequence"],
)
def test_what_nobody_signed_is_told_whatever_it_holds(changed: dict[str, Any]) -> None:
    """Whoever may insert may insert it: a start says so, and does not fail over it."""
    first, last = make_chain([opening(100), charge(5)])
    place = {name: value for name, value in json.loads(last.payload_text).items() if name in Place.model_fields}
    text = canonical(place | {"units": "0"} | EXAMPLES[changed["kind"]].payload | changed)
    stray = replace(last, payload_text=text, entry_hash=entry_hash(text))
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)  # a library may have lifted what a start has
    try:
        found = verify_chain("town", [first, stray], Account(), is_signed)
    finally:
        sys.set_int_max_str_digits(before)
    assert (found.bad_sequence, found.reason) == (2, "the entry's text is not an entry")


RIGHT: dict[str, list[dict[str, Any]]] = {
    "a charge under a permit": [permit(permit_limit="5", expires_at=NEXT), charge(5, **UNDER_A)],
    "two officers widen": [permit(permit_limit="4"), permit(permit_limit="5", **OFFICERS), charge(5, **UNDER_A)],
    "one officer restricts": [permit(), permit(permit_limit="5", expires_at=NEXT, **ALONE), charge(5, **UNDER_A)],
    "what was held is given back after the end": [
        permit(),
        reserve(5, "job_a", time=MOMENT, **UNDER_A),
        permit(people={}, datasets={}, expires_at=MOMENT, **ALONE),
        void(5, "job_a", **UNDER_A),
    ],
}


@pytest.mark.parametrize("entries", RIGHT.values(), ids=list(RIGHT))
def test_what_permits_allow_holds(entries: list[dict[str, Any]]) -> None:
    found = verify(make_chain([opening(100), *entries]))
    assert found.ok, found.reason
    share = found.state.shares[A]
    assert (share.posted, share.pending) == (found.state.posted, found.state.pending)


@pytest.mark.parametrize("member", ["limit", "posted", "pending"])
def test_a_signed_entry_that_states_another_account_is_found(member: str) -> None:
    chain = make_chain([opening(100), reserve(5, "job_a"), charge(5, reservation="job_a")], **{member: "7"})
    found = verify(chain)
    assert found.bad_sequence == 3
    assert "states another account" in found.reason


def test_the_last_signature_alone_covers_every_entry_before() -> None:
    """A start verifies one signature of each chain; the audit verifies them all."""
    chain = make_chain([opening(100), charge(5), charge(6)])
    forged = [replace(entry, signature="x") for entry in chain[:-1]]
    assert verify([*forged, chain[-1]], every_signature=False).ok
    assert verify([*forged, chain[-1]]).bad_sequence == 1
    assert verify([*chain[:-1], replace(chain[-1], signature="x")], every_signature=False).bad_sequence == 3
    rewritten = make_chain([opening(100), charge(1), charge(6)])  # the amounts of another history
    assert verify([*rewritten[:-1], chain[-1]], every_signature=False).bad_sequence == 3


@pytest.mark.parametrize("version", [1, 3, "2", None])
def test_an_entry_of_another_format_is_refused_though_it_is_signed(version: object) -> None:
    chain = make_chain([opening(100), {**charge(5), "format": version}, charge(6)])
    found = verify(chain)
    assert found.bad_sequence == 2
    assert "format" in found.reason


@pytest.mark.parametrize("every_signature", [False, True])
def test_an_unsigned_beginning_is_refused_though_a_signed_entry_follows_its_hash(every_signature: bool) -> None:
    """An entry is believed in one way: the format without signatures was never released."""
    stated = {"format": 1, "population": "town", "sequence": 1, "previous_hash": GENESIS, **opening(100)}
    text = canonical(stated)
    digest = hashlib.sha256(b"curator-ledger-entry:1\n" + text.encode()).hexdigest()
    signed = {
        "format": FORMAT, "units": "0", "population": "town", "sequence": 2, "previous_hash": digest,
        "epoch": 1, "key_id": KEY, "limit": "100", "posted": "0", "pending": "0", **EXAMPLES["key"].payload,
    }  # fmt: skip
    payload_text = canonical(signed)
    checkpoint = Checkpoint("town", 2, entry_hash(payload_text), 1, 100, 0, 0, KEY)
    chain = [StoredEntry(1, text, digest, ""), StoredEntry(2, payload_text, entry_hash(payload_text), sign(checkpoint))]
    found = verify(chain, every_signature=every_signature)
    assert found.bad_sequence == 1
    assert "format" in found.reason


def test_a_receipt_reads_back_as_the_checkpoint_that_was_signed() -> None:
    entry = make_chain([opening(100), charge(5)])[-1]
    signed = Receipt(entry.payload_text, entry.entry_hash, entry.signature).signed
    assert (signed.checkpoint.posted, signed.checkpoint.limit, signed.checkpoint.sequence) == (5, 100, 2)
    assert is_signed(signed.checkpoint, signed.signature)
    assert json.loads(Receipt(entry.payload_text, entry.entry_hash, entry.signature).text) == {
        **json.loads(entry.payload_text),
        "entry_hash": entry.entry_hash,
        "signature": entry.signature,
    }


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9)), max_size=5))
def test_canonical_text_reads_back_and_does_not_depend_on_order(payload: dict[str, int | str]) -> None:
    text = canonical(payload)
    assert json.loads(text) == payload
    assert canonical(dict(reversed(list(payload.items())))) == text
