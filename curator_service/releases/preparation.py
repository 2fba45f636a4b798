"""Check a request against public declarations, fill in its defaults, and plan it. Nothing here reads a row."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.datasets.storage import needs_pass
from curator_service.privacy.accountant import Price
from curator_service.privacy.calibration import PlanError
from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.mechanisms import noise_sd
from curator_service.privacy.parts import Part, Statistic
from curator_service.privacy.planning import GramPlan, plan_gram
from curator_service.privacy.rows import Ball, Box, RowMap, Unit, UnitXY
from curator_service.problems import RequestInvalid
from curator_service.releases.defaults import choose_row_map, default_row_maps
from curator_service.releases.pace import public_duration_s
from curator_service.releases.schemas import BallRows, ReleaseRequest, digest

TERMS_MAX = 1000
PASS_WORK_MAX = 1_000_000_000_000
"""Most multiplications of a pass, by the declared row capacity: some minutes of one core."""
SYNCHRONOUS_WORK_MAX = 20_000_000_000
"""Beyond so many it runs as a job: a request would wait for more than a minute."""
IMMEDIATE_ENTRIES_MAX = 5_000
"""Beyond so many the account is not locked while noise is drawn, and the answer written: some milliseconds."""

_UNSIZED: Mapping[str, RowMap] = {"box": Box(), "unit": Unit(), "unit_xy": UnitXY()}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that was checked against public declarations, and planned. Nothing here has read a row.

    Attributes
    ----------
    canonical : dict
        The request with every default filled in.
    request_digest : str
        What the library of releases is searched by: everything that decides the answer.
    fingerprint : str
        What an idempotency key stands for: the same, and whether a fresh draw was asked for.
    sibling_digests : tuple of str
        Those of the same request under the other default row maps, where it names none.
    """

    dataset: Dataset
    request: ReleaseRequest
    canonical: dict[str, Any]
    features: tuple[Column, ...]
    plan: GramPlan
    request_digest: str
    fingerprint: str
    sibling_digests: tuple[str, ...]

    @property
    def is_immediate(self) -> bool:
        """Whether it takes no time worth naming, and none that depends on rows: decided by declarations."""
        terms, targets = len(self.plan.design.terms), len(self.plan.design.targets)
        return self.duration_s == 0 and terms * (terms + targets) <= IMMEDIATE_ENTRIES_MAX

    def is_long(self, synchronous_row_capacity: int) -> bool:
        """Tell whether the request runs as a job, whatever the caller prefers: decided by declarations."""
        capacity, design = self.dataset.manifest.row_capacity, self.plan.design
        work = capacity * (len(design.terms) + len(design.targets)) ** 2
        too_long = capacity > synchronous_row_capacity or work > SYNCHRONOUS_WORK_MAX
        return too_long and needs_pass(design, self.plan.row_map)

    @property
    def duration_s(self) -> float:
        """How long the computation is made to take, in seconds."""
        return public_duration_s(self.plan, self.dataset.manifest.row_capacity)

    @property
    def noise_sd(self) -> dict[str, float]:
        """Standard deviations of the noise in scaled units, as quotes and answers state them."""
        return stated_noise(self.plan.parts)


def prepare(dataset: Dataset, request: ReleaseRequest) -> Prepared:
    """Check a request against the dataset's declarations, fill in defaults, and plan it.

    Raises
    ------
    RequestInvalid
        Naming the place, the rule and what would have worked.
    """
    features = tuple(_column(dataset, name, f"/features/{i}") for i, name in enumerate(request.features))
    targets = tuple(_column(dataset, name, f"/targets/{i}") for i, name in enumerate(request.targets))
    for i, target in enumerate(targets):
        if target.type is ColumnType.CATEGORICAL:
            raise RequestInvalid.at(f"/targets/{i}", f"the categorical column {target.name!r} cannot be a target")
    design = make_design(features, targets, intercept=request.intercept)
    if len(design.terms) > TERMS_MAX:
        raise RequestInvalid.at(
            "/features", f"the features make {len(design.terms)} terms; at most {TERMS_MAX} are released together"
        )
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
    canonical = {
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
    request_digest = digest(canonical, dataset=dataset.id)
    fingerprint = f"{request_digest}:{'fresh' if request.fresh else 'any'}"
    if request.project or request.reservation:
        payer = {"project": request.project or "", "reservation": request.reservation or ""}
        fingerprint = f"{digest(canonical, fingerprint=fingerprint, **payer)}:paid"
    return Prepared(
        dataset=dataset,
        request=request,
        canonical={**canonical, "fresh": request.fresh},
        features=features,
        plan=plan,
        request_digest=request_digest,
        fingerprint=fingerprint,
        sibling_digests=tuple(
            digest({**canonical, "rows": other}, dataset=dataset.id)
            for other in (default_row_maps(design) if request.rows is None else ())
            if other != rows
        ),
    )


def _column(dataset: Dataset, name: str, pointer: str) -> Column:
    column = dataset.manifest.by_name.get(name)
    if column is None:
        declared = ", ".join(c.name for c in dataset.manifest.columns)
        raise RequestInvalid.at(pointer, f"the dataset declares no column {name!r}; it has {declared}")
    return column


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


def make_row_map(rows: Mapping[str, Any]) -> RowMap:
    """Return the row map that a canonical request states."""
    return Ball.of_norm(rows["norm"]) if rows["map"] == "ball" else _UNSIZED[rows["map"]]


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
