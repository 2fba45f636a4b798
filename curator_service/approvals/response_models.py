"""Answers on proposals."""

from typing import Annotated, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from curator_service.approvals.repository import Proposal, Scope, State
from curator_service.approvals.terms import PermitTerms, PopulationTerms
from curator_service.kit.wire import Absent, Answer, Digits, Moment, left_out
from curator_service.ledger.response_models import AmountModel


class ProposalAnswer(Answer):
    """A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts in units."""

    id: Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$")]
    population: str
    scope: Annotated[
        Scope,
        Field(
            description="Empty for the account's limit; `rows` where rows that are like others were confirmed; earlier "
            "versions set limits of analysts and projects"
        ),
    ]
    label: str
    limit_units: Digits
    from_units: Annotated[Digits | None, Field(description="Null where there was no limit")]
    reason: str
    proposed_by: str
    proposed_at: Moment
    state: State
    decided_by: str | None
    decided_at: Moment | None
    decision: Annotated[str | Absent, Field(description="Why it was approved or rejected")] = left_out()
    terms: Annotated[PermitTerms | PopulationTerms | Absent, Field(description="A permit's, or a new population's")] = (
        left_out()
    )

    @classmethod
    def of(cls, proposal: Proposal) -> "ProposalAnswer":
        """State a proposal."""
        return cls.model_construct(
            id=proposal.id,
            population=proposal.population,
            scope=proposal.scope,
            label=proposal.label,
            limit_units=str(proposal.limit),
            from_units=None if proposal.was < 0 else str(proposal.was),
            reason=proposal.reason,
            proposed_by=proposal.proposed_by,
            proposed_at=proposal.proposed_at,
            state=proposal.state,
            decided_by=proposal.decided_by,
            decided_at=proposal.decided_at,
            decision=proposal.decision or None,
            terms=_read_terms(proposal.content),
        )


_TERMS: TypeAdapter[PermitTerms | PopulationTerms] = TypeAdapter(PermitTerms | PopulationTerms)


def _read_terms(content: str) -> PermitTerms | PopulationTerms | None:
    """Read stored terms; None where there are none, and where somebody changed the row to what no request says."""
    try:
        return _TERMS.validate_json(content) if content else None
    except ValidationError:
        return None


class LimitChange(Answer):
    """A limit as it was when another one was asked for, as it would be, and what is spent and held."""

    before: Annotated[AmountModel, Field(serialization_alias="from")]
    to: AmountModel
    spent_and_held: AmountModel


class MessageAnswer(Answer):
    """What somebody asked or answered about a proposal, as the register has it."""

    by: Annotated[str, Field(description="A name")]
    at: Moment
    text: str


class ProposalDetailAnswer(ProposalAnswer):
    """A proposal with names, with what it would change, and what was said about it."""

    proposer: str
    decider: str | None
    before: Annotated[
        PermitTerms | Absent, Field(description="Of an open change, the permit's terms as they are now")
    ] = left_out()
    amounts: LimitChange | Absent = left_out()
    messages: Annotated[list[MessageAnswer], Field(description="The first one first")]


class ProposalsAnswer(Answer):
    """Proposals, the newest first."""

    items: ClassVar[str] = "proposals"
    proposals: list[ProposalAnswer]
