"""The hash chain: sound ones verify, and one changed character anywhere is found."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from curator_service.ledger.chain import GENESIS, AccountState, StoredEntry, canonical, entry_hash, verify_chain


def make_chain(amounts: list[int], limit: int) -> list[StoredEntry]:
    """Return a sound chain: an opening, then charges."""
    entries, previous = [], GENESIS
    for sequence, units in enumerate([limit, *amounts], start=1):
        terms = {"adjacency": "add_remove", "accountant": "gdp", "delta": "1e-06", "time": "2026-03-01T12:00:00Z"}
        payload = canonical(
            {
                **(terms if sequence == 1 else {}),
                "format": 1,
                "kind": "open" if sequence == 1 else "charge",
                "population": "town",
                "sequence": sequence,
                "units": str(units),
                "previous_hash": previous,
            }
        )
        previous = entry_hash(payload)
        entries.append(StoredEntry(sequence, payload, previous))
    return entries


amounts = st.lists(st.integers(1, 10**18), min_size=1, max_size=6)


@given(amounts, st.data())
def test_one_changed_character_is_found_at_its_entry(charges: list[int], data: st.DataObject) -> None:
    chain = make_chain(charges, sum(charges))
    index = data.draw(st.integers(0, len(chain) - 1))
    text = chain[index].payload
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[place]))
    chain[index] = replace(chain[index], payload=text[:place] + other + text[place + 1 :])
    found = verify_chain("town", chain, AccountState())
    assert found.bad_sequence == index + 1
    assert found.entries == index + 1


@given(amounts, st.data())
def test_a_removed_entry_is_found_at_its_place(charges: list[int], data: st.DataObject) -> None:
    chain = make_chain(charges, sum(charges))
    index = data.draw(st.integers(0, len(chain) - 2))
    del chain[index]
    assert verify_chain("town", chain, AccountState()).bad_sequence == index + 1


@given(amounts)
def test_charges_beyond_the_limit_are_found_at_the_first_that_exceeds_it(charges: list[int]) -> None:
    chain = make_chain(charges, sum(charges) - 1)
    found = verify_chain("town", chain, AccountState())
    assert (found.bad_sequence, found.reason) == (len(chain), "the charges exceed the limit")


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9)), max_size=5))
def test_canonical_text_reads_back_and_does_not_depend_on_order(facts: dict[str, int | str]) -> None:
    text = canonical(facts)
    assert json.loads(text) == facts
    assert canonical(dict(reversed(list(facts.items())))) == text
