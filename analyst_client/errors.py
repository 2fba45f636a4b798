"""Everything that the client raises.

::

    CuratorError
    ├── AuthenticationError        the token is missing, wrong or out of date
    ├── PermissionDeniedError      the token may not do this: `needed_role`
    ├── PermitNeededError          no permit, or more than one, is for this dataset: `projects`
    ├── PermitExpiredError         the permit has ended: ask for it to be renewed
    ├── DatasetNotFoundError       no such dataset, or not visible to this token
    ├── ReservationNotFoundError   no such reservation, or not this analyst's
    ├── SessionNotFoundError       no such threshold session, or not this analyst's
    ├── ConflictError              it does not fit what holds now: decided, changed or ended before
    ├── RequestInvalidError        the curator refused the request: `errors`
    ├── BudgetExceededError        the budget does not suffice: `requested`, `remaining`, `largest`
    ├── AnswerSpaceError           as many answers were stored for this analyst as may be
    ├── ReservationEndedError      the reservation is closed or its time is over
    ├── SessionEndedError          the threshold session answers no more questions
    ├── SurveyError                no such survey, or it does not take the report
    ├── DatasetClosedError         the dataset takes no more requests
    ├── JobError                   a job did not go as asked: `job`
    │   ├── JobRunningError        it goes on after the time to wait
    │   ├── JobVoidedError         it ended without a release, and nothing was charged
    │   └── JobEndedError          it was charged or had ended: it cannot be cancelled
    ├── ServiceUnavailableError    the curator makes no release now: ask again later
    │   └── LedgerSealedError      the curator's ledger does not verify: its admin must reconcile it
    ├── LedgerError                what the curator says of its ledger does not hold: `release`, if one was charged
    │   ├── LedgerForkedError      it contradicts what was seen before: `remembered`, `received`
    │   ├── ReceiptInvalidError    a hash, a digest or a signature is wrong: `reasons`
    │   ├── KeyUntrustedError      signed by a key that no trusted key vouches for: `key_id`
    │   └── LedgerMemoryError      the file of what was seen cannot be used: `path`
    ├── ServiceError               the curator failed, or its answer is malformed
    ├── TransportError             no answer, perhaps charged: ask again with the same `idempotency_key`
    ├── FormulaError               a formula or a condition means nothing: `rule`, `text`, `start`, `stop`
    ├── UselessRequestError        an answer would tell nothing, and nothing was charged: `reasons`
    ├── LocalBudgetError           a report goes beyond a person's own limit: `requested`, `remaining`
    ├── ParticipantFileError       the file of a person's own reports cannot be used: `path`
    ├── ReportInvalidError         a line is no report of the question: `line`
    └── EstimationError            local mathematics: the released statistics do not determine the fit

    UserWarning
    ├── EstimationWarning          a fit was made of statistics that hardly determine it
    ├── BoundsWarning              values outside of a column's public bounds were clipped in a prediction
    ├── TokenExpiryWarning         the token ends within 14 days: rotate it
    └── LedgerRestoredWarning      the curator was restored from a backup: `remembered`, `received`

A wrong argument is a `ValueError`, raised before anything is sent.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from analyst_client.error_base import CuratorError, ServiceError
from analyst_client.ledger.checkpoints import LedgerPosition
from analyst_client.schema.accounts import Reservation
from analyst_client.schema.amounts import Amount
from analyst_client.schema.answers import Answer
from analyst_client.schema.jobs import Job
from analyst_client.terms.python import FormulaError

__all__ = [
    "AnswerSpaceError",
    "AuthenticationError",
    "BoundsWarning",
    "BudgetExceededError",
    "ConflictError",
    "CuratorError",
    "DatasetClosedError",
    "DatasetNotFoundError",
    "EstimationError",
    "EstimationWarning",
    "FormulaError",
    "JobEndedError",
    "JobError",
    "JobRunningError",
    "JobVoidedError",
    "KeyUntrustedError",
    "LedgerError",
    "LedgerForkedError",
    "LedgerMemoryError",
    "LedgerRestoredWarning",
    "LedgerSealedError",
    "LocalBudgetError",
    "ParticipantFileError",
    "PermissionDeniedError",
    "PermitExpiredError",
    "PermitNeededError",
    "ReceiptInvalidError",
    "ReportInvalidError",
    "RequestFault",
    "RequestInvalidError",
    "ReservationEndedError",
    "ReservationNotFoundError",
    "ServiceError",
    "ServiceUnavailableError",
    "SessionEndedError",
    "SessionNotFoundError",
    "SurveyError",
    "TokenExpiryWarning",
    "TransportError",
    "UselessRequestError",
]


class AuthenticationError(CuratorError):
    """The token is missing, wrong or out of date; renew it."""


class PermissionDeniedError(CuratorError):
    """The token may not do this; `needed_role` (tuple of str) says which roles may."""

    def __init__(self, message: str = "", *, needed_role: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.needed_role = needed_role


class PermitNeededError(CuratorError):
    """No permit lets this token use the dataset so; `projects` (tuple of str) are those that may be named."""

    def __init__(self, message: str = "", *, projects: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.projects = projects


class PermitExpiredError(CuratorError):
    """The permit has ended: nothing is charged under it any more, and what was released can be read."""


class DatasetNotFoundError(CuratorError):
    """There is no such dataset, or this token may not see it: the curator does not tell which."""


class ReservationNotFoundError(CuratorError):
    """There is no such reservation, or it is another analyst's: the curator does not tell which."""


