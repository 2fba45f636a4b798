"""Entries of the register on proposals."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.entries.base import ProposalId
from curator_service.identity.entries import Act, PrincipalId
from curator_service.kit.wire import Absent, Digest, Digits, left_out


class Proposed(Act):
    """Something was proposed that waits for a second person; what came of it is an entry here, or of a population."""

    kind = "proposed"
    meaning = "something was proposed"

    proposal: ProposalId
    about: Literal["limit", "population", "permit", "rows"]
    of_population: Annotated[str, Field(description="Empty where whoever asks is not told which it is")]
    reason: str
    asked_units: Annotated[Digits | Absent, Field(description="Of a limit")] = left_out()
    from_units: Digits | Absent = left_out()
    permit: Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")] | Absent = left_out()
    permit_version: Annotated[int | Absent, Field(description="Of the permit that is to change; 0 for a new one")] = (
        left_out()
    )
    rows: Annotated[str | Absent, Field(description="Of rows, their keyed digest")] = left_out()
    terms_digest: Annotated[Digest | Absent, Field(description="SHA-256 of the terms, as they are stored")] = left_out()


class Discussed(Act):
    """Somebody asked or answered something about a proposal that waits."""

    kind = "proposal-discussed"
    meaning = "something was asked or answered about a proposal"

    proposal: ProposalId
    message: Annotated[str, Field(pattern=r"^msg_[0-9a-f]{24}$")]
    asked_by: PrincipalId
    text: str


class Closed(Act):
    """Members of the entry for a proposal that was not approved."""

    proposal: ProposalId
    asked_by: PrincipalId
    reason: Annotated[str, Field(description="Of the decision")]


class ProposalRejected(Closed):
    """A privacy officer refused what was proposed."""

    kind = "proposal-rejected"
    meaning = "a proposal was rejected"


class ProposalWithdrawn(Closed):
    """The author took the proposal back."""

    kind = "proposal-withdrawn"
    meaning = "a proposal was taken back"


class ProposalExpired(Closed):
    """Nobody decided it in time."""

    kind = "proposal-expired"
    meaning = "nobody decided a proposal in time"
