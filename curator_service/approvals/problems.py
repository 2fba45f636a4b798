"""Refusals of proposals and decisions."""

from http import HTTPStatus
from typing import ClassVar

from curator_service.kit.problems import Problem


class Conflict(Problem):
    """What is asked does not fit what holds now: base of the refusals that say how."""

    status: ClassVar = HTTPStatus.CONFLICT


class LimitConflict(Conflict):
    """The limit cannot be set as asked: it would fall below what is spent, or has changed in the meantime."""

    slug = "limit-conflict"
    title = "The limit cannot be set so"


class PopulationExists(Conflict):
    """A population has this name already."""

    slug = "population-exists"
    title = "The population exists"


class ProposalDecided(Conflict):
    """The proposal waits no more: somebody decided it, took it back, or it expired."""

    slug = "proposal-decided"
    title = "The proposal waits no more"


class TooManyProposals(Conflict):
    """As many proposals of one person wait, or were made within a day, as may be."""

    slug = "too-many-proposals"
    title = "Too many of your proposals"


class PermitEnded(Conflict):
    """The permit was ended: it is neither changed nor ended again."""

    slug = "permit-ended"
    title = "The permit was ended"


class PermitChanged(Conflict):
    """The permit is not what it was when the change was asked for."""

    slug = "permit-changed"
    title = "The permit was changed in the meantime"


class SecondAdminNeeded(Problem):
    """Whoever proposes something cannot approve it."""

    slug = "second-admin-needed"
    status = HTTPStatus.FORBIDDEN
    title = "Somebody else must approve"
