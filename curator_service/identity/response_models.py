"""Answers on sign-ins, and the refusal of a role."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.identity.policy import Role
from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import Answer


class SignInIssuer(Answer):
    """An identity provider at which somebody may sign in for this curator."""

    name: str
    issuer: str
    client_id: str
    scope: str
    parameters: Annotated[dict[str, str], Field(description="What else it wants to be asked with, such as `resource`")]


class PermissionDeniedProblem(ProblemModel):
    """The caller's role may not do this."""

    type: Literal["/problems/permission-denied"]
    needed_role: list[Role]
