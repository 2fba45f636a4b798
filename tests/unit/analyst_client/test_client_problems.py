"""Each refusal of the curator becomes the error that names it."""

import pickle
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_examples import AMOUNT, Curator, ask, compact, problem

import analyst_client
from analyst_client import BudgetExceededError, CuratorError, RequestInvalidError, TransportError
from analyst_client.errors import (
    AnswerSpaceError,
    AuthenticationError,
    ConflictError,
    DatasetClosedError,
    DatasetNotFoundError,
    JobEndedError,
    LedgerSealedError,
    PermissionDeniedError,
    PermitExpiredError,
    PermitNeededError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    SessionEndedError,
    SessionNotFoundError,
    SurveyError,
)
from analyst_client.http.problems import CLASS_OF_SLUG

ERROR_OF_SLUG = [
    ("authentication-required", 401, AuthenticationError),
    ("permission-denied", 403, PermissionDeniedError),
    ("permit-needed", 403, PermitNeededError),
    ("permit-expired", 403, PermitExpiredError),
    ("visa-needed", 403, PermissionDeniedError),
    ("dataset-not-found", 404, DatasetNotFoundError),
    ("not-found", 404, RequestInvalidError),
    ("idempotency-key-missing", 400, RequestInvalidError),
    ("body-malformed", 400, RequestInvalidError),
    ("method-not-allowed", 405, RequestInvalidError),
    ("body-too-large", 413, RequestInvalidError),
    ("media-type-unsupported", 415, RequestInvalidError),
    ("too-many-requests", 429, RequestInvalidError),
    ("head-too-large", 431, RequestInvalidError),
    ("request-timeout", 408, ServiceUnavailableError),
    ("request-invalid", 422, RequestInvalidError),
    ("idempotency-key-reused", 422, RequestInvalidError),
    ("release-in-progress", 409, ServiceUnavailableError),
    ("dataset-unavailable", 503, ServiceUnavailableError),
    ("busy", 503, ServiceUnavailableError),
    ("ledger-unverified", 503, LedgerSealedError),
    ("checkpoint-invalid", 400, RequestInvalidError),
    ("reservation-not-found", 404, ReservationNotFoundError),
    ("reservation-ended", 409, ReservationEndedError),
    ("session-not-found", 404, SessionNotFoundError),
    ("session-ended", 409, SessionEndedError),
    ("survey-not-found", 404, SurveyError),
    ("survey-exists", 409, SurveyError),
    ("survey-ended", 409, SurveyError),
    ("report-refused", 403, SurveyError),
    ("job-ended", 409, JobEndedError),
    ("second-admin-needed", 403, PermissionDeniedError),
    ("limit-conflict", 409, ConflictError),
    ("population-exists", 409, ConflictError),
    ("proposal-decided", 409, ConflictError),
    ("proposal-unattested", 409, ConflictError),
    ("too-many-proposals", 409, ConflictError),
    ("permit-ended", 409, ConflictError),
    ("permit-changed", 409, ConflictError),
    ("token-not-shown", 409, ConflictError),
    ("dataset-closed", 409, DatasetClosedError),
    ("answer-space-exceeded", 409, AnswerSpaceError),
    ("budget-exceeded", 409, BudgetExceededError),
    ("internal-error", 500, ServiceError),
    ("something-new", 418, ServiceError),
]

PAGE = (Path(__file__).parents[3] / "docs" / "problems.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^## |^---$|\Z)", PAGE, re.MULTILINE | re.DOTALL))
RESERVED = frozenset(re.findall(r"`([a-z-]+)` \(", PAGE.partition("**Reserved.**")[2]))


def refusal(answer: httpx.Response) -> Any:
    with pytest.raises(CuratorError) as caught:
        ask(Curator(answer, answer).client(max_attempts=1), idempotency_key="mine")  # a list of datasets is asked, too
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


@pytest.mark.parametrize("slug", sorted(SECTIONS))
def test_documented_slug_has_the_class_that_its_section_names(slug: str) -> None:
    named = re.search(r"Client:\s+`(\w+)`", SECTIONS[slug])
    assert named is not None, "the section names no class of the client"
    assert CLASS_OF_SLUG[slug] is getattr(analyst_client.errors, named[1])


def test_every_class_is_that_of_a_documented_slug() -> None:
    assert CLASS_OF_SLUG.keys() == SECTIONS.keys() | RESERVED
    assert CLASS_OF_SLUG.keys() == {slug for slug, _, _ in ERROR_OF_SLUG} - {"something-new"}


def test_of_the_client_one_part_alone_administers() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in Path(analyst_client.__path__[0]).rglob("*.py")}
    assert any("/v1/datasets" in text for text in texts.values())
    assert {path.parent.name for path, text in texts.items() if "/v1/admin" in text} == {"admin"}


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
    for name in analyst_client.errors.__all__:
        if name.endswith(("Error", "Warning")):
            assert re.search(rf"\b{name}  ", tree) or name == "CuratorError", name


@pytest.mark.parametrize("errors", [[{"pointer": 1}], "none", [3]])
def test_refusal_stands_when_its_details_are_malformed(errors: Any) -> None:
    caught = refusal(problem("request-invalid", 422, errors=errors))
    assert isinstance(caught, RequestInvalidError)
    assert caught.errors == ()


def test_problem_without_a_type_goes_by_its_status() -> None:
    assert type(refusal(httpx.Response(400, content=compact({"title": "no"})))) is TransportError
    assert type(refusal(httpx.Response(500, content=compact({"title": "no"})))) is ServiceError


def test_every_error_derives_from_one_base() -> None:
    errors = [getattr(analyst_client.errors, name) for name in analyst_client.errors.__all__ if name.endswith("Error")]
    assert len(errors) == 35
    assert all(issubclass(error, CuratorError) for error in errors)


@pytest.mark.parametrize(("slug", "status", "error"), ERROR_OF_SLUG)
def test_error_survives_pickling(slug: str, status: int, error: type[CuratorError]) -> None:
    caught = refusal(problem(slug, status))
    copy = pickle.loads(pickle.dumps(caught))
    assert type(copy) is error
    assert (str(copy), vars(copy)) == (str(caught), vars(caught))
