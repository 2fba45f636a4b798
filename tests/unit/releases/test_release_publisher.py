"""The order of what charges and publishes, and what is left when one of its steps fails."""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from entry_examples import EXAMPLES, PLACE
from fakes import ADA, BOB, KEPT, RULED, Stage, make_dataset, make_population, make_prepared, render, submit
from sqlalchemy.exc import OperationalError

from curator_service.kit.problems import TooManyRequests, Unavailable
from curator_service.ledger.accounts.unit_of_work import Contradiction, Refused
from curator_service.ledger.chain.entries import canonical
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.permits.service import PermitExpired
from curator_service.releases.rendering import answer_digest
from curator_service.releases.repository import KnownKey, StoredRelease
from curator_service.releases.submission import ATTEMPTS, JobEnded, Submission

STORE = ["store", "list", "count space"]
CHARGED = EXAMPLES["charge"].payload | {"snapshot": "5" * 64}
RECEIPT: Any = SimpleNamespace(payload_text=canonical(CHARGED | PLACE))
CHARGE = [
    "draw",
    "begin",
    "claim",
    "charge",
    "check current",
    "check latest",
    "look",
    "sum",
    "record",
    *STORE,
    "commit",
]
RESERVE = ["begin", "claim", "reserve", "check registered", "look", "look at jobs", "commit"]
COMPUTE = ["draw", "time begins", "sum", "public time"]
POST = ["begin", "post", "check current", "check latest", "record", *STORE, "answer keys", "commit"]
WORK = ["check open", "give connection back", *COMPUTE, *POST]
DERIVE = ["begin", "claim", "record", "check registered", "look", *STORE, "commit"]
BROKEN = OperationalError("", {}, Exception())
DEADLOCK = psycopg.errors.DeadlockDetected()

IMMEDIATE = submit(make_prepared("age", "weight", kind=KEPT))
LONG = submit(make_prepared("age", "weight"))
BLOCK, SOURCE = submit(make_prepared("weight")), make_prepared("age", "weight", "height", price={"mu": 0.2})

Publish = Callable[[Stage], StoredRelease | None]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def charge(stage: Stage, submission: Submission = IMMEDIATE) -> StoredRelease | None:
    return stage.publisher.charge_and_publish(submission, make_population())


def wait(stage: Stage, submission: Submission = LONG) -> StoredRelease | None:
    return stage.publisher.reserve_and_publish(submission, make_population())


def derive(stage: Stage) -> StoredRelease | None:
    source = StoredRelease("rel_1", "ds_1", "town", 3, "", render(SOURCE), RECEIPT)
    return stage.publisher.derive(BLOCK, source)


# --- The order


def test_what_takes_no_time_is_charged_before_rows_are_looked_at_and_stored_last(stage: Stage) -> None:
    assert charge(stage) is stage.stored[0]
    assert stage.steps == CHARGE


def test_what_takes_time_is_reserved_then_computed_outside_of_a_transaction_then_posted(stage: Stage) -> None:
    assert wait(stage) is stage.stored[0]
    assert stage.steps == ["place", "attend", *RESERVE, *WORK, "attend no more", "leave place"]


def test_a_block_is_published_in_one_unit_without_a_charge_and_without_noise(stage: Stage) -> None:
    assert derive(stage) is stage.stored[0]
    assert stage.steps == DERIVE
    assert [entry["kind"] for entry in stage.entries] == ["derive"]


@pytest.mark.parametrize(("publish", "submission"), [(charge, IMMEDIATE), (wait, LONG)])
def test_noise_is_drawn_while_nothing_is_locked_and_before_sums_are_known(
    stage: Stage, publish: Publish, submission: Submission
) -> None:
    publish(stage, submission)
    before = stage.steps[: stage.steps.index("draw")]
    assert before.count("begin") == before.count("commit")
    assert "sum" not in before


