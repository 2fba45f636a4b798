"""Check a request against public declarations, fill in its defaults, and plan it. Nothing here reads a row."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from curator_service.datasets.engines.numpy import needs_pass
from curator_service.datasets.repository import Dataset
from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.listing import Listing
from curator_service.kinds.gram.plan import Bound, GramPlan, derive_bounds, plan_gram
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import Price, own_price
from curator_service.privacy.calibration import Calibration, Mechanism, PlanError
from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.mechanism import noise_sd, value_counts
from curator_service.privacy.parts import Part, Statistic
from curator_service.privacy.row_maps import BallRows, RowMap, make_row_map
from curator_service.releases.response_time import public_duration_s
from curator_service.releases.schemas import ReleaseRequest, digest

TERMS_MAX = 1000
PASS_WORK_MAX = 1_000_000_000_000
"""Most multiplications of a pass, by the declared row capacity: some minutes of one core."""
IMMEDIATE_ENTRIES_MAX = 5_000
"""Beyond so many the account is not locked while noise is drawn, and the answer written: some milliseconds."""
ENTRY_S = 4e-6
"""What an entry of an answer takes about, drawn, added and written, in seconds."""

_ANSWER_BYTES, _ENTRY_BYTES = 4096, 25


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request that was checked against public declarations, and planned. Nothing here has read a row.

    Attributes
    ----------
    canonical : dict
        The request with every default filled in, its columns in the order of the manifest, and its price in the
        account's own notion where that alone decides the noise: the same for all who mean the same.
    request_digest : str
        What tells that the same request is being worked on.
    fingerprint : str
        What an idempotency key stands for: the request as the caller stated it, and whether a fresh draw was asked for.
    other_default_rows : tuple of dict
        The other default row maps, where the request names none.

    Notes
    -----
    Equal to itself alone: what follows from it is kept beside it.
    """

    dataset: Dataset
    request: ReleaseRequest
    canonical: dict[str, Any]
    features: tuple[Column, ...]
    plan: GramPlan
    request_digest: str
    fingerprint: str
    other_default_rows: tuple[dict[str, Any], ...]

    @cached_property
    def is_immediate(self) -> bool:
        """Whether it takes no time worth naming, and none that depends on rows: decided by declarations."""
        return self.duration_s == 0 and self.entry_count <= IMMEDIATE_ENTRIES_MAX

    @cached_property
    def entry_count(self) -> int:
        """How many numbers XᵀX and Xᵀy have."""
        terms, targets = len(self.plan.design.terms), len(self.plan.design.targets)
        return terms * (terms + targets)

    @property
    def expected_s(self) -> float:
        """How long the request takes about, in seconds: what decides whether it runs as a job is public."""
        return 0.0 if self.is_immediate else self.duration_s + self.entry_count * ENTRY_S

    @cached_property
    def answer_bytes(self) -> int:
        """How much space an answer is counted for: by declarations, and somewhat more than its text needs."""
        sizes = value_counts(self.plan.design)
        return _ANSWER_BYTES + _ENTRY_BYTES * sum(sizes[part.statistic] for part in self.plan.parts)

    @cached_property
    def duration_s(self) -> float:
        """How long the computation is made to take, in seconds."""
        return public_duration_s(self.plan, self.dataset.manifest.row_capacity)

    @cached_property
    def noise_sd(self) -> dict[str, float]:
        """Standard deviations of the noise in scaled units, as quotes and answers state them."""
        return stated_noise(self.plan.parts)

    @cached_property
    def listing(self) -> Listing:
        """What is asked for."""
        distribution = self.plan.parts[0].distribution.value
        return Listing(self.canonical, self.dataset.manifest.by_name, distribution, self.noise_sd)


def prepare(dataset: Dataset, request: ReleaseRequest) -> Prepared:
    """Check a request against the dataset's declarations, fill in defaults, and plan it.

    Raises
    ------
    RequestInvalid
        Naming the place, the rule and what would have worked.
    """
    features, targets, design = _design(dataset, request)
    rows = _rows(dataset, request, design)
    row_map = make_row_map(rows)
    capacity, width = dataset.manifest.row_capacity, len(design.terms) + len(design.targets)
    if needs_pass(design, row_map) and capacity * width**2 > PASS_WORK_MAX:
        raise RequestInvalid.at(
            "/rows",
            "the declared row capacity is too large for a pass over rows with so many terms; ask for fewer terms, or "
            "for the box map and columns that are not declared with missing = omit",
        )
    shares = request.shares_of_price
    try:
        plan = _plan(dataset, request, design, row_map, request.price.price)
    except PlanError as error:
        raise RequestInvalid.at(f"/{error.field}", str(error)) from None
    stated = {
        "kind": request.kind,
        "features": list(request.features),
        "targets": list(request.targets),
        "intercept": request.intercept,
        "rows": rows,
        "statistics": [s.value for s in shares],
        "mechanism": request.mechanism,
        "calibration": request.calibration,
        "price": request.price.model_dump(exclude_none=True),
        # As the caller stated them, so that a request that is read off an answer and sent again is the same request.
        "shares": {s.value: float(shares[s]) if request.shares is None else request.shares[s] for s in shares},
    }
    canonical = stated | {
        "features": [column.name for column in features],
        "targets": [column.name for column in targets],
        "price": _own_price(dataset, request),
    }
    stated_digest = digest(stated, dataset=dataset.id)
    request_digest = stated_digest if canonical == stated else digest(canonical, dataset=dataset.id)
    fingerprint = f"{stated_digest}:{'fresh' if request.fresh else 'any'}"
    if request.project or request.reservation:
        payer = {"project": request.project or "", "reservation": request.reservation or ""}
        fingerprint = f"{digest(stated, fingerprint=fingerprint, **payer)}:paid"
    return Prepared(
        dataset=dataset,
        request=request,
        canonical={**canonical, "fresh": request.fresh},
        features=features,
        plan=plan,
        request_digest=request_digest,
        fingerprint=fingerprint,
        other_default_rows=tuple(
            other for other in (default_row_maps(design) if request.rows is None else ()) if other != rows
        ),
    )


