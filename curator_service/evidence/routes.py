"""The route of evidence."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.evidence.pack import make_archive, make_files
from curator_service.evidence.service import EvidenceService
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.service import permission_denied
from curator_service.kit.problems import PROBLEM_RESPONSES, NotFound, RequestInvalid
from curator_service.releases.repository import StoredRelease
from curator_service.releases.service import ReleaseService
from curator_service.releases.submission import release_not_found

router = APIRouter(prefix="/v1", tags=["releases"], responses=PROBLEM_RESPONSES)
_ZIP = "application/zip"
_ANSWERS = {
    "name": "answers",
    "in": "query",
    "schema": {"type": "boolean", "default": False},
    "description": "Whether the pack holds the released numbers.",
}


@router.get(
    "/releases/{release_id}/evidence",
    summary="What an officer, an output checker or a journal checks a release by, as a ZIP archive",
    response_class=Response,
    responses={
        200: {
            "description": "The pack; for an auditor without the answer",
            "content": {_ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
@endpoint(Action.READ_EVIDENCE)
def get_evidence(
    context: RequestContext,
    release_id: str,
) -> Response:
    """Return the evidence pack of a release."""
    release = context.get(ReleaseService).get_release(release_id)
    has_answer = _may_read(context, release)
    if not has_answer and context.objects is not Objects.ALL:
        raise release_not_found()
    evidence = context.get(EvidenceService).gather_release(
        release.id, with_answers=has_answer, reader=context.principal
    )
    headers = {"Content-Disposition": f'attachment; filename="{release.id}.zip"'}
    return Response(make_archive(make_files(evidence), release.id), media_type=_ZIP, headers=headers)


@router.get(
    "/permits/{permit_id}/evidence",
    summary="What a permit and every release under it are checked by, as a ZIP archive (privacy officer, auditor)",
    response_class=Response,
    responses={
        200: {
            "description": "The pack; with the answers, where a privacy officer asks for them",
            "content": {_ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
    openapi_extra={"parameters": [_ANSWERS]},
)
@endpoint(Action.READ_PERMIT_EVIDENCE)
def get_permit_evidence(
    context: RequestContext,
    permit_id: str,
) -> Response:
    """Return the evidence pack of a permit."""
    asked = context.call.query.get("answers", "false")
    if asked not in {"false", "true"}:
        raise RequestInvalid.at("?answers", "the query's answers must be true or false")
    if asked == "true" and allowed_objects(context.principal.roles, Action.READ_RELEASE) is not Objects.ALL:
        raise permission_denied(context.principal, Action.READ_RELEASE)
    evidence = context.get(EvidenceService).gather_permit(permit_id, with_answers=asked == "true")
    headers = {"Content-Disposition": f'attachment; filename="{evidence.subject}.zip"'}
    return Response(make_archive(make_files(evidence), evidence.subject), media_type=_ZIP, headers=headers)


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