@pytest.mark.parametrize(("publish", "kind"), [(charge, KEPT), (wait, RULED)])
def test_a_fresh_draw_looks_at_nothing_that_is_stored(stage: Stage, publish: Publish, kind: object) -> None:
    publish(stage, submit(make_prepared("age", kind=kind, fresh=True)))
    assert {"look", "look at jobs"}.isdisjoint(stage.steps)
    assert len(stage.stored) == 1


# --- What is written


@pytest.mark.parametrize("publish", [charge, wait, derive])
def test_the_entry_holds_the_digest_of_the_answer_that_is_stored(stage: Stage, publish: Publish) -> None:
    publish(stage)
    (entry,), (release,) = stage.entries, stage.stored
    assert (entry["answer_digest"], entry["release"]) == (answer_digest(release.answer), release.id)
    assert json.loads(release.answer)["id"] == release.id
    assert entry["actor"] == ADA.id


@pytest.mark.parametrize(("publish", "submission"), [(charge, IMMEDIATE), (wait, LONG)])
def test_an_answer_is_the_exact_sums_with_the_noise_that_was_drawn(
    stage: Stage, publish: Publish, submission: Submission
) -> None:
    publish(stage, submission)
    assert json.loads(stage.stored[0].answer)["statistics"]["rows"]["values"] == [2.0, 3.0]  # 1 and 2, and noise of 1
    assert stage.entries[0]["units"] == submission.prepared.cost


def test_a_block_has_values_of_its_source(stage: Stage) -> None:
    derive(stage)
    content = json.loads(stage.stored[0].answer)
    assert (content["statistics"]["rows"]["values"], content["derived_from"]) == ([2.0], "rel_1")
    assert (stage.entries[0]["source"], stage.entries[0]["units"]) == ("rel_1", 0)


def test_a_charge_names_the_reservation_that_pays_or_the_job_that_held_it(stage: Stage) -> None:
    charge(stage)
    charge(stage, submit(IMMEDIATE.prepared, reservation_id="res_1", project="heart"))
    wait(stage)
    assert stage.job is not None
    assert [entry.get("reservation") for entry in stage.entries] == [None, "res_1", stage.job.id]
    assert stage.entries[1]["project"] == "heart"


def test_a_job_holds_the_cost_under_the_digest_by_which_others_join_it(stage: Stage) -> None:
    wait(stage)
    assert stage.job is not None
    assert (stage.job.units, stage.job.owner) == (LONG.prepared.cost, stage.worker_id)
    assert stage.job.request_digest == LONG.prepared.request_digest
    assert submit(LONG.prepared, BOB).joins(stage.job)
    wait(stage, submit(make_prepared("age", fresh=True)))
    assert stage.job.request_digest == ""


def test_what_a_job_worked_for_has_its_space(stage: Stage) -> None:
    for publish in (charge, derive, wait):
        publish(stage)
    assert stage.space_max[:2] == [10**6, 10**6]
    assert stage.space_max[2] > 2**40


# --- Where a step refuses


@pytest.mark.parametrize(
    ("publish", "step", "steps"),
    [
        *((charge, step, CHARGE) for step in ("claim", "look", "count space")),
        *((derive, step, DERIVE) for step in ("claim", "look", "count space")),
        *((wait, step, ["place", "attend", *RESERVE]) for step in ("claim", "look")),
    ],
)
def test_nothing_is_stored_where_the_key_the_library_or_the_space_decides(
    stage: Stage, publish: Publish, step: str, steps: list[str]
) -> None:
    stage.refusing.add(step)
    assert publish(stage) is None
    until = steps[: steps.index(step) + 1]
    assert stage.steps[: len(until) + 1] == [*until, "undo"]
    assert (stage.stored, stage.entries) == ([], [])
    assert "sum" not in stage.steps or step == "count space"