def derive_stated(dataset: Dataset, request: ReleaseRequest) -> tuple[tuple[Bound, ...], Fraction | None]:
    """Derive what the charge of a request must state of its sensitivities, from declarations alone.

    Raises
    ------
    RequestInvalid
    """
    *_, design = _design(dataset, request)
    row_map = make_row_map(_rows(dataset, request, design))
    return derive_bounds(
        design,
        row_map,
        dataset.adjacency,
        row_capacity=dataset.manifest.row_capacity,
        statistics=request.chosen_statistics,
        mechanism=request.mechanism,
        rows_per_person=dataset.manifest.rows_per_person,
    )


def _design(dataset: Dataset, request: ReleaseRequest) -> tuple[tuple[Column, ...], tuple[Column, ...], Design]:
    features = tuple(_column(dataset, name, f"/features/{i}") for i, name in enumerate(request.features))
    targets = tuple(_column(dataset, name, f"/targets/{i}") for i, name in enumerate(request.targets))
    for i, target in enumerate(targets):
        if target.type is ColumnType.CATEGORICAL:
            raise RequestInvalid.at(f"/targets/{i}", f"the categorical column {target.name!r} cannot be a target")
    features, targets = (_in_order(dataset, columns) for columns in (features, targets))
    design = make_design(features, targets, intercept=request.intercept)
    if len(design.terms) > TERMS_MAX:
        raise RequestInvalid.at(
            "/features", f"the features make {len(design.terms)} terms; at most {TERMS_MAX} are released together"
        )
    return features, targets, design


def _column(dataset: Dataset, name: str, pointer: str) -> Column:
    column = dataset.manifest.by_name.get(name)
    if column is None:
        declared = ", ".join(c.name for c in dataset.manifest.columns)
        raise RequestInvalid.at(pointer, f"the dataset declares no column {name!r}; it has {declared}")
    return column


def _in_order(dataset: Dataset, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return columns in the order in which the manifest declares them."""
    place = {name: i for i, name in enumerate(dataset.manifest.by_name)}
    return tuple(sorted(columns, key=lambda column: place[column.name]))


def _own_price(dataset: Dataset, request: ReleaseRequest) -> dict[str, float]:
    """State the price as the account counts it. Laplace noise and the published formulas read epsilon itself."""
    stated: dict[str, float] = request.price.model_dump(exclude_none=True)
    if request.mechanism is not Mechanism.GAUSSIAN or request.calibration is not Calibration.ANALYTIC:
        return stated
    own = own_price(dataset.accountant, dataset.accountant.units_of(request.price.price))
    return stated if own is None else {dataset.accountant.notion: own}


def _rows(dataset: Dataset, request: ReleaseRequest, design: Design) -> dict[str, Any]:
    """Return the row map as the canonical request states it, with defaults filled in."""
    small = default_row_maps(design)[0]
    if request.rows is None:
        try:
            plan = _plan(dataset, request, design, make_row_map(small), request.price.price)
        except PlanError as error:
            raise RequestInvalid.at(f"/{error.field}", str(error)) from None
        return choose_row_map(
            design,
            stated_noise(plan.parts),
            expected_rows=request.expected_rows,
            row_capacity=dataset.manifest.row_capacity,
        )
    if not isinstance(request.rows, BallRows):
        return {"map": request.rows.map}
    if request.rows.norm is None:
        return small
    widest = math.sqrt(design.group_count)
    if request.rows.norm > widest:
        raise RequestInvalid.at(
            "/rows/norm", f"no row of these features is longer than {widest:.6g}: ask for less, or for the box map"
        )
    return {"map": "ball", "norm": request.rows.norm}


def stated_noise(parts: tuple[Part, ...]) -> dict[str, float]:
    """Return standard deviations in scaled units under the names that quotes and answers use."""
    sd: dict[str, float] = {}
    for part in parts:
        diagonal, offdiagonal = (noise_sd(part.distribution, scale) for scale in part.scales)
        if part.statistic is Statistic.XTX:
            sd |= {"xtx_diagonal": diagonal, "xtx_offdiagonal": offdiagonal}
        else:
            sd[part.statistic] = diagonal
    return sd


def plan_at(prepared: Prepared, price: Price) -> GramPlan:
    """Plan the same request at another price. Raise `PlanError` where that is not sold."""
    return _plan(prepared.dataset, prepared.request, prepared.plan.design, prepared.plan.row_map, price)


def _plan(dataset: Dataset, request: ReleaseRequest, design: Design, row_map: RowMap, price: Price) -> GramPlan:
    return plan_gram(
        design,
        row_map,
        dataset.adjacency,
        row_capacity=dataset.manifest.row_capacity,
        price=price,
        shares=request.shares_of_price,
        accountant=dataset.accountant,
        mechanism=request.mechanism,
        calibration=request.calibration,
        rows_per_person=dataset.manifest.rows_per_person,
    )
