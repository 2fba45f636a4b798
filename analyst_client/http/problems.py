"""Refusals of the curator (RFC 9457 problem documents) as errors."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from analyst_client.display.terminal import plain
from analyst_client.errors import (
    AnswerSpaceError,
    AuthenticationError,
    BudgetExceededError,
    ConflictError,
    CuratorError,
    DatasetClosedError,
    DatasetNotFoundError,
    JobEndedError,
    LedgerSealedError,
    PermissionDeniedError,
    PermitExpiredError,
    PermitNeededError,
    RequestFault,
    RequestInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    SessionEndedError,
    SessionNotFoundError,
    SurveyError,
    TransportError,
)
from analyst_client.http.proxies import HOLDS_BOTH, say_exception
from analyst_client.schema.amounts import Amount
from analyst_client.schema.wire import Fields, parse_json

CLASS_OF_SLUG: Mapping[str, type[CuratorError]] = {
    "authentication-required": AuthenticationError,
    "permission-denied": PermissionDeniedError,
    "permit-needed": PermitNeededError,
    "permit-expired": PermitExpiredError,
    "visa-needed": PermissionDeniedError,
    "dataset-not-found": DatasetNotFoundError,
    "not-found": RequestInvalidError,
    "idempotency-key-missing": RequestInvalidError,
    "body-malformed": RequestInvalidError,
    "method-not-allowed": RequestInvalidError,
    "body-too-large": RequestInvalidError,
    "media-type-unsupported": RequestInvalidError,
    "too-many-requests": RequestInvalidError,
    "head-too-large": RequestInvalidError,
    "request-timeout": ServiceUnavailableError,
    "request-invalid": RequestInvalidError,
    "idempotency-key-reused": RequestInvalidError,
    "release-in-progress": ServiceUnavailableError,
    "dataset-unavailable": ServiceUnavailableError,
    "busy": ServiceUnavailableError,
    "ledger-unverified": LedgerSealedError,
    "checkpoint-invalid": RequestInvalidError,
    "reservation-not-found": ReservationNotFoundError,
    "session-not-found": SessionNotFoundError,
    "session-ended": SessionEndedError,
    "survey-not-found": SurveyError,
    "survey-exists": SurveyError,
    "survey-ended": SurveyError,
    "report-refused": SurveyError,
    "limit-conflict": ConflictError,
    "population-exists": ConflictError,
    "proposal-decided": ConflictError,
    "proposal-unattested": ConflictError,
    "too-many-proposals": ConflictError,
    "permit-ended": ConflictError,
    "permit-changed": ConflictError,
    "token-not-shown": ConflictError,
    "second-admin-needed": PermissionDeniedError,
    "reservation-ended": ReservationEndedError,
    "job-ended": JobEndedError,
    "dataset-closed": DatasetClosedError,
    "answer-space-exceeded": AnswerSpaceError,
    "budget-exceeded": BudgetExceededError,
    "internal-error": ServiceError,
}


NAMES_OF: Mapping[type[CuratorError], str] = {PermissionDeniedError: "needed_role", PermitNeededError: "projects"}
"""Errors that list what would have worked, and the member that does."""
CUT_SHORT = "it was cut short"

_SIGN_IN = ": sign in to the network in a browser, or {past}"
_REMEDIES = {
    403: ": have {host} allowed where the network's pages are filtered",
    407: f": the proxy asks for a name and a password, and its address {HOLDS_BOTH}",
    413: ": something on the way bounds the bytes that are sent: ask for fewer columns, or have the bound raised",
    502: ": the proxy does not reach the curator: ask again later",
    504: ": the proxy did not wait for the curator: ask again later",
    511: _SIGN_IN,
}
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_BY_STATUS: Mapping[int, type[CuratorError]] = {500: ServiceError, 503: ServiceUnavailableError}


def find_foreign(answer: httpx.Response) -> str | None:
    """Say why an answer of success is not the curator's: a page, half of an answer, or an old one out of a cache."""
    body, age = answer.content.strip(), answer.headers.get("Age", "").strip()
    if age.isascii() and age.strip("0").isdigit():
        return f"a cache on the way kept it for {age[:9]} s"
    if is_page(answer):
        return describe_page(answer)
    if not body or (body.startswith(b"{") and not body.endswith(b"}")):
        return CUT_SHORT
    return None


