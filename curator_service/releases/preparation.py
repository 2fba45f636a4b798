"""Check a request against public declarations, fill in its defaults, and plan it. Nothing here reads a row."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import rfc8785
from pydantic_core import to_json

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.datasets.repository import Dataset
from curator_service.entries.rules import Asked
from curator_service.kinds.base import ReleasePlan
from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import AnyKind, KindRegistry
from curator_service.kinds.request import ReleaseRequest
from curator_service.kinds.wide import kernel_for
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.calibration import PlanError
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.mechanism import ExactSums, NoisyStatistics, perturb
from curator_service.releases.response_time import pass_duration_s

IMMEDIATE_VALUES_MAX = 2_600
"""Beyond so many the account is not locked while noise is drawn, and the answer written: some milliseconds."""
VALUE_S = 8e-6
"""What a value of an answer takes about, drawn, added and written, in seconds."""

_ANSWER_BYTES, _STATISTIC_BYTES, _VALUE_BYTES = 2048, 200, 25
"""Of an answer's text: its id, moment, cost and receipt; of each statistic its frame and its noise; of each number."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request that was checked against public declarations, and planned. Nothing here has read a row.

    Attributes
    ----------
    canonical : dict
        The request with every default filled in, its columns in an order of the curator's, and its price in the
        account's own notion where that alone decides the noise: the same for all who mean the same.
    siblings : tuple of dict
        Members that another guess of the analyst's would have made others.
    request_digest : str
        What tells that the same request is being worked on.
    fingerprint : str
        What an idempotency key stands for: the request as the caller stated it, and whether a fresh draw was asked for.
    pace : float
        How many times as long as on the reference machine work is made to take here.

    Notes
    -----
    Equal to itself alone: what follows from it is kept beside it.
    """

    dataset: Dataset
    request: ReleaseRequest
    kind: AnyKind
    plan: ReleasePlan
    canonical: dict[str, Any]
    siblings: tuple[dict[str, Any], ...]
    request_digest: str
    fingerprint: str
    pace: float = 1.0

    @property
    def cost(self) -> int:
        """Cost of the release, in units of the account."""
        return self.plan.allocation.cost

    @property
    def asked(self) -> Asked:
        """It, as the rules of a permit see it."""
        return Asked(self.kind.name, self.dataset.name, self.cost)

    @cached_property
    def kernel(self) -> RowKernel:
        """Kernel of the release: the contributions of rows."""
        return kernel_for(self.kind.kernel(self.plan), self.dataset.manifest.row_capacity)

    @property
    def needs_pass(self) -> bool:
        """True if rows are read: from declarations, never from the data."""
        return self.kernel.cached_terms is None

    @cached_property
    def is_immediate(self) -> bool:
        """True if it takes very little time, and none that depends on rows: decided by declarations."""
        return self.duration_s == 0 and self.value_count <= IMMEDIATE_VALUES_MAX

    @cached_property
    def value_count(self) -> int:
        """Count of the numbers that leave."""
        return sum(output.size for output in self.plan.outputs)

    @property
    def expected_s(self) -> float:
        """Expected time of the request, in seconds: it is public, and decides if the request runs as a job."""
        return 0.0 if self.is_immediate else self.duration_s + self.value_count * VALUE_S

    @cached_property
    def request_text(self) -> str:
        """The request as a member of an answer, without braces."""
        return members_text({"request": self.canonical})

    @cached_property
    def declared_text(self) -> str:
        """Columns, and what the kind states of them, as members of an answer, without braces."""
        return members_text(self.listing.describe())

    @cached_property
    def answer_bytes(self) -> int:
        """Space counted for an answer, in bytes: by declarations, and somewhat more than its text needs."""
        stated = len(self.request_text.encode()) + len(self.declared_text.encode())
        return _ANSWER_BYTES + stated + _STATISTIC_BYTES * len(self.plan.outputs) + _VALUE_BYTES * self.value_count

    @cached_property
    def duration_s(self) -> float:
        """Fixed duration of the computation, in seconds.

        How long reading, mapping and adding take depends on rows that are not paid for. The duration is several times
        what they take; 0 where nothing of it is done.
        """
        pass_s = pass_duration_s(self.kernel, self.dataset.manifest.row_capacity)
        return self.pace * (self.kind.exact_s(self.plan) + pass_s)

    @cached_property
    def piece_s(self) -> float:
        """Fixed duration of a tile and of all but the pass, in seconds: they go on after a request to stop."""
        tile = min(tile_rows(self.kernel.width), self.dataset.manifest.row_capacity)
        return self.pace * (self.kind.exact_s(self.plan) + pass_duration_s(self.kernel, tile))

    @cached_property
    def noise_sd(self) -> dict[str, float]:
        """Standard deviations of the noise in scaled units, as quotes and answers state them."""
        return self.kind.state_noise(self.plan.parts)

    @cached_property
    def listing(self) -> Listing:
        """Listing of the request."""
        distribution = self.plan.parts[0].distribution.value
        declared = self.dataset.manifest.by_name
        listing: Listing = self.kind.listing(self.canonical, declared, distribution, self.noise_sd)
        return listing

    def perturb(self, sums: ExactSums, draws: IntArray) -> NoisyStatistics:
        """Return what may leave of the sums of rows' contributions."""
        return perturb(ExactSums(self.kind.exact(self.plan, sums.values)), self.plan, draws)


def members_text(content: Mapping[str, Any]) -> str:
    """Return members of a JSON object as text, without its braces."""
    return to_json(content).decode()[1:-1]


def prepare(kinds: KindRegistry, dataset: Dataset, request: ReleaseRequest, pace: float = 1.0) -> Prepared:
    """Check a request against the dataset's declarations, fill in defaults, and plan it.

    Raises
    ------
    RequestInvalid
        Naming the place, the rule and what would have worked.
    """
    kind = kinds[request.kind]
    try:
        planned = kind.plan(dataset, request)
    except PlanError as error:
        raise RequestInvalid.at(f"/{error.field}", str(error)) from None
    stated_digest = digest(planned.stated, dataset=dataset.id)
    is_canonical = planned.canonical == planned.stated
    fingerprint = f"{stated_digest}:{'fresh' if request.fresh else 'any'}"
    if request.project or request.reservation:
        payer = {"project": request.project or "", "reservation": request.reservation or ""}
        fingerprint = f"{digest(planned.stated, fingerprint=fingerprint, **payer)}:paid"
    return Prepared(
        dataset=dataset,
        request=request,
        kind=kind,
        plan=planned.plan,
        canonical={**planned.canonical, "fresh": request.fresh},
        siblings=planned.siblings,
        request_digest=stated_digest if is_canonical else digest(planned.canonical, dataset=dataset.id),
        fingerprint=fingerprint,
        pace=pace,
    )


def digest(canonical_request: dict[str, Any], **context: str) -> str:
    """Hash a canonical request (RFC 8785, SHA-256) with what else decides its answer."""
    return hashlib.sha256(rfc8785.dumps({**context, "request": canonical_request})).hexdigest()
