"""A curator is held to what it signed before: wound back, forked, restored."""

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_examples import (
    DATASET,
    FIRST,
    QUOTE,
    RECEIPT,
    RELEASE_TEXT,
    Curator,
    Ledger,
    ask,
    compact,
    problem,
    release_body,
    released,
    with_receipt,
)
from patience import scaled

from analyst_client import CuratorClient, RequestInvalidError
from analyst_client.errors import (
    LedgerForkedError,
    LedgerRestoredWarning,
    LedgerSealedError,
    ReceiptInvalidError,
    ServiceError,
)
from analyst_client.ledger import Checkpoint


def highest(client: CuratorClient, population: str = "olmsted") -> Checkpoint:
    return client._session.trust.memory.refresh().highest[population]


def forked(call: Any) -> LedgerForkedError:
    with pytest.raises(LedgerForkedError) as caught:
        call()
    return caught.value


# What is checked


def test_release_is_remembered() -> None:
    client = Curator(released()).client()
    ask(client)
    assert highest(client).members == {name: RECEIPT[name] for name in highest(client).members}


def rewritten(old: str, new: str) -> str:
    assert old in RELEASE_TEXT
    return RELEASE_TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (rewritten("900.0", "900.5"), "answer_digest"),
        (rewritten('"actor":"prn_1"', '"actor":"prn_2"'), "entry_hash"),
        (rewritten('"format":2', '"format":1'), "format 1 are unknown"),
        (compact(release_body()), "no receipt"),
        (with_receipt(release_body(), release="rel_2"), "release: "),
        (
            with_receipt(release_body() | {"dataset": "other"}, dataset="other"),
            "'flchain' was asked, and one of 'other'",
        ),
        (with_receipt(release_body(), kind="reserve"), "is the charge of no release"),
        (rewritten(RECEIPT["signature"], Ledger().post()["signature"]), "signature"),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("answer", ["new", "replayed", "stored", "derived"])
def test_release_that_does_not_hold_is_refused_but_kept(text: str, reason: str, answer: str) -> None:
    client = Curator(released(text, answer)).client()
    with pytest.raises(ReceiptInvalidError, match=reason) as caught:
        ask(client, idempotency_key="mine")
    assert any(reason in said for said in caught.value.reasons)
    assert (caught.value.release.text, caught.value.idempotency_key) == (text, "mine")
    assert client._session.trust.memory.refresh().highest == {}


def test_release_that_is_fetched_is_checked_too() -> None:
    client = Curator(released(rewritten("900.0", "900.5")), released()).client()
    with pytest.raises(ReceiptInvalidError, match="answer_digest"):
        client.fetch_release("rel_1")
    with pytest.raises(ServiceError, match="rel_7 was asked"):
        client.fetch_release("rel_7")


def test_budget_is_checked_and_remembered() -> None:
    ledger = Ledger()
    client = Curator(ledger.budget).client()
    assert client.budget("flchain").checkpoint == highest(client) == Checkpoint.read(ledger.checkpoint)


def test_budget_with_a_signature_that_does_not_hold_is_refused() -> None:
    members = json.loads(Ledger().budget.content)
    members["checkpoint"]["posted"] = "1"
    client = Curator(httpx.Response(200, content=compact(members))).client()
    with pytest.raises(ReceiptInvalidError, match="signature"):
        client.budget("flchain")


@pytest.mark.parametrize("change", [{"population": "town"}, {"dataset": "other"}])
def test_budget_with_the_checkpoint_of_another_population_is_refused(change: dict[str, Any]) -> None:
    members = json.loads(Ledger().budget.content) | change
    with pytest.raises(ReceiptInvalidError, match="not that of this dataset's population"):
        Curator(httpx.Response(200, content=compact(members))).client().budget("flchain")


# What is sent back


def test_highest_checkpoint_is_sent_with_every_request_on_the_dataset() -> None:
    ledger = Ledger()
    first, page = released(ledger.release()), httpx.Response(200, content='{"releases":[],"next":null}')
    quote = httpx.Response(200, content=compact(QUOTE))
    curator = Curator(first, quote, ledger.budget, page, httpx.Response(200, content=compact(DATASET)))
    client = curator.client()
    ask(client)
    client.quote("flchain", ["age"], mu=0.1)
    client.budget("flchain")
    client.releases("flchain")
    client.dataset("flchain")
    curator.answers = [
        released(ledger.release()),
        httpx.Response(200, content='{"datasets":[]}'),
        problem("not-found", 404),
    ]
    ask(client)
    client.datasets()
    with pytest.raises(RequestInvalidError):
        client.budget("another")
    assert curator.checkpoints == [None, *[highest_of(first)] * 5, None, None]


