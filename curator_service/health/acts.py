"""The act of looking at the health of the service."""

from collections.abc import Iterable
from datetime import UTC, datetime

from curator_service.api.acts import Acts
from curator_service.api.context import RequestContext
from curator_service.health.findings import Finding
from curator_service.health.response_models import (
    FindingModel,
    HealthReportAnswer,
    PastSealModel,
    SampleModel,
    TaskModel,
)
from curator_service.health.service import HealthService
from curator_service.identity.policy import Action
from curator_service.identity.service import IdentityService
from curator_service.kit.clock import timestamp
from curator_service.kit.milestones import Noted
from curator_service.kit.samples import Sample

acts = Acts("health")


@acts.route(Action.READ_HEALTH, "GET /v1/admin/health", "health")
def get_health(context: RequestContext) -> HealthReportAnswer:
    """Show findings, backups, cuts, jobs, seals of the past and the requests of the last day."""
    health = context.get(HealthService).look()
    people = context.get(IdentityService).people.look()
    return HealthReportAnswer.model_construct(
        version=health.version,
        sealed=health.sealed_since is not None,
        findings=_state(health.findings),
        doctor_at=None if health.doctor is None else _moment(health.doctor.at),
        doctor=[] if health.doctor is None else _state(health.doctor.findings),
        backup=_task(health.backup),
        verified=_task(health.verified),
        last_cut=health.cut_came,
        next_cut=health.cut_next,
        overdue=health.overdue,
        jobs=health.jobs,
        oldest_job=health.oldest_job or None,
        seals=[
            PastSealModel.model_construct(
                ended_at=seal.ended_at,
                ended_by=people.find(seal.actor).name,
                approved_by=people.find(seal.approved_by).name if seal.approved_by else None,
            )
            for seal in health.seals
        ],
        samples=[_sample(at, sample) for at, sample in health.day if sample is not None],
    )


def _state(findings: Iterable[Finding]) -> list[FindingModel]:
    return [
        FindingModel.model_construct(what=one.what, state=one.state, found=one.found, remedy=one.remedy)
        for one in findings
    ]


def _task(noted: Noted | None) -> TaskModel | None:
    return None if noted is None else TaskModel.model_construct(ended_at=_moment(noted.at), is_well=noted.is_well)


def _sample(at: int, sample: Sample) -> SampleModel:
    return SampleModel.model_construct(
        at=_moment(at),
        requests=sample.requests,
        refused=sample.refused,
        failed=sample.failed,
        memory_free=sample.memory_free,
        disk_free=sample.disk_free,
    )


def _moment(at: float) -> str:
    return timestamp(datetime.fromtimestamp(at, UTC))
