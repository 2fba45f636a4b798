"""Refusals of proposals and decisions."""

from http import HTTPStatus

from curator_service.kit.problems import Problem


class Conflict(Exception):
    """A request conflicts with the state that holds now; base of the refusals that name the conflict."""


class LimitConflict(Problem, Conflict):
    """The limit cannot be set as asked: it would fall below what is spent, or has changed in the meantime."""

    slug = "limit-conflict"
    status = HTTPStatus.CONFLICT
    title = "The limit cannot be set so"


class PopulationExists(Problem, Conflict):
    """A population has this name already."""

    slug = "population-exists"
    status = HTTPStatus.CONFLICT
    title = "The population exists"


class ProposalDecided(Problem, Conflict):
    """The proposal waits no more: somebody decided it, took it back, or it expired."""

    slug = "proposal-decided"
    status = HTTPStatus.CONFLICT
    title = "The proposal waits no more"


class ProposalUnattested(Problem, Conflict):
    """The register does not say that the proposal was made, or not so."""

    slug = "proposal-unattested"
    status = HTTPStatus.CONFLICT
    title = "The proposal is not in the register"


class TooManyProposals(Problem, Conflict):
    """The caller has too many waiting proposals, or made too many within a day."""

    slug = "too-many-proposals"
    status = HTTPStatus.CONFLICT
    title = "Too many of your proposals"


class PermitEnded(Problem, Conflict):
    """The permit was ended: it is neither changed nor ended again."""

    slug = "permit-ended"
    status = HTTPStatus.CONFLICT
    title = "The permit was ended"


class PermitChanged(Problem, Conflict):
    """The permit is not what it was when the change was asked for."""

    slug = "permit-changed"
    status = HTTPStatus.CONFLICT
    title = "The permit was changed in the meantime"


class SecondAdminNeeded(Problem):
    """A proposal needs the approval of another person than its author."""

    slug = "second-admin-needed"
    status = HTTPStatus.FORBIDDEN
    title = "Somebody else must approve"
