"""Entries of rows: registered, refused, or said to be other people's."""

from typing import Annotated

from pydantic import Field

from curator_service.entries.base import Event, ProposalId
from curator_service.kit.wire import Absent, Digest, Digits, Moment, left_out


class Dataset(Event):
    """A dataset was registered, has a further version, or has ended."""

    kind = "dataset"
    meaning = "a dataset was registered, renewed or ended"

    dataset: str
    dataset_id: str
    manifest_digest: Digest
    snapshot: Digest
    version: Annotated[Digits | Absent, Field(description="From the second on")] = left_out()
    ended: Annotated[Moment | Absent, Field(description="Nothing is released from it any more")] = left_out()


class Refusal(Event):
    """Rows that are like another population's were refused."""

    kind = "refusal"
    meaning = "rows like another population's were refused"

    dataset: str
    manifest_digest: Digest
    like: str
    proposal: str | Absent = left_out()


class Confirmation(Event):
    """Two admins say that such rows are of other people."""

    kind = "confirmation"
    meaning = "two people say that such rows are of others"

    rows: str
    reason: str
    approved_by: str
    proposal: ProposalId | Absent = left_out()
