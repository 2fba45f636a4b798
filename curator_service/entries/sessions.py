"""Entries of threshold sessions: opened and charged whole, each question with its answer, closed."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.entries.account import Account, Charged, OpenThresholds, Unfounded
from curator_service.entries.amounts import PermitId
from curator_service.entries.base import Event, Place, Units
from curator_service.entries.rules import Asked
from curator_service.entries.told import Told
from curator_service.kit.wire import Absent, Digest, Digits, left_out

KIND = "threshold"
"""Name of sessions beside the kinds of release: in sums of charges, and for the rules of a permit."""
SessionId = Annotated[str, Field(pattern=r"^ses_[0-9a-f]{24}$")]
Direction = Literal["above", "below", "any"]


class OpenSession(Event):
    """A threshold session was opened. Its answers cost nothing more."""

    kind = "session"
    meaning = "a threshold session was opened, and charged whole"
    amounts = Units.SOME
    units_are = "spent"
    is_use = True

    session: SessionId
    dataset: str
    snapshot: Digest
    permit: PermitId | Absent = left_out()
    project: str | Absent = left_out()
    direction: Direction
    positives: Annotated[int, Field(ge=1, description="Questions answered yes after which it has ended")]
    sensitivity: Annotated[
        Digits, Field(description="How far a person moves a question, in steps: the q² of a row of the lattice")
    ]
    threshold_scale: Digits
    question_scale: Digits

    @property
    def charged(self) -> Charged:
        """Of what it is summed."""
        return Charged(self.time[:7], self.actor, self.permit or "", self.project or "", self.dataset, KIND)

    def move(self, place: Place, account: Account) -> None:
        """Post the amount, and open the session."""
        units = int(place.units)
        account.posted += units
        account.count(self.charged, units)
        for share in account.find_shares(self.permit):
            share.spend(self.actor, Asked(KIND, self.dataset, units), self.time, posted=units)
        account.sessions.open(self.session, self.dataset, self.positives)

    def tell(self, told: Told) -> None:
        """Tell of an open session."""
        told.sessions[self.session] = OpenThresholds(self.dataset, self.positives)


class AnswerQuestion(Event):
    """A question of a threshold session was answered."""

    kind = "answer"
    meaning = "a question of a threshold session was answered"

    session: SessionId
    number: Annotated[int, Field(ge=1)]
    positives: Annotated[int, Field(ge=0, description="Positive answers of the session before this one")]
    question_digest: Digest
    # Two words of one length: a write that was undone tells nothing by its size.
    answer: Literal["positive", "negative"]

    @property
    def is_positive(self) -> bool:
        """True if the noisy number reached the noisy threshold."""
        return self.answer == "positive"

    def move(self, place: Place, account: Account) -> None:
        """Count the answer: only the next one of a session that is open."""
        del place
        account.sessions.answer(self.session, self.number, self.positives, is_positive=self.is_positive)

    def tell(self, told: Told) -> None:
        """Tell how many answers the session has given, up to this one; of one that is not known as open, nothing.

        Raises
        ------
        Unfounded
            If more are known.
        """
        found = told.sessions.get(self.session)
        if found is None:
            return
        if self.number < found.answered:
            raise Unfounded("the session has given more answers than this one")
        told.sessions.reach(self.session, self.number, self.positives + self.is_positive)


class CloseSession(Event):
    """A threshold session was closed before its last positive answer."""

    kind = "close"
    meaning = "a threshold session was closed"

    session: SessionId
    holder: str

    def move(self, place: Place, account: Account) -> None:
        """End an open session."""
        del place
        account.sessions.close(self.session)

    def tell(self, told: Told) -> None:
        """Tell that it has ended."""
        told.sessions.pop(self.session, None)