def highest_of(answer: httpx.Response) -> dict[str, Any]:
    receipt = json.loads(answer.content)["receipt"]
    return Checkpoint.read(receipt).members


def test_header_is_one_line_of_canonical_json_in_base64url() -> None:
    curator = Curator(released(), problem("not-found", 404))
    client = curator.client()
    ask(client)
    with pytest.raises(RequestInvalidError):
        client.budget("flchain")
    value = curator.requests[1].headers["Curator-Checkpoint"]
    assert set(value) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert list(curator.checkpoints[1]) == sorted(curator.checkpoints[1])


def test_population_is_known_from_a_listing_as_well() -> None:
    """Another dataset of the same population, which this client never asked for anything."""
    listing = httpx.Response(200, content=compact({"datasets": [DATASET, DATASET | {"name": "other"}]}))
    curator = Curator(released(), listing, problem("not-found", 404))
    client = curator.client()
    ask(client)
    client.datasets()
    with pytest.raises(RequestInvalidError):
        client.budget("other")
    assert curator.checkpoints == [None, None, highest(client).members]


def test_listing_does_not_move_a_dataset_whose_population_was_signed() -> None:
    moved = httpx.Response(200, content=compact({"datasets": [DATASET | {"population": "town"}]}))
    curator = Curator(released(), moved, problem("not-found", 404))
    client = curator.client()
    ask(client)
    client.datasets()
    with pytest.raises(RequestInvalidError):
        client.budget("flchain")
    assert curator.checkpoints[-1] == highest(client).members


def test_next_process_sends_what_this_one_saw(tmp_path: Path) -> None:
    ask(Curator(released()).client(memory=tmp_path / "memory.json"))
    curator = Curator(problem("not-found", 404))
    client = curator.client(memory=tmp_path / "memory.json")
    with pytest.raises(RequestInvalidError):
        client.budget("flchain")
    assert curator.checkpoints == [highest(client).members]


def test_checkpoint_is_that_of_the_datasets_own_population() -> None:
    town = Ledger(population="town")
    other = with_receipt_of(town, "rel_2", "other")
    curator = Curator(released(), released(other), problem("not-found", 404))
    client = curator.client()
    ask(client)
    client.release("other", ["age", "sex"], target="kappa", mu=0.1, rows="box")
    with pytest.raises(RequestInvalidError):
        client.budget("other")
    assert curator.checkpoints == [None, None, town.checkpoint]


def with_receipt_of(ledger: Ledger, release_id: str, dataset: str) -> str:
    body = release_body() | {"id": release_id, "dataset": dataset}
    return ledger.release(body, release=release_id, dataset=dataset)


def test_checkpoint_that_the_curator_does_not_know_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    client = Curator(released(), problem("checkpoint-invalid", 400)).client(memory=path)
    ask(client)
    with pytest.raises(RequestInvalidError) as caught:
        client.budget("flchain")
    assert str(path) in caught.value.__notes__[0]


def test_sealed_curator_is_not_asked_again() -> None:
    curator = Curator(problem("ledger-unverified", 503, retry_after="1"))
    with pytest.raises(LedgerSealedError):
        ask(curator.client())
    assert curator.waits == []


# Forks


def test_another_entry_at_a_place_is_a_fork_and_the_paid_release_is_on_the_error() -> None:
    ledger = Ledger()
    wound_back = ledger.copy()
    first, other = ledger.release(actor="a"), wound_back.release(actor="b")
    client = Curator(released(first), released(other)).client()
    ask(client)
    error = forked(lambda: ask(client, idempotency_key="mine"))
    assert (error.release.text, error.idempotency_key) == (other, "mine")
    assert error.remembered == Checkpoint.read(json.loads(first)["receipt"])
    assert error.received == Checkpoint.read(json.loads(other)["receipt"])
    assert highest(client) == error.remembered


