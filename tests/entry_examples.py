"""An example of each kind of entries, with the members that it must have."""

from collections.abc import Mapping
from typing import Any

from curator_service.approvals.entries import Discussed, ProposalExpired, ProposalRejected, ProposalWithdrawn, Proposed
from curator_service.entries.amounts import Charge, Derive, PartModel, Reserve, Void
from curator_service.entries.base import Entry, Event
from curator_service.entries.recovery import Reconcile
from curator_service.entries.rows import Confirmation, Dataset, Refusal
from curator_service.entries.sessions import AnswerQuestion, CloseSession, OpenSession
from curator_service.entries.terms import Key, Limit, Open, Permit
from curator_service.identity.entries import PersonNamed, PersonNameErased, PrincipalNamed, TokenIssued, TokenRevoked
from curator_service.identity.policy import Role
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution
from curator_service.surveys.entries import SurveyClosed, SurveyOpened

DIGEST = "0f" * 32
MOMENT = "2026-03-01T12:00:00Z"
PRINCIPAL, PROPOSAL, PERMIT = "prn_" + "0" * 24, "prp_" + "0" * 24, "prm_" + "0" * 24
SESSION = "ses_" + "0" * 24
BY = {"actor": "operator:test", "time": MOMENT}
OF_TWO = {"actor": "prn_olga", "approved_by": "prn_otto", "reason": "so", "time": MOMENT}
PART = PartModel(
    statistic="xtx",
    distribution=Distribution.DISCRETE_GAUSSIAN,
    sensitivity="4987722800260386420",
    norm="L2 squared",
    copies=1,
    scales=("631678576510", "631678576510"),
)
ANSWERED = {
    "dataset": "cohort",
    "release": "rel_" + "0" * 24,
    "request_digest": DIGEST,
    "answer_digest": DIGEST,
    "snapshot": DIGEST,
    "release_kind": "gram",
}
CLOSED = {"proposal": PROPOSAL, "asked_by": PRINCIPAL, "reason": "no"}
_EXAMPLES: list[Event] = [
    Open(**BY, adjacency=Adjacency.ADD_REMOVE, accountant="gdp", delta="1e-06"),
    Dataset(**BY, dataset="cohort", dataset_id="ds_1", manifest_digest=DIGEST, snapshot=DIGEST),
    Reserve(**BY, reservation="res_1"),
    Void(**BY, reservation="res_1", holder="prn_ada", outcome="closed"),
    Charge(**BY, **ANSWERED, mechanism=(PART,)),
    Derive(**BY, **ANSWERED, source="rel_" + "1" * 24),
    OpenSession(
        **BY,
        session=SESSION,
        dataset="cohort",
        snapshot=DIGEST,
        direction="above",
        positives=2,
        sensitivity="17179607041",
        threshold_scale="444000000000",
        question_scale="560000000000",
    ),
    AnswerQuestion(**BY, session=SESSION, number=1, positives=0, question_digest=DIGEST, answer="positive"),
    CloseSession(**BY, session=SESSION, holder="prn_ada"),
    Limit(**OF_TWO),
    Permit(
        **OF_TWO,
        permit=PERMIT,
        version=1,
        project="",
        people={"prn_ada": "ada"},
        datasets={"ds_1": "cohort"},
        purpose="",
        legal_basis="",
        conditions="",
    ),
    Key(**BY, signing_key="key_" + "1" * 32),
    Refusal(**BY, dataset="cohort", manifest_digest=DIGEST, like="valley"),
    Confirmation(**OF_TWO, rows=DIGEST),
    Reconcile(**BY, kept_through="1", lost=[], all="no", voided={}),
    PrincipalNamed(**BY, principal=PRINCIPAL, name="ada", roles=[Role.ANALYST]),
    TokenIssued(
        **BY,
        token="0" * 16,
        principal=PRINCIPAL,
        holder="ada",
        scopes=["analyst"],
        expires_at=MOMENT,
        commitment=DIGEST,
    ),
    TokenRevoked(**BY, token="0" * 16, holder="ada"),
    PersonNamed(**BY, principal=PRINCIPAL, commitment=DIGEST),
    PersonNameErased(**BY, principal=PRINCIPAL),
    Proposed(**BY, proposal=PROPOSAL, about="rows", of_population="town", reason="so"),
    Discussed(**BY, proposal=PROPOSAL, message="msg_" + "0" * 24, asked_by=PRINCIPAL, text="why?"),
    ProposalRejected(**BY, **CLOSED),
    ProposalWithdrawn(**BY, **CLOSED),
    ProposalExpired(**BY, **CLOSED),
    SurveyOpened(**BY, survey="smoking", question_digest=DIGEST, participants="invited", reports_max=9),
    SurveyClosed(**BY, survey="smoking"),
]
EXAMPLES = {event.kind: event for event in _EXAMPLES}
PLACE = {
    "format": 2,
    "population": "town",
    "sequence": 2,
    "previous_hash": "0" * 64,
    "units": "5",
    "epoch": 1,
    "limit": "9",
    "posted": "5",
    "pending": "0",
    "key_id": "key_" + "0" * 32,
}


def read(answered: Mapping[str, Any]) -> Entry[Any]:
    """Read an entry as it is answered: with its hash and its signature."""
    return Entry.read({name: value for name, value in answered.items() if name not in {"entry_hash", "signature"}})
