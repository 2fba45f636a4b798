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
    """The token is missing, wrong or out of date; renew it.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, AuthenticationError
    >>> issubclass(AuthenticationError, CuratorError)  # one except clause takes both
    True
    """


class PermissionDeniedError(CuratorError):
    """The token may not do this; `needed_role` (tuple of str) says which roles may.

    Examples
    --------
    >>> from analyst_client.errors import PermissionDeniedError
    >>> from analyst_client.tutorial import recorded_admin
    >>> try:
    ...     recorded_admin().create_token("joe", ["analyst"])
    ... except PermissionDeniedError as error:
    ...     print(error.needed_role)
    ('operator',)
    """

    def __init__(self, message: str = "", *, needed_role: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.needed_role = needed_role


class PermitNeededError(CuratorError):
    """No permit lets this token use the dataset so; `projects` (tuple of str) are those that may be named.

    Examples
    --------
    >>> from analyst_client.errors import PermitNeededError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> try:
    ...     client.release("flchain", ["age"], project="heart", **options)
    ... except PermitNeededError as error:
    ...     print(error.projects)
    ()
    """

    def __init__(self, message: str = "", *, projects: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.projects = projects


class PermitExpiredError(CuratorError):
    """The permit has ended: nothing is charged under it any more, and what was released can be read.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, PermitExpiredError
    >>> issubclass(PermitExpiredError, CuratorError)  # one except clause takes both
    True
    """


class DatasetNotFoundError(CuratorError):
    """There is no such dataset, or this token may not see it: the curator does not tell which.

    Examples
    --------
    >>> from analyst_client.errors import DatasetNotFoundError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> try:
    ...     client.dataset("nhanes")
    ... except DatasetNotFoundError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    There is no such dataset: ... that you were granted; there are flchain
    """


class ReservationNotFoundError(CuratorError):
    """There is no such reservation, or it is another analyst's: the curator does not tell which.

    Examples
    --------
    >>> from analyst_client.errors import ReservationNotFoundError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> try:
    ...     client.reservation("res_0")
    ... except ReservationNotFoundError as error:
    ...     print(error)
    There is no such reservation: There is no reservation of this id among yours for this population.
    """


class SessionNotFoundError(CuratorError):
    """There is no such threshold session, or it is another analyst's: the curator does not tell which.

    Examples
    --------
    >>> from analyst_client.errors import SessionNotFoundError
    >>> from analyst_client.tutorial import recorded_admin
    >>> try:
    ...     recorded_admin().close_session("ses_0")
    ... except SessionNotFoundError as error:
    ...     print(error)
    There is no such session: There is no session of this id among those that you may see.
    """


class ConflictError(CuratorError):
    """The request does not fit what holds now: it was decided, changed or ended before; `slug` (str) says which.

    Examples
    --------
    >>> from analyst_client.errors import ConflictError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> proposal = client.proposals()[0]
    >>> withdrawn = client.withdraw(proposal, "The study was put off")
    >>> try:
    ...     client.withdraw(proposal)
    ... except ConflictError as error:
    ...     print(error.slug)
    proposal-decided
    """


class RequestFault(NamedTuple):
    """One fault of a refused request.

    Attributes
    ----------
    pointer : str
        JSON pointer into the request body, such as ``"/price/epsilon"``.
    detail : str
        Description of the fault.

    Examples
    --------
    >>> from analyst_client.errors import RequestInvalidError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> from analyst_client import Axis, CountsRequest
    >>> request = CountsRequest([Axis("age", edges=[50, 101])], epsilon=0.5, delta=1e-6)
    >>> try:
    ...     client.quote("flchain", request)
    ... except RequestInvalidError as error:
    ...     print(error.errors[0].pointer)
    /tables/0/axes/0
    """

    pointer: str
    detail: str


class RequestInvalidError(CuratorError):
    """The curator refused the request; `errors` (tuple of RequestFault) says where and why.

    Examples
    --------
    >>> from analyst_client import RequestInvalidError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> from analyst_client import Axis, CountsRequest
    >>> request = CountsRequest([Axis("age", edges=[50, 101])], epsilon=0.5, delta=1e-6)
    >>> try:
    ...     client.quote("flchain", request)
    ... except RequestInvalidError as error:
    ...     print(error.errors[0].detail)
    edges must be within the declared bounds, 50 to 100
    """

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

    Examples
    --------
    >>> from analyst_client import BudgetExceededError
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> client = recorded_client()
    >>> try:
    ...     client.release("flchain", **REQUEST, epsilon=5.0)
    ... except BudgetExceededError as error:
    ...     print(round(error.largest.epsilon, 2))
    2.77
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
    """The reservation is closed or its time is over: what was left of it is back in the budget.

    Examples
    --------
    >>> from analyst_client.errors import ReservationEndedError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> held = client.reservations()[0]
    >>> closed = client.close_reservation(held)
    >>> try:
    ...     client.release("flchain", ["age"], reservation=held.id, **options)
    ... except ReservationEndedError as error:
    ...     print(error.slug)
    reservation-ended
    """


class SessionEndedError(CuratorError):
    """The threshold session answers no more questions; nothing of its price returns.

    Examples
    --------
    >>> from analyst_client.errors import SessionEndedError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> session = client.threshold_session("flchain", positives=1, epsilon=0.2)
    >>> session.above(1000, where="age >= 60")  # yes, and it was opened for one
    True
    >>> try:
    ...     session.above(100, where="age >= 90")
    ... except SessionEndedError as error:
    ...     print(error.slug)
    session-ended
    """


class SurveyError(CuratorError):
    """There is no such survey, it has ended, or it does not take the report: its message says which.

    Examples
    --------
    >>> from analyst_client.errors import SurveyError
    >>> from analyst_client.local import find_survey
    >>> from analyst_client.tutorial import ADDRESS, METHODS, Recorded
    >>> try:
    ...     find_survey(ADDRESS, "diet", transport=Recorded(METHODS))
    ... except SurveyError as error:
    ...     print(error)
    There is no such survey: 'diet' is no survey of this curator.
    """


class AnswerSpaceError(CuratorError):
    """The curator stores no more answers of this population for this analyst; what is stored can be read.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, AnswerSpaceError
    >>> issubclass(AnswerSpaceError, CuratorError)  # one except clause takes both
    True
    """


class DatasetClosedError(CuratorError):
    """The dataset takes no more requests; its stored releases can still be read.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, DatasetClosedError
    >>> issubclass(DatasetClosedError, CuratorError)  # one except clause takes both
    True
    """


class JobError(CuratorError):
    """A job did not go as asked; `job` (Job or None) is how it was last seen.

    Examples
    --------
    >>> from analyst_client.errors import JobError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> job = client.submit_release("flchain", ["age"], where="age >= 60", **options)
    >>> try:
    ...     client.wait(job, wait_s=0)
    ... except JobError as error:
    ...     print(error.job.state)
    running
    """

    def __init__(self, message: str = "", *, job: Job | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.job = job


class JobRunningError(JobError):
    """The job was still running when the time to wait was over; `job` (Job) can be waited for again.

    Examples
    --------
    >>> from analyst_client.errors import JobRunningError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> job = client.submit_release("flchain", ["age"], where="age >= 60", **options)
    >>> try:
    ...     client.wait(job, wait_s=0)
    ... except JobRunningError as error:
    ...     print(error.job.state)
    running
    """


class JobVoidedError(JobError):
    """The job ended without a release, voided or cancelled, and nothing was charged; `job` (Job) says why.

    The same call with the same `idempotency_key` may be repeated.

    Examples
    --------
    >>> from analyst_client.errors import JobVoidedError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> job = client.submit_release("flchain", ["age"], where="age >= 70", **options)
    >>> cancelled = client.cancel(job)
    >>> try:
    ...     client.wait(cancelled.id)
    ... except JobVoidedError as error:
    ...     print(error.job.state)
    cancelled
    """


class JobEndedError(JobError):
    """The job was charged or had ended before: it cannot be cancelled any more.

    Examples
    --------
    >>> from analyst_client.errors import JobEndedError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> job = client.submit_release("flchain", ["age"], where="age >= 60", **options)
    >>> release = client.wait(job)
    >>> try:
    ...     client.cancel(job)
    ... except JobEndedError as error:
    ...     print(error.job.state)
    done
    """


class ServiceUnavailableError(CuratorError):
    """The curator makes no release now; ask again later with the same `idempotency_key`.

    Attributes
    ----------
    job : str or None
        Id of the job that already works on the same request.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, ServiceUnavailableError
    >>> issubclass(ServiceUnavailableError, CuratorError)  # one except clause takes both
    True
    """

    def __init__(self, message: str = "", *, job: str | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.job = job


class LedgerSealedError(ServiceUnavailableError):
    """The curator found that its own ledger does not verify, and releases nothing until an admin reconciles it.

    Nothing was charged. Asking again at once does not help.

    Examples
    --------
    >>> from analyst_client.errors import ServiceUnavailableError, LedgerSealedError
    >>> issubclass(LedgerSealedError, ServiceUnavailableError)  # one except clause takes both
    True
    """


class LedgerError(CuratorError):
    """A statement of the curator on its ledger does not hold, or cannot be compared with what was seen before.

    Attributes
    ----------
    release : Release or None
    reservation : Reservation or None
        Answer that came with it, if any: it may have been charged, so it is not lost.

    Examples
    --------
    >>> from analyst_client.errors import LedgerError, LedgerForkedError
    >>> issubclass(LedgerForkedError, LedgerError)  # one except clause takes both
    True
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

    Examples
    --------
    >>> from analyst_client.errors import LedgerForkedError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> stored = client.fetch_release(client.releases("flchain")[-1].id)
    >>> try:
    ...     client.budget("flchain")  # the recording answers with what it was before
    ... except LedgerForkedError as error:
    ...     print(error.received.sequence, error.remembered.sequence)
    3 8
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
    """A receipt or a checkpoint does not hold; `reasons` (tuple of str) says what is wrong.

    Examples
    --------
    >>> from analyst_client.errors import LedgerError, ReceiptInvalidError
    >>> issubclass(ReceiptInvalidError, LedgerError)
    True
    """

    def __init__(self, message: str = "", *, reasons: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message or "; ".join(reasons), **answer)
        self.reasons = reasons


class KeyUntrustedError(LedgerError):
    """The ledger is signed by the key `key_id` (str), which is not trusted and which no trusted key endorsed.

    Examples
    --------
    >>> from analyst_client.errors import KeyUntrustedError
    >>> from analyst_client import CuratorClient
    >>> from analyst_client.tutorial import ADDRESS, METHODS, Recorded, curator_key
    >>> other = curator_key("paper")
    >>> client = CuratorClient(ADDRESS, "a-token", key=other, memory=None, transport=Recorded(METHODS))
    >>> try:
    ...     client.budget("flchain")
    ... except KeyUntrustedError as error:
    ...     print(error.key_id[:4])
    key_
    """

    def __init__(self, message: str = "", *, key_id: str | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.key_id = key_id


class LedgerMemoryError(LedgerError):
    """The file of what was seen of the ledger, `path` (Path), cannot be read, written or understood.

    Examples
    --------
    >>> from analyst_client.errors import LedgerMemoryError
    >>> import tempfile
    >>> from pathlib import Path
    >>> from analyst_client import CuratorClient
    >>> path = Path(tempfile.mkdtemp()) / "memory.json"
    >>> written = path.write_text("no memory")
    >>> try:
    ...     client = CuratorClient("https://curator.example", "a-token", memory=path)
    ... except LedgerMemoryError as error:
    ...     print(error.path.name)
    memory.json
    """

    def __init__(self, message: str = "", *, path: Path | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.path = path


class TransportError(CuratorError):
    """No answer of the curator arrived, or one that a proxy or a cache on the way gave by itself.

    A charging request may have been charged: ask again with the same `idempotency_key`.

    Examples
    --------
    >>> from analyst_client import TransportError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> try:
    ...     client.dataset("never recorded")
    ... except TransportError as error:
    ...     print(error)
    no answer from curator.example after 1 attempt(s) (ConnectError: only what was recorded can be asked here)
    """


class UselessRequestError(CuratorError, ValueError):
    """Public numbers show that an answer would tell nothing; nothing was charged.

    Attributes
    ----------
    reasons : tuple of str
        Each names a rule and a way out. ``even_so=True`` asks all the same.

    Examples
    --------
    >>> from analyst_client import UselessRequestError
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> try:
    ...     client.release("flchain", ["age"], where="age > 100", **options)
    ... except UselessRequestError as error:
    ...     print(error)
    the answer would tell nothing, so nothing was charged; even_so=True asks for it:
      - where, age > 100.0, is true of no row within age from 50 to 100
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

    Examples
    --------
    >>> from analyst_client.errors import LocalBudgetError
    >>> import tempfile
    >>> from pathlib import Path
    >>> from analyst_client.local import Participant, RandomizedResponse
    >>> person = Participant(Path(tempfile.mkdtemp()) / "my-privacy.json", limit=1)
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=2)
    >>> try:
    ...     person.answer(question, "yes")
    ... except LocalBudgetError as error:
    ...     print(error.requested, error.remaining)
    2 1
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
    """The file of a person's own reports, `path` (Path), cannot be read, written or understood; no report left.

    Examples
    --------
    >>> from analyst_client.errors import ParticipantFileError
    >>> import tempfile
    >>> from pathlib import Path
    >>> from analyst_client.local import Participant
    >>> path = Path(tempfile.mkdtemp()) / "my-privacy.json"
    >>> written = path.write_text("no account")
    >>> try:
    ...     Participant(path, limit=1)
    ... except ParticipantFileError as error:
    ...     print(error.path.name)
    my-privacy.json
    """

    def __init__(self, message: str = "", *, path: Path | None = None, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.path = path


class ReportInvalidError(CuratorError):
    """A line is no report of the question; `line` (int) is its number, from 1, and no content of it is shown.

    Examples
    --------
    >>> from analyst_client.errors import ReportInvalidError
    >>> from analyst_client.local import RandomizedResponse, Reports
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    >>> try:
    ...     Reports.collect(question, ["{}"])
    ... except ReportInvalidError as error:
    ...     print(error)
    line 1 is no report of this question: it is no JSON object with question, token and answer
    """

    def __init__(self, message: str = "", *, line: int = 0, **answer: Any) -> None:
        super().__init__(message, **answer)
        self.line = line


class EstimationError(CuratorError):
    """The released statistics do not determine the fit.

    Examples
    --------
    >>> from analyst_client import EstimationError
    >>> from analyst_client import OLS, Release
    >>> release = Release.from_arrays([[300.0, 0.0], [0.0, -2.0]], [[150.0], [6.0]], features=["age"], noise=3.0)
    >>> try:
    ...     OLS().fit(release)
    ... except EstimationError as error:
    ...     print(str(error).partition(":")[0])
    the noisy XᵀX is not positive definite (smallest eigenvalue -2)
    """


class EstimationWarning(UserWarning):
    """A fit was made of statistics that hardly determine it.

    Examples
    --------
    >>> import warnings
    >>> from analyst_client import OLS, EstimationWarning, Release
    >>> north = Release.from_arrays([[300.0, 0.0], [0.0, 90.0]], [150.0, 27.0], 90.0, features=["age"], noise=2.0)
    >>> south = Release.from_arrays([[400.0, 0.0], [0.0, 110.0]], [180.0, 55.0], 120.0, features=["age"], noise=2.0)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     fit = OLS().fit([north, south])
    >>> [str(one.message).partition(" (")[0] for one in caught if one.category is EstimationWarning]
    ['the releases do not tell of the same coefficients']
    """


class BoundsWarning(UserWarning):
    """Values outside of a column's public bounds were clipped in a prediction, as the curator clips.

    Examples
    --------
    >>> import warnings
    >>> from analyst_client import AdaSSP
    >>> from analyst_client.errors import BoundsWarning
    >>> from analyst_client.tutorial import exact_release
    >>> fit = AdaSSP().fit(exact_release(), features=["age"])
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     predicted = fit.predict([[130.0]])
    >>> [str(one.message)[:45] for one in caught if one.category is BoundsWarning]
    ["1 of 1 values of 'age' outside of 50 to 100: "]
    """


class TokenExpiryWarning(UserWarning):
    """The token ends within 14 days: ask for another one, or rotate it, while it holds.

    Examples
    --------
    >>> from analyst_client.errors import TokenExpiryWarning
    >>> issubclass(TokenExpiryWarning, UserWarning)
    True
    """


class LedgerRestoredWarning(UserWarning):
    """The curator was restored from a backup and reconciled: its ledger is in a higher epoch than was seen before.

    Charges between the backup and the loss may be missing from it; the curator's admin can tell.

    Attributes
    ----------
    remembered, received : LedgerPosition or None
    release : Release or None
    reservation : Reservation or None
        Answer that came with it, for those who turn warnings into errors.

    Examples
    --------
    >>> from analyst_client.errors import LedgerRestoredWarning
    >>> issubclass(LedgerRestoredWarning, UserWarning)
    True
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