@pytest.mark.parametrize("answer", ["replayed", "stored", "derived"])
def test_another_entry_at_a_place_is_a_fork_in_an_older_answer_too(answer: str) -> None:
    ledger = Ledger()
    wound_back = ledger.copy()
    client = Curator(released(ledger.release()), released(ledger.release())).client()
    ask(client), ask(client)
    client._transport._http._transport = httpx.MockTransport(
        Curator(released(other := wound_back.release(actor="b"), answer), released(other))
    )
    assert forked(lambda: ask(client)).remembered.sequence == 12
    assert forked(lambda: client.fetch_release("rel_1")).release is not None


def test_new_answer_that_does_not_follow_what_was_seen_is_a_fork() -> None:
    client = Curator(released(Ledger(11).release()), released(Ledger(12).release())).client()
    ask(client)
    error = forked(lambda: ask(client))
    assert (error.remembered.sequence, error.received.sequence) == (12, 13)


@pytest.mark.parametrize("answer", ["new", None, "fresh", "NEW"])
@pytest.mark.parametrize("sequence", [5, 18, 19])
def test_new_answer_at_or_below_what_was_seen_is_a_fork(sequence: int, answer: str | None) -> None:
    """Whatever is not called older counts as new: the curator does not escape by saying nothing."""
    ahead = Ledger(20)
    ahead.post()
    text = Ledger(sequence).release()
    behind = httpx.Response(201, content=text.encode(), headers={} if answer is None else {"Curator-Answer": answer})
    client = Curator(ahead.budget, behind).client()
    client.budget("flchain")
    error = forked(lambda: ask(client))
    assert (error.remembered.sequence, error.received.sequence) == (21, sequence + 1)
    assert error.release.text == text


def test_new_answer_that_is_the_highest_one_again_is_a_fork() -> None:
    """A charge was asked for with a new key: the same entry cannot be its own."""
    client = Curator(released(), released()).client()
    ask(client)
    assert "not above" in str(forked(lambda: ask(client)))


def test_new_answer_in_a_lower_epoch_is_a_fork_however_high_its_sequence() -> None:
    ahead = Ledger(20, epoch=2)
    client = Curator(ahead.budget, released(Ledger(99, epoch=1).release())).client()
    client.budget("flchain")
    error = forked(lambda: ask(client))
    assert (error.remembered.order, error.received.order) == ((2, 21), (1, 100))


@pytest.mark.parametrize("answer", ["replayed", "stored", "derived"])
@pytest.mark.parametrize("older", [{"sequence": 5}, {"sequence": 99, "epoch": 1}])
def test_older_answers_may_be_below_what_was_seen(older: dict[str, int], answer: str) -> None:
    ahead = Ledger(20, epoch=2)
    client = Curator(ahead.budget, released(Ledger(**older).release(), answer), released(Ledger(3).release())).client()
    client.budget("flchain")
    assert ask(client).answer == answer
    client.fetch_release("rel_1")
    assert highest(client).order == (2, 21)


@pytest.mark.parametrize("below", [{"sequence": 19}, {"sequence": 5}, {"sequence": 99, "epoch": 1}])
def test_budget_below_what_was_seen_is_a_fork(below: dict[str, int]) -> None:
    ahead = Ledger(20, epoch=2)
    behind = Ledger(**({"epoch": 2} | below))
    client = Curator(ahead.budget, behind.budget).client()
    client.budget("flchain")
    error = forked(lambda: client.budget("flchain"))
    assert error.remembered == Checkpoint.read(ahead.checkpoint)
    assert error.received == Checkpoint.read(behind.checkpoint)
    assert error.release is None
    assert highest(client) == error.remembered


def test_budget_at_what_was_seen_is_the_same_or_a_fork() -> None:
    ledger = Ledger()
    other = ledger.copy()
    ledger.post(actor="a"), other.post(actor="b")
    client = Curator(ledger.budget, ledger.budget, other.budget).client()
    assert client.budget("flchain") == client.budget("flchain")
    forked(lambda: client.budget("flchain"))


def test_dataset_that_moves_to_a_fresh_population_is_refused() -> None:
    town = Ledger(population="town")
    client = Curator(released(), released(town.release()), town.budget).client()
    ask(client)
    error = forked(lambda: ask(client))
    assert (error.remembered.population, error.received.population) == ("olmsted", "town")
    assert error.release is not None
    forked(lambda: client.budget("flchain"))
    assert set(client._session.trust.memory.refresh().highest) == {"olmsted"}


