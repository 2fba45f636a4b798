"""Every act of the curator, by the slice that declares it."""

from curator_service.api.acts import Acts
from curator_service.approvals.acts import acts as approvals
from curator_service.datasets.acts import acts as datasets
from curator_service.evidence.acts import acts as evidence
from curator_service.health.acts import acts as health
from curator_service.ledger.acts import acts as ledger
from curator_service.permits.acts import acts as permits
from curator_service.questions.acts import acts as questions
from curator_service.register.acts import acts as register
from curator_service.releases.acts import acts as releases
from curator_service.sessions.acts import acts as sessions
from curator_service.surveys.acts import acts as surveys

SLICES: tuple[Acts, ...] = (
    releases,
    sessions,
    datasets,
    ledger,
    approvals,
    permits,
    register,
    evidence,
    questions,
    surveys,
    health,
)
