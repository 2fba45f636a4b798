"""Each refusal of the curator becomes the error that names it."""

import pickle
import re
from typing import Any

import httpx
import pytest
from client_examples import AMOUNT, Curator, ask, compact, problem

import analyst_client
from analyst_client import (
    AuthenticationError,
    BudgetExceededError,
    CuratorError,
    DatasetClosedError,
    DatasetNotFoundError,
    JobEndedError,
    LedgerSealedError,
    PermissionDeniedError,
    RequestInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    TransportError,
)

ERROR_OF_SLUG = [
    ("authentication-required", 401, AuthenticationError),
    ("permission-denied", 403, PermissionDeniedError),
    ("dataset-not-found", 404, DatasetNotFoundError),
    ("not-found", 404, RequestInvalidError),
    ("idempotency-key-missing", 400, RequestInvalidError),
    ("body-malformed", 400, RequestInvalidError),
    ("method-not-allowed", 405, RequestInvalidError),
    ("body-too-large", 413, RequestInvalidError),
    ("media-type-unsupported", 415, RequestInvalidError),
    ("too-many-requests", 429, RequestInvalidError),
    ("request-invalid", 422, RequestInvalidError),
    ("idempotency-key-reused", 422, RequestInvalidError),
    ("release-in-progress", 409, ServiceUnavailableError),
    ("busy", 503, ServiceUnavailableError),
    ("ledger-unverified", 503, LedgerSealedError),
    ("checkpoint-invalid", 400, RequestInvalidError),
    ("reservation-not-found", 404, ReservationNotFoundError),
    ("reservation-ended", 409, ReservationEndedError),
    ("job-ended", 409, JobEndedError),
    ("dataset-closed", 409, DatasetClosedError),
    ("budget-exceeded", 409, BudgetExceededError),
    ("internal-error", 500, ServiceError),
    ("something-new", 418, ServiceError),
]


def refusal(answer: httpx.Response) -> Any:
    with pytest.raises(CuratorError) as caught:
        ask(Curator(answer).client(max_attempts=1), idempotency_key="mine")
    return caught.value


@pytest.mark.parametrize(("slug", "status", "error"), ERROR_OF_SLUG)
def test_slug_has_its_error(slug: str, status: int, error: type[CuratorError]) -> None:
    caught = refusal(problem(slug, status))
    assert type(caught) is error
    assert (caught.slug, caught.status, caught.request_id, caught.idempotency_key) == (slug, status, "req_7", "mine")


@pytest.mark.parametrize(
    ("status", "error"),
    [(502, TransportError), (504, TransportError), (503, ServiceUnavailableError), (500, ServiceError)],
)
def test_answer_of_a_proxy_goes_by_its_status(status: int, error: type[CuratorError]) -> None:
    assert type(refusal(httpx.Response(status, content="<html>"))) is error


def test_text_of_a_refusal_is_the_curators() -> None:
    assert str(refusal(problem("dataset-closed", 409, title="Closed", detail="since May"))) == "Closed: since May"


def test_permission_denied_names_the_role() -> None:
    assert refusal(problem("permission-denied", 403, needed_role=["analyst"])).needed_role == ("analyst",)


def test_budget_exceeded_carries_its_amounts() -> None:
    largest = {"epsilon": 0.5, "delta": 1e-6, "mu": 0.12, "rho": 0.007}
    caught = refusal(problem("budget-exceeded", 409, requested=AMOUNT, remaining=AMOUNT, largest=largest))
    assert (caught.requested.units, caught.remaining.mu, caught.largest.epsilon) == (56_000_000_000, 0.2367, 0.5)


def test_budget_that_nothing_fits_has_no_largest() -> None:
    assert refusal(problem("budget-exceeded", 409, requested=AMOUNT, remaining=AMOUNT, largest=None)).largest is None


def test_sealed_ledger_is_a_kind_of_unavailable_service() -> None:
    assert isinstance(refusal(problem("ledger-unverified", 503)), ServiceUnavailableError)


def test_every_error_is_in_the_tree_of_its_module() -> None:
    tree = analyst_client.errors.__doc__
    assert tree is not None
    for name in analyst_client.__all__:
        if name.endswith(("Error", "Warning")):
            assert re.search(rf"\b{name}  ", tree) or name == "CuratorError", name


@pytest.mark.parametrize("errors", [[{"pointer": 1}], "none", [3]])
def test_refusal_stands_when_its_details_are_malformed(errors: Any) -> None:
    caught = refusal(problem("request-invalid", 422, errors=errors))
    assert isinstance(caught, RequestInvalidError)
    assert caught.errors == ()


def test_problem_without_a_type_goes_by_its_status() -> None:
    assert type(refusal(httpx.Response(400, content=compact({"title": "no"})))) is ServiceError


def test_every_error_derives_from_one_base() -> None:
    errors = [getattr(analyst_client, name) for name in analyst_client.__all__ if name.endswith("Error")]
    assert len(errors) == 23
    assert all(issubclass(error, CuratorError) for error in errors)


@pytest.mark.parametrize(("slug", "status", "error"), ERROR_OF_SLUG)
def test_error_survives_pickling(slug: str, status: int, error: type[CuratorError]) -> None:
    caught = refusal(problem(slug, status))
    copy = pickle.loads(pickle.dumps(caught))
    assert type(copy) is error
    assert (str(copy), vars(copy)) == (str(caught), vars(caught))
