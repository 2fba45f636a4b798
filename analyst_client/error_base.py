"""The root of the tree of errors, and the error of an answer that cannot be read; `analyst_client.errors` has them all.

They stand apart because whatever reads an answer raises them, and the other errors carry what was read.
"""


class CuratorError(Exception):
    """Base of every error of this package.

    Parameters
    ----------
    message : str
        Description of what happened, for a person.
    slug : str, optional
        Last part of the problem's type, such as ``"budget-exceeded"``.
    status : int, optional
        HTTP status of the answer.
    request_id : str, optional
        The curator's name for the request; quote it when asking for help.
    idempotency_key : str, optional
        Key of the charging request. The same call with the same key is never charged twice.

    Examples
    --------
    >>> from analyst_client import CuratorError
    >>> from analyst_client.tutorial import recorded_client
    >>> try:
    ...     recorded_client("methods").dataset("nhanes")
    ... except CuratorError as error:
    ...     print(error.slug, error.status)
    dataset-not-found 404
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


class ServiceError(CuratorError):
    """The curator failed or its answer is malformed; quote `request_id`.

    Examples
    --------
    >>> from analyst_client.errors import CuratorError, ServiceError
    >>> issubclass(ServiceError, CuratorError)
    True
    """