class SessionNotFoundError(CuratorError):
    """There is no such threshold session, or it is another analyst's: the curator does not tell which."""


class ConflictError(CuratorError):
    """The request does not fit what holds now: it was decided, changed or ended before; `slug` (str) says which."""


class RequestFault(NamedTuple):
    """One fault of a refused request.

    Attributes
    ----------
    pointer : str
        JSON pointer into the request body, such as ``"/price/epsilon"``.
    detail : str
        Description of the fault.
    """

    pointer: str
    detail: str


class RequestInvalidError(CuratorError):
    """The curator refused the request; `errors` (tuple of RequestFault) says where and why."""

    def __init__(self, message: str = "", *, errors: tuple[RequestFault, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.errors = errors


class BudgetExceededError(CuratorError):
    """The population's budget does not suffice; nothing was charged and no row was read.

    Attributes
    ----------
    requested, remaining : Amount or None
        Cost of the request, and rest of the budget.
    largest : Amount or None
        Largest cost that would pass now; None when none would.
    """

    def __init__(
        self,
        message: str = "",
        *,
        requested: Amount | None = None,
        remaining: Amount | None = None,
        largest: Amount | None = None,
        **answer: Any,
    ) -> None:
        super().__init__(message, **answer)
        self.requested = requested
        self.remaining = remaining
        self.largest = largest


class ReservationEndedError(CuratorError):
    """The reservation is closed or its time is over: what was left of it is back in the budget."""


class SessionEndedError(CuratorError):
    """The threshold session answers no more questions; nothing of its price returns."""


class SurveyError(CuratorError):
    """There is no such survey, it has ended, or it does not take the report: its message says which."""


class AnswerSpaceError(CuratorError):
    """The curator stores no more answers of this population for this analyst; what is stored can be read."""


class DatasetClosedError(CuratorError):
    """The dataset takes no more requests; its stored releases can still be read."""


class JobError(CuratorError):
    """A job did not go as asked; `job` (Job or None) is how it was last seen."""

    def __init__(self, message: str = "", *, job: Job | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.job = job


class JobRunningError(JobError):
    """The job was still running when the time to wait was over; `job` (Job) can be waited for again."""


class JobVoidedError(JobError):
    """The job ended without a release, voided or cancelled, and nothing was charged; `job` (Job) says why.

    The same call with the same `idempotency_key` may be repeated.
    """


class JobEndedError(JobError):
    """The job was charged or had ended before: it cannot be cancelled any more."""


class ServiceUnavailableError(CuratorError):
    """The curator makes no release now; ask again later with the same `idempotency_key`.

    Attributes
    ----------
    job : str or None
        Id of the job that already works on the same request.
    """

    def __init__(self, message: str = "", *, job: str | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.job = job


class LedgerSealedError(ServiceUnavailableError):
    """The curator found that its own ledger does not verify, and releases nothing until an admin reconciles it.

    Nothing was charged. Asking again at once does not help.
    """


class LedgerError(CuratorError):
    """A statement of the curator on its ledger does not hold, or cannot be compared with what was seen before.

    Attributes
    ----------
    release : Release or None
    reservation : Reservation or None
        Answer that came with it, if any: it may have been charged, so it is not lost.
    """

    release: Answer | None = None
    reservation: Reservation | None = None


class LedgerForkedError(LedgerError):
    """The curator contradicts what it signed before: its ledger was wound back, or it shows several.

    Keep `release` and the file of what was seen, and show both positions to whoever answers for the curator: each was
    signed by it.

    Attributes
    ----------
    remembered, received : LedgerPosition or None
        Position that was seen before, and the one that contradicts it; a `Checkpoint`, with its signature, where the
        whole is known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        remembered: LedgerPosition | None = None,
        received: LedgerPosition | None = None,
        **answer: Any,
    ) -> None:
        super().__init__(message, **answer)
        self.remembered = remembered
        self.received = received


class ReceiptInvalidError(LedgerError):
    """A receipt or a checkpoint does not hold; `reasons` (tuple of str) says what is wrong."""

    def __init__(self, message: str = "", *, reasons: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message or "; ".join(reasons), **answer)
        self.reasons = reasons


class KeyUntrustedError(LedgerError):
    """The ledger is signed by the key `key_id` (str), which is not trusted and which no trusted key endorsed."""

    def __init__(self, message: str = "", *, key_id: str | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.key_id = key_id


class LedgerMemoryError(LedgerError):
    """The file of what was seen of the ledger, `path` (Path), cannot be read, written or understood."""

    def __init__(self, message: str = "", *, path: Path | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.path = path


class TransportError(CuratorError):
    """No answer of the curator arrived, or one that a proxy or a cache on the way gave by itself.

    A charging request may have been charged: ask again with the same `idempotency_key`.
    """


class UselessRequestError(CuratorError, ValueError):
    """Public numbers show that an answer would tell nothing; nothing was charged.

    Attributes
    ----------
    reasons : tuple of str
        Each names a rule and a way out. ``even_so=True`` asks all the same.
    """

    def __init__(self, reasons: tuple[str, ...] = (), **answer: Any) -> None:
        listed = "".join(f"\n  - {reason}" for reason in reasons)
        super().__init__(
            f"the answer would tell nothing, so nothing was charged; even_so=True asks for it:{listed}", **answer
        )
        self.reasons = tuple(reasons)

    def __reduce__(self) -> "tuple[type[UselessRequestError], tuple[tuple[str, ...]]]":
        """Pickle what it was made of."""
        return UselessRequestError, (self.reasons,)


class NotConfirmedError(CuratorError):
    """A purchase was shown, and nobody said yes to it; nothing was charged."""


class LocalBudgetError(CuratorError):
    """A report would go beyond a person's own limit; none was drawn, and nothing was spent.

    Attributes
    ----------
    requested, remaining : Fraction
        Cost of the report, and rest of the limit.
    """

    def __init__(
        self,
        message: str = "",
        *,
        requested: Fraction = Fraction(0),
        remaining: Fraction = Fraction(0),
        **answer: Any,
    ) -> None:
        super().__init__(message, **answer)
        self.requested = requested
        self.remaining = remaining


class ParticipantFileError(CuratorError):
    """The file of a person's own reports, `path` (Path), cannot be read, written or understood; no report left."""

    def __init__(self, message: str = "", *, path: Path | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.path = path


class ReportInvalidError(CuratorError):
    """A line is no report of the question; `line` (int) is its number, from 1, and no content of it is shown."""

    def __init__(self, message: str = "", *, line: int = 0, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.line = line


class EstimationError(CuratorError):
    """The released statistics do not determine the fit."""


class EstimationWarning(UserWarning):
    """A fit was made of statistics that hardly determine it."""


class BoundsWarning(UserWarning):
    """Values outside of a column's public bounds were clipped in a prediction, as the curator clips."""


class TokenExpiryWarning(UserWarning):
    """The token ends within 14 days: ask for another one, or rotate it, while it holds."""


class LedgerRestoredWarning(UserWarning):
    """The curator was restored from a backup and reconciled: its ledger is in a higher epoch than was seen before.

    Charges between the backup and the loss may be missing from it; the curator's admin can tell.

    Attributes
    ----------
    remembered, received : LedgerPosition or None
    release : Release or None
    reservation : Reservation or None
        Answer that came with it, for those who turn warnings into errors.
    """

    release: Answer | None = None
    reservation: Reservation | None = None

    def __init__(
        self,
        message: str = "",
        *,
        remembered: LedgerPosition | None = None,
        received: LedgerPosition | None = None,
    ) -> None:
        super().__init__(message)
        self.remembered = remembered
        self.received = received
