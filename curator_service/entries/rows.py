"""Entries of rows: registered, refused, or said to be other people's."""

from typing import Annotated

from pydantic import Field

from curator_service.entries.account import Account
from curator_service.entries.base import Event, Place, ProposalId
from curator_service.entries.told import Registration, Told
from curator_service.kit.wire import Absent, Digest, Digits, Moment, left_out


class Dataset(Event):
    """A dataset was registered, has a further version, or has ended."""

    kind = "dataset"
    meaning = "a dataset was registered, renewed or ended"

    dataset: str
    dataset_id: str
    manifest_digest: Digest
    snapshot: Digest
    version: Annotated[
        Digits | Absent, Field(description="From the second on; `time` is the cut's in the calendar")
    ] = left_out()
    ended: Annotated[Moment | Absent, Field(description="Nothing is released from it any more")] = left_out()

    def move(self, place: Place, account: Account) -> None:
        """End the threshold sessions on the rows of before."""
        del place
        account.sessions.end_of(self.dataset)

    def tell(self, told: Told) -> None:
        """Tell a version of the dataset, the last one from here on; in a chain without terms nothing is registered."""
        told.sessions.end_of(self.dataset)
        if told.terms is not None:
            about = self.dataset_id, self.dataset, self.manifest_digest, self.snapshot, self.ended or ""
            registration = Registration(told.population, *told.terms, *about)
            told.versions.add(registration)
            told.latest[self.dataset_id] = registration


class Refusal(Event):
    """Rows that are like another population's were refused."""

    kind = "refusal"
    meaning = "rows like another population's were refused"

    dataset: str
    manifest_digest: Digest
    like: Annotated[str, Field(description="The population, which is the same one for rows that come again")]
    proposal: Annotated[str | Absent, Field(description="If a privacy officer made one")] = left_out()


class Confirmation(Event):
    """Two admins say that such rows are of other people."""

    kind = "confirmation"
    meaning = "two people say that such rows are of others"

    rows: Annotated[
        str, Field(description="A keyed digest of them, their manifest and the population that they are like")
    ]
    reason: str
    approved_by: str
    proposal: ProposalId | Absent = left_out()

    def tell(self, told: Told) -> None:
        """Tell that these rows are of other people."""
        told.confirmed.add(self.rows)
