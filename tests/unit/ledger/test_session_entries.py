"""Entries of threshold sessions move an account: so many positive answers, in order, and none after an end."""

from collections.abc import Mapping
from typing import Any

import pytest
from entry_examples import DIGEST, EXAMPLES, PLACE, SESSION

from curator_service.entries.account import Account, Share, Unfounded
from curator_service.entries.base import Entry
from curator_service.entries.told import Told

OPEN = EXAMPLES["session"].payload
DATASET = EXAMPLES["dataset"].payload


def answer(number: int, said: str, session: str = SESSION, positives: int = 0) -> dict[str, Any]:
    word = "positive" if said == "yes" else "negative"
    return EXAMPLES["answer"].payload | {
        "number": number, "answer": word, "session": session, "positives": positives,
    }  # fmt: skip


def follow(*entries: Mapping[str, Any]) -> Account:
    """Return an account after entries, the opening with an amount."""
    account = Account(limit=9, highest_limit=9)
    for said in entries:
        units = "5" if said["kind"] == "session" else "0"
        Entry.read(PLACE | {"units": units} | dict(said)).move(account)
    return account


def test_a_session_is_posted_and_counted_as_spent() -> None:
    account = follow(OPEN)
    assert (account.posted, account.is_used) == (5, True)
    ((charged, sums),) = account.spending.items()
    assert (charged.kind, charged.dataset, sums) == ("threshold", "cohort", (1, 5))
    assert account.sessions[SESSION].positives_max == 2


def test_negative_answers_are_without_number_and_the_last_positive_one_ends_it() -> None:
    answers = ["no", "no", "yes", "no", "yes"]
    asked = (answer(i + 1, said, positives=answers[:i].count("yes")) for i, said in enumerate(answers))
    account = follow(OPEN, *asked)
    assert account.sessions == {}


@pytest.mark.parametrize(
    "entries",
    [
        (answer(1, "no"),),
        (OPEN, answer(2, "no")),
        (OPEN, answer(1, "no"), answer(1, "no")),
        (OPEN, answer(1, "yes"), answer(2, "yes", positives=1), answer(3, "yes", positives=2)),
        (OPEN, answer(1, "yes"), answer(2, "yes", positives=1), answer(3, "no", positives=2)),
        (OPEN, answer(1, "yes"), answer(2, "no")),
        (OPEN, EXAMPLES["close"].payload, answer(1, "no")),
        (OPEN, DATASET, answer(1, "no")),
        (OPEN, answer(1, "no", "ses_" + "1" * 24)),
        (OPEN, OPEN),
        (EXAMPLES["close"].payload,),
        (OPEN, EXAMPLES["close"].payload, EXAMPLES["close"].payload),
    ],
    ids=[
        "never opened", "not the next", "twice", "a positive one more", "a negative one after the end",
        "forgets a positive one", "closed", "after a cut", "of another session", "opened twice", "closes nothing",
        "closed twice",
    ],
)  # fmt: skip
def test_a_chain_that_says_otherwise_is_unfounded(entries: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(Unfounded):
        follow(*entries)


def test_a_cut_of_another_dataset_ends_nothing() -> None:
    assert follow(OPEN, DATASET | {"dataset": "other"}, answer(1, "no")).sessions[SESSION].answered == 1


def test_a_reconciliation_ends_every_session() -> None:
    account = follow(OPEN)
    said = EXAMPLES["reconcile"].payload
    Entry.read(PLACE | {"epoch": 2, "limit": "99"} | said).move(account)
    with pytest.raises(Unfounded):
        Entry.read(PLACE | {"epoch": 2, "units": "0"} | answer(1, "no")).move(account)


def test_an_opening_is_held_against_its_permit() -> None:
    permit = "prm_" + "0" * 24
    account = Account(limit=9, highest_limit=9)
    account.shares[permit] = Share(limit=4, people=frozenset({"operator:test"}), datasets=frozenset({"cohort"}))
    with pytest.raises(Unfounded):
        Entry.read(PLACE | dict(OPEN) | {"permit": permit}).move(account)
    account.shares[permit] = Share(limit=9, people=frozenset({"operator:test"}), datasets=frozenset({"others"}))
    with pytest.raises(Unfounded):
        Entry.read(PLACE | dict(OPEN) | {"permit": permit}).move(account)


def test_what_is_told_follows_the_chain_and_knows_nothing_of_what_was_not_read() -> None:
    told = Told("town")
    for said in (answer(1, "yes"), OPEN, answer(1, "no"), answer(2, "yes")):
        Entry.read(PLACE | dict(said)).said.tell(told)
    found = told.sessions[SESSION]
    assert (found.answered, found.positives) == (2, 1)
    with pytest.raises(Unfounded):
        Entry.read(PLACE | dict(answer(1, "no"))).said.tell(told)
    Entry.read(PLACE | dict(DATASET)).said.tell(told)
    assert told.sessions == {}
    assert DIGEST in DATASET.values()
