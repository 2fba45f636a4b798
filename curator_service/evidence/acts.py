"""Acts of evidence."""

from typing import Annotated

from fastapi import Response
from pydantic import Field

from curator_service.api.acts import Acts
from curator_service.api.context import RequestContext
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.evidence.facts import Evidence
from curator_service.evidence.pack import make_archive, make_files
from curator_service.evidence.service import EvidenceService
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.service import permission_denied
from curator_service.kit.problems import NotFound
from curator_service.releases.repository import StoredRelease
from curator_service.releases.service import ReleaseService
from curator_service.releases.submission import release_not_found

acts = Acts("releases")
_PACK = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}


@acts.route(
    Action.READ_EVIDENCE,
    "GET /v1/releases/{release_id}/evidence",
    responses={200: {"description": "The pack; for an auditor without the answer", **_PACK}},
)
def get_evidence(context: RequestContext, release_id: str) -> Response:
    """Return what an officer, an output checker or a journal checks a release by, as a ZIP archive."""
    release = context.get(ReleaseService).get_release(release_id)
    has_answer = _may_read(context, release)
    if not has_answer and context.objects is not Objects.ALL:
        raise release_not_found()
    gathered = context.get(EvidenceService).gather_release(
        release.id, with_answers=has_answer, reader=context.principal
    )
    return _as_archive(gathered, release.id)


@acts.route(
    Action.READ_PERMIT_EVIDENCE,
    "GET /v1/permits/{permit_id}/evidence",
    responses={200: {"description": "The pack; with the answers, where a privacy officer asks for them", **_PACK}},
)
def get_permit_evidence(
    context: RequestContext,
    permit_id: str,
    answers: Annotated[bool, Field(description="With the released numbers.")] = False,
) -> Response:
    """Return what a permit and every release under it are checked by, as a ZIP archive."""
    if answers and allowed_objects(context.principal.roles, Action.READ_RELEASE) is not Objects.ALL:
        raise permission_denied(context.principal, Action.READ_RELEASE)
    gathered = context.get(EvidenceService).gather_permit(permit_id, with_answers=answers)
    return _as_archive(gathered, gathered.subject)


def _as_archive(evidence: Evidence, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
    return Response(make_archive(make_files(evidence), name), media_type="application/zip", headers=headers)


def _may_read(context: RequestContext, release: StoredRelease) -> bool:
    """Tell whether a caller may read the answer itself: some roles see evidence of every release, and no answer."""
    objects = allowed_objects(context.principal.roles, Action.READ_RELEASE)
    if objects is None:
        return False
    datasets = context.get(DatasetService)
    try:
        dataset = datasets.get_visible_by_id(context.principal, objects, release.dataset_id)
        context.get(ReleaseService).check_reader(release, dataset, context.principal)
    except (DatasetNotFound, NotFound):
        return False
    return True