def test_population_of_which_the_dataset_was_not_known_is_still_held_to_its_past() -> None:
    """The first request on another dataset of a population carries no checkpoint; its answer is compared anyway."""
    ledger = Ledger(20)
    client = Curator(ledger.budget, released(with_receipt_of(Ledger(7), "rel_2", "other"))).client()
    client.budget("flchain")
    forked(lambda: client.release("other", ["age"], mu=0.1))


def test_fork_is_found_across_processes(tmp_path: Path) -> None:
    ledger = Ledger()
    wound_back = ledger.copy()
    ask(Curator(released(ledger.release(actor="a"))).client(memory=tmp_path / "memory.json"))
    client = Curator(released(wound_back.release(actor="b"))).client(memory=tmp_path / "memory.json")
    forked(lambda: ask(client))


# Restored from a backup


def test_higher_epoch_is_accepted_with_a_warning_once() -> None:
    ledger, restored = Ledger(20), Ledger(14, epoch=2)
    client = Curator(ledger.budget, released(restored.release()), restored.budget).client()
    client.budget("flchain")
    with pytest.warns(LedgerRestoredWarning, match="restored from a backup") as caught:
        release = ask(client)
    assert release.receipt is not None
    (warning,) = (entry.message for entry in caught)
    assert isinstance(warning, LedgerRestoredWarning)
    assert (warning.remembered.order, warning.received.order) == ((1, 21), (2, 15))
    client.budget("flchain")  # warnings are errors here
    assert highest(client).order == (2, 15)


def test_warning_that_is_made_an_error_carries_the_release() -> None:
    restored = Ledger(14, epoch=2)
    client = Curator(Ledger(20).budget, released(restored.release())).client()
    client.budget("flchain")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LedgerRestoredWarning) as caught:
            ask(client)
    assert caught.value.release is not None
    assert highest(client).order == (2, 15)


def test_epoch_that_is_seen_first_is_no_restoration() -> None:
    ask(Curator(released(Ledger(epoch=7).release())).client())


# Several requests at once


def test_answers_that_overtake_each_other_are_no_fork() -> None:
    """Two charges at once: the later entry's answer arrives first. Each is above what was seen when it was sent."""
    ledger = Ledger()
    texts = [ledger.release(actor=str(i)) for i in range(2)]
    arrived = [threading.Event(), threading.Event()]
    both_sent = threading.Barrier(2)
    number = {"slow": 0, "quick": 1}

    def play(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/keys":
            return Curator()(request)
        name = request.headers["Idempotency-Key"]
        both_sent.wait(scaled(10))
        if name == "slow":
            assert arrived[1].wait(scaled(10))
        return released(texts[number[name]])

    client = Curator().client(key=FIRST.public_key)
    client._transport._http._transport = httpx.MockTransport(play)
    outcomes: dict[str, Any] = {}

    def buy(name: str) -> None:
        try:
            outcomes[name] = ask(client, idempotency_key=name, even_so=True)
        except BaseException as error:
            outcomes[name] = error
        arrived[number[name]].set()

    threads = [threading.Thread(target=buy, args=(name,)) for name in number]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(20))
    assert [getattr(outcomes[name], "text", outcomes[name]) for name in number] == texts
    assert highest(client).sequence == 13


def test_threads_of_one_client_see_one_ledger() -> None:
    ledger, lock = Ledger(), threading.Lock()

    def play(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/keys":
            return Curator()(request)
        with lock:
            return ledger.budget if request.method == "GET" else released(ledger.release())

    client = Curator().client()
    client._transport._http._transport = httpx.MockTransport(play)
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for _ in range(10):
                ask(client) if i % 2 else client.budget("flchain")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(30))
    assert failures == []
    assert highest(client).entry_hash == ledger.head


def test_an_account_that_states_less_spent_than_before_is_refused() -> None:
    """Somebody set the account back and went on: every entry is new, and signed."""
    ledger = Ledger(20)
    first, later = ledger.budget, ledger.copy()
    later.post(posted="5")
    client = Curator(first, later.budget).client()
    client.budget("flchain")
    with pytest.raises(LedgerForkedError, match="states less spent"):
        client.budget("flchain")