@pytest.mark.parametrize(("publish", "step"), [(charge, "charge"), (wait, "reserve")])
def test_no_row_is_looked_at_for_what_does_not_fit_the_budget(stage: Stage, publish: Publish, step: str) -> None:
    stage.failing[step] = Refused()
    assert publish(stage) is None
    assert "sum" not in stage.steps
    assert stage.stored == []


@pytest.mark.parametrize("step", CHARGE[1:])
@pytest.mark.parametrize("error", [Contradiction("changed"), RuntimeError()])
def test_nothing_is_stored_where_a_step_fails(stage: Stage, step: str, error: Exception) -> None:
    stage.failing[step] = error
    with pytest.raises(type(error)):
        charge(stage)
    assert (stage.stored, stage.entries) == ([], [])


def test_a_dataset_that_is_not_the_registered_one_is_not_looked_at(stage: Stage) -> None:
    stage.failing["check registered"] = stage.failing["check latest"] = Contradiction("another manifest")
    for publish in (charge, wait, derive):
        with pytest.raises(Contradiction):
            publish(stage)
    assert "sum" not in stage.steps
    assert stage.stored == []


def test_who_works_on_the_same_request_is_waited_for(stage: Stage) -> None:
    wait(stage)
    assert stage.job is not None
    stage.running = [stage.job]
    assert wait(stage) is None
    assert wait(stage, submit(make_prepared("height"))) is not None


def test_nobody_waits_for_a_job_whose_answer_they_may_not_read(stage: Stage) -> None:
    private = make_prepared("age", dataset=make_dataset(shared=False))
    wait(stage, submit(private))
    assert stage.job is not None
    assert submit(private, ADA).joins(stage.job)
    assert not submit(private, BOB).joins(stage.job)


# --- Where the database fails


@pytest.mark.parametrize("publish", [charge, wait])
def test_what_was_undone_for_its_moment_is_looked_at_again(stage: Stage, publish: Publish) -> None:
    stage.failing["commit"] = [DEADLOCK]
    assert publish(stage) is None
    assert stage.stored == []


def test_a_commit_whose_outcome_is_unknown_is_looked_up_by_its_key(stage: Stage) -> None:
    stage.failing["commit"] = BROKEN
    stage.known_key = KnownKey(IMMEDIATE.prepared.fingerprint, "rel_7", None)
    found = charge(stage)
    assert found is not None
    assert found.id == "rel_7"
    for unknown in (None, KnownKey("of another request", "rel_7", None), KnownKey("", None, "job_1")):
        stage.known_key = unknown
        with pytest.raises(OperationalError):
            charge(stage)


# --- Jobs


@pytest.mark.parametrize(
    "step",
    ["draw", "sum", "post", "check current", "check latest", "record", "store", "answer keys", "give connection back"],
)
def test_a_job_that_fails_gives_its_reservation_back(stage: Stage, step: str) -> None:
    stage.failing[step] = RuntimeError("a secret")
    with pytest.raises(RuntimeError):
        wait(stage)
    assert stage.steps[-3:] == ["end voided", "attend no more", "leave place"]
    assert stage.stored == []


@pytest.mark.parametrize("error", [BROKEN, Unavailable("sealed")])
def test_the_failure_of_a_job_is_told_though_its_reservation_stays(stage: Stage, error: Exception) -> None:
    """The watcher gives it back then."""
    stage.failing |= {"sum": RuntimeError(), "end voided": error}
    with pytest.raises(RuntimeError):
        wait(stage)


@pytest.mark.parametrize("failing", ["", "sum"])
def test_a_pass_over_rows_ends_at_its_public_time_however_it_ends(stage: Stage, failing: str) -> None:
    stage.failing[failing] = RuntimeError()
    try:
        wait(stage)
    except RuntimeError:
        assert failing
    begin, end = stage.steps.index("time begins"), stage.steps.index("public time")
    assert stage.steps[begin - 1 : end] == ["draw", "time begins", "sum"]  # noise takes a time of its own
    assert {"begin", "end voided"} & set(stage.steps[end:])
    assert stage.timed == [LONG.prepared.duration_s]
    assert LONG.prepared.duration_s > 0


