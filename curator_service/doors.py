"""The door of every route: who calls, what that principal may do, and to which dataset.

A route asks for a `Visitor` and calls `permit` before anything else; the API tests walk every route without a token.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from curator_service.curator import Curator
from curator_service.datasets.manifest import NAME_PATTERN
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetNotFound
from curator_service.http import Call, CallDependency
from curator_service.identity.policy import Action, Objects
from curator_service.identity.repository import Principal

_NAME = re.compile(NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class Visit:
    """An authenticated call with permission for one action."""

    curator: Curator
    call: Call
    principal: Principal
    objects: Objects

    def dataset(self, name: str) -> Dataset:
        """Return a dataset that the principal may see.

        Raises
        ------
        DatasetNotFound
        """
        if not _NAME.fullmatch(name):
            raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
        return self.curator.datasets.get_visible(self.principal, self.objects, name)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A call before its token was looked at."""

    curator: Curator
    call: Call

    def permit(self, action: Action) -> Visit:
        """Authenticate and authorise.

        Raises
        ------
        AuthenticationRequired, PermissionDenied
        """
        principal = self.curator.identity.authenticate(self.call.authorization)
        return Visit(self.curator, self.call, principal, self.curator.identity.authorize(principal, action))


async def _visitor(call: CallDependency) -> Visitor:
    return Visitor(call.request.app.state.curator, call)


VisitorDependency = Annotated[Visitor, Depends(_visitor)]
