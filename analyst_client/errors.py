"""Everything that the client raises.

::

    CuratorError
    ├── AuthenticationError        the token is missing, wrong or out of date
    ├── PermissionDeniedError      the token may not do this: `needed_role`
    ├── DatasetNotFoundError       no such dataset, or not visible to this token
    ├── RequestInvalidError        the curator refused the request: `errors`
    ├── BudgetExceededError        the budget does not suffice: `requested`, `remaining`, `largest`
    ├── DatasetClosedError         the dataset takes no more requests
    ├── ServiceUnavailableError    the curator makes no release now: ask again later
    ├── ServiceError               the curator failed, or its answer is malformed
    ├── TransportError             no answer, perhaps charged: ask again with the same `idempotency_key`
    └── EstimationError            local mathematics: the released statistics do not determine the fit

    UserWarning
    └── EstimationWarning          a fit was made of statistics that hardly determine it

A wrong argument is a `ValueError`, raised before anything is sent.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from analyst_client.values import Amount


class CuratorError(Exception):
    """Base of every error of this package.

    Parameters
    ----------
    message : str
        What happened, for a person.
    slug : str, optional
        Last part of the problem's type, such as ``"budget-exceeded"``.
    status : int, optional
        HTTP status of the answer.
    request_id : str, optional
        The curator's name for the request; quote it when asking for help.
    idempotency_key : str, optional
        Key of the charging request. The same call with the same key never pays twice.
    """

    def __init__(
        self,
        message: str = "",
        *,
        slug: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.slug = slug
        self.status = status
        self.request_id = request_id
        self.idempotency_key = idempotency_key


class AuthenticationError(CuratorError):
    """The token is missing, wrong or out of date; renew it."""


class PermissionDeniedError(CuratorError):
    """The token may not do this; `needed_role` (tuple of str) says which roles may."""

    def __init__(self, message: str = "", *, needed_role: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__(message, **answer)
        self.needed_role = needed_role


class DatasetNotFoundError(CuratorError):
    """There is no such dataset, or this token may not see it: the curator does not tell which."""


class RequestFault(NamedTuple):
    """One fault of a refused request.

    Attributes
    ----------
    pointer : str
        JSON pointer into the request body, such as ``"/price/epsilon"``.
    detail : str
        What is wrong there.
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
        What the request costs and what is left.
    largest : Amount or None
        The largest price that would pass now; None when none would.
    """

    def __init__(
        self,
        message: str = "",
        *,
        requested: "Amount | None" = None,
        remaining: "Amount | None" = None,
        largest: "Amount | None" = None,
        **answer: Any,
    ) -> None:
        super().__init__(message, **answer)
        self.requested = requested
        self.remaining = remaining
        self.largest = largest


class DatasetClosedError(CuratorError):
    """The dataset takes no more requests; its stored releases can still be read."""


class ServiceUnavailableError(CuratorError):
    """The curator makes no release now; ask again later with the same `idempotency_key`."""


class ServiceError(CuratorError):
    """The curator failed or its answer is malformed; quote `request_id`."""


class TransportError(CuratorError):
    """No answer arrived. A charging request may have been charged: ask again with the same `idempotency_key`."""


class EstimationError(CuratorError):
    """The released statistics do not determine the fit."""


class EstimationWarning(UserWarning):
    """A fit was made of statistics that hardly determine it."""


CLASS_OF_SLUG: Mapping[str, type[CuratorError]] = {
    "authentication-required": AuthenticationError,
    "permission-denied": PermissionDeniedError,
    "dataset-not-found": DatasetNotFoundError,
    "not-found": RequestInvalidError,
    "idempotency-key-missing": RequestInvalidError,
    "body-malformed": RequestInvalidError,
    "method-not-allowed": RequestInvalidError,
    "body-too-large": RequestInvalidError,
    "media-type-unsupported": RequestInvalidError,
    "too-many-requests": RequestInvalidError,
    "request-invalid": RequestInvalidError,
    "idempotency-key-reused": RequestInvalidError,
    "release-in-progress": ServiceUnavailableError,
    "ledger-unverified": ServiceUnavailableError,
    "dataset-closed": DatasetClosedError,
    "budget-exceeded": BudgetExceededError,
    "internal-error": ServiceError,
}
