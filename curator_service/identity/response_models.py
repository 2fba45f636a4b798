"""What a refusal of a role says."""

from typing import Literal

from curator_service.identity.policy import Role
from curator_service.kit.problem_models import ProblemModel


class PermissionDeniedProblem(ProblemModel):
    """The caller's role may not do this."""

    type: Literal["/problems/permission-denied"]
    needed_role: list[Role]