def foreign(answer: httpx.Response, why: str, doubt: str, idempotency_key: str | None) -> CuratorError:
    """Return the error of an answer that something on the way gave; `doubt` says what may have been done."""
    status, host = answer.status_code, answer.url.host
    error = _BY_STATUS.get(status, TransportError)
    message = f"HTTP {status} from {host} is not the curator's answer, but that of something on "
    message += f"the way, such as a proxy or a sign-in page ({why}){_say_remedy(answer)}{doubt}"
    return error(message, status=status, idempotency_key=idempotency_key)


def _say_remedy(answer: httpx.Response) -> str:
    asks_to_sign_in = answer.status_code < 500 and (answer.has_redirect_location or is_page(answer))
    remedy = _REMEDIES.get(answer.status_code, _SIGN_IN if asks_to_sign_in else "")
    return remedy.format(host=answer.url.host, past=say_exception(answer.url.host))


def say_doubt(idempotency_key: str | None, charges: bool = True) -> str:
    """Return a warning that a request with a key may have been charged or done; nothing for one without."""
    if idempotency_key is None:
        return ""
    done = "charged" if charges else "done"
    return f"; it may have been {done}: ask again with idempotency_key={idempotency_key!r}"


@contextmanager
def under_key(idempotency_key: str | None) -> Iterator[None]:
    """Give every error the key of its request, and name it where a malformed answer leaves open if it was charged."""
    try:
        yield
    except CuratorError as error:
        error.idempotency_key = error.idempotency_key or idempotency_key
        if isinstance(error, ServiceError) and error.slug is None and repr(idempotency_key) not in str(error):
            error.args = (f"{error}{say_doubt(idempotency_key)}",)
        raise


def is_page(answer: httpx.Response) -> bool:
    """Return whether an answer is for somebody's eyes."""
    kind, start = answer.headers.get("Content-Type", "").lower(), answer.content.removeprefix(BOM_UTF8).lstrip()[:1]
    return start == b"<" or kind.startswith("text/html") or (kind.startswith("text/") and start not in {b"{", b"["})


def describe_page(answer: httpx.Response) -> str:
    """Say where an answer sends to, or the title of its page."""
    if answer.has_redirect_location:
        # Of the address the host alone: the rest may hold secrets.
        return f"it sends to {plain(answer.url.join(answer.headers['Location']).host)}"
    titles = _TITLE.search(answer.content[:65536].decode("utf-8", "replace"))
    return f"a page: {plain(titles[1].strip())!r}" if titles else "a text without a problem document"


def read_problem(answered: httpx.Response, doubt: str, idempotency_key: str | None) -> CuratorError:
    """Turn a refusal into the error that names it."""
    status = answered.status_code
    answer: dict[str, Any] = {"status": status, "idempotency_key": idempotency_key}
    try:
        fields = Fields(parse_json(answered.content.decode("utf-8", "replace")))
        slug = fields.text("type")
    except ServiceError:
        slug = ""
    if not slug.startswith("/problems/"):
        return foreign(answered, describe_page(answered), doubt, idempotency_key)
    slug = slug.removeprefix("/problems/")
    answer |= {"slug": slug, "request_id": fields.members.get("instance")}
    said = [str(fields.members[name]) for name in ("title", "detail") if fields.has(name)]
    message = ": ".join(said) or slug
    error = CLASS_OF_SLUG.get(slug, ServiceError)
    try:
        if error in NAMES_OF:
            member = NAMES_OF[error]
            return error(message, **answer | {member: fields.optional(member, fields.texts) or ()})
        if error is RequestInvalidError:
            faults = fields.each("errors", read_fault) if fields.has("errors") else ()
            unsaid = [f"{fault.pointer}: {fault.detail}" for fault in faults if fault.detail not in message]
            message = "; ".join([message, *unsaid])
            return RequestInvalidError(message, errors=faults, **answer)
        if error is BudgetExceededError:
            names = ("requested", "remaining", "largest")
            amounts = {n: Amount.read(fields.object(n)) if fields.has(n) else None for n in names}
            return BudgetExceededError(message, **amounts, **answer)
        if error is ServiceUnavailableError:
            return ServiceUnavailableError(message, job=fields.optional("job", fields.text), **answer)
    except ServiceError:  # the refusal stands, whatever is wrong with its details
        pass
    return error(message, **answer)


def read_fault(fields: Fields) -> RequestFault:
    """Read one of the faults of a refused request."""
    return RequestFault(fields.text("pointer"), fields.text("detail"))