def test_what_reads_no_rows_has_no_public_time(stage: Stage) -> None:
    charge(stage)
    assert stage.timed == []


@pytest.mark.parametrize(
    ("state", "outcome", "refusal"), [("closed", "cancelled", JobEnded), ("closed", "voided", Unavailable)]
)
def test_a_job_that_has_ended_is_not_begun(stage: Stage, state: str, outcome: str, refusal: type[Exception]) -> None:
    stage.publisher.start_job(LONG, make_population())
    assert stage.job is not None
    stage.job = replace(stage.job, state=state, outcome=outcome)
    with pytest.raises(refusal):
        stage.queued[0]()
    assert {"draw", "sum"}.isdisjoint(stage.steps)


@pytest.mark.parametrize(("outcome", "refusal"), [("cancelled", JobEnded), ("voided", Unavailable)])
def test_a_job_that_ends_while_it_is_worked_on_is_computed_no_more(
    stage: Stage, outcome: str, refusal: type[Exception]
) -> None:
    stage.publisher.start_job(LONG, make_population())

    def end() -> None:
        assert stage.job is not None
        stage.job = replace(stage.job, state="closed", outcome=outcome)

    stage.cancels_at_work = end
    with pytest.raises(refusal):
        stage.queued[0]()
    assert {"post", "perturb"}.isdisjoint(stage.steps)
    assert stage.stored == []


def test_a_pass_that_cannot_be_told_to_stop_ends_at_its_public_time_alone(stage: Stage) -> None:
    """Or the step at which its thread is free tells when it really ended."""
    stage.storage.engine.is_here = False
    stage.cancels_at_work = pytest.fail
    stage.publisher.start_job(LONG, make_population())
    stage.queued[0]()
    assert stage.steps == ["place", *RESERVE, *WORK]


def test_a_job_waits_for_its_turn_before_it_looks_at_rows(stage: Stage) -> None:
    assert stage.publisher.start_job(LONG, make_population()) is stage.job
    assert stage.steps == ["place", *RESERVE]
    stage.queued[0]()
    assert stage.steps == ["place", *RESERVE, *WORK]


def test_a_job_that_was_not_reserved_is_not_queued(stage: Stage) -> None:
    stage.refusing.add("claim")
    assert stage.publisher.start_job(LONG, make_population()) is None
    assert stage.queued == []


def test_nothing_is_reserved_where_there_is_no_place(stage: Stage) -> None:
    stage.refusing.add("place")
    with pytest.raises(TooManyRequests):
        wait(stage)
    with pytest.raises(TooManyRequests):
        stage.publisher.start_job(LONG, make_population())
    assert stage.steps == ["place", "place"]


def test_posting_is_tried_again_so_often_and_then_given_up(stage: Stage) -> None:
    stage.failing["post"] = [DEADLOCK] * (ATTEMPTS - 1)
    assert wait(stage) is not None
    stage.failing["post"], stage.steps[:] = DEADLOCK, []
    with pytest.raises(Unavailable):
        wait(stage)
    assert (stage.steps.count("post"), stage.steps.count("draw")) == (ATTEMPTS, 1)
    assert "end voided" in stage.steps


def test_what_may_not_be_posted_of_an_open_job_is_of_a_sealed_curator(stage: Stage) -> None:
    stage.refusing |= {"post", "seal"}
    with pytest.raises(LedgerUnverified):
        wait(stage)
    assert stage.stored == []
    assert "end voided" not in stage.steps  # nothing is given back under a seal


def test_what_may_not_be_posted_though_nothing_is_sealed_is_of_a_permit_that_has_ended(stage: Stage) -> None:
    stage.refusing.add("post")
    with pytest.raises(PermitExpired):
        wait(stage)
    assert stage.stored == []
    assert "end expired" in stage.steps  # what it held goes back
