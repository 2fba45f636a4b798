"""The kind ``gram``: noisy sufficient statistics, one release for every regression on its columns."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import KindWords, Planned, ReleaseKind
from curator_service.kinds.combining import read_combinations, state_combinations
from curator_service.kinds.counting import PER_CELL_S
from curator_service.kinds.designs import count_functions, read_design
from curator_service.kinds.features import SELECTING, read_selection, state_feature, state_selection
from curator_service.kinds.gram.conformance import CONFORMANCE
from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.kernel import GramKernel, flatten, is_lambda_min_right, typical_kernel
from curator_service.kinds.gram.library import GramLibrary
from curator_service.kinds.gram.listing import GramListing
from curator_service.kinds.gram.plan import GramPlan, derive_bounds, plan_gram
from curator_service.kinds.gram.response_models import GRAM
from curator_service.kinds.gram.schema import EXAMPLE, KIND, GramRequest
from curator_service.kinds.gram.sensitivity import GramJointBound
from curator_service.kinds.gram.statistics import Statistic
from curator_service.kinds.wording import describe_model, write_formula
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.allocation import Bound
from curator_service.privacy.bases import TABLE_S
from curator_service.privacy.design import Column, Design, Feature, combine_terms
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.mechanism import noise_sd
from curator_service.privacy.parts import Part
from curator_service.privacy.row_maps import LinearRows, RowMap, RowsInvalidError, make_row_map
from curator_service.privacy.sums import INT64_CAPACITY_MAX

PASS_WORK_MAX = 1_000_000_000_000
"""Most multiplications of a pass, by the declared row capacity: some minutes of one core."""
LAMBDA_MIN_S, LAMBDA_MIN_PER_CUBE_S = 0.005, 1e-9


class Gram(ReleaseKind[GramRequest, GramPlan, GramListing]):
    """Noisy XᵀX, Xᵀy, yᵀy and λ_min of mapped rows."""

    name = KIND
    request_model = GramRequest
    models = GRAM
    listing = GramListing
    asked: ClassVar = (
        "kind",
        "features",
        "targets",
        "intercept",
        "rows",
        "statistics",
        "mechanism",
        "calibration",
        "shares",
        *SELECTING,
    )
    declared: ClassVar = ("features", "terms", "combined", "targets", "columns", "derived")
    example: ClassVar = EXAMPLE
    words: ClassVar = KindWords(
        "sums for regression models",
        "Sums of products of columns over the rows that count: what linear models are fitted from.",
        {
            "xtx": "products of terms with each other (XᵀX)",
            "xty": "products of terms with targets (Xᵀy)",
            "yty": "squares of targets (yᵀy)",
            "lambda_min": "smallest eigenvalue of XᵀX",
        },
        {
            "xtx_diagonal": "XᵀX, on its diagonal",
            "xtx_offdiagonal": "XᵀX, beside its diagonal",
            "xty": "Xᵀy",
            "yty": "yᵀy",
        },
    )
    library = GramLibrary()
    conformance: ClassVar = CONFORMANCE
    typical: ClassVar = (typical_kernel(4), typical_kernel(50))
    self_tests: ClassVar = (
        (is_lambda_min_right, "the smallest eigenvalue of a worst-case matrix is outside of its proved bounds"),
    )

    def plan(self, dataset: Dataset, request: GramRequest) -> Planned[GramPlan]:
        """Check a request against declarations, fill in its defaults, and plan it."""
        features, targets, design = _design(dataset, request)
        selection = read_selection(request.where, request.weight, dataset.manifest.by_name)
        rows = _rows(dataset, request, design)
        row_map = make_row_map(rows)
        capacity, width = dataset.manifest.row_capacity, design.width
        is_wide = capacity > INT64_CAPACITY_MAX
        kernel = GramKernel(design, row_map, selection)
        if (is_wide or kernel.cached_terms is None) and capacity * max(width**2, kernel.products) > PASS_WORK_MAX:
            otherwise = "" if is_wide else ", or for the box map and columns that are not declared with missing = omit"
            raise RequestInvalid.at(
                "/rows",
                "the declared row capacity is too large for a pass over rows with so many terms; ask for fewer terms"
                f"{otherwise}",
            )
        shares = request.shares_of_price
        plan = replace(_plan(dataset, request, design, row_map, request.price.price), selection=selection)
        stated = {
            "kind": request.kind,
            "features": list(request.features),
            "targets": list(request.targets),
            "intercept": request.intercept,
            "rows": rows,
            "statistics": [s.value for s in shares],
            "mechanism": request.mechanism,
            "calibration": request.calibration,
            "price": request.state_price(),
            # As the caller stated them, so that a request that is read off an answer and sent again is the same one.
            "shares": {s.value: float(shares[s]) if request.shares is None else request.shares[s] for s in shares},
        }
        stated |= {name: given for name in SELECTING if (given := getattr(request, name)) is not None}
        canonical = stated | {
            "features": [state_feature(feature) for feature in features],
            "targets": [state_feature(target) for target in targets],
            "price": request.own_price(dataset.accountant),
            **state_selection(selection),
        }
        others = default_row_maps(design) if request.rows is None else ()
        return Planned(stated, canonical, plan, tuple({"rows": other} for other in others if other != rows))

    def plan_at(self, dataset: Dataset, request: GramRequest, plan: GramPlan, price: Price) -> GramPlan:
        """Plan the same request at another price."""
        return replace(_plan(dataset, request, plan.design, plan.row_map, price), selection=plan.selection)

    def bounds(self, dataset: Dataset, request: GramRequest) -> tuple[tuple[Bound, ...], GramJointBound | None]:
        """Derive the sensitivities that a charge must state, from declarations alone."""
        *_, design = _design(dataset, request)
        return derive_bounds(
            design,
            make_row_map(_rows(dataset, request, design)),
            dataset.adjacency,
            row_capacity=dataset.manifest.row_capacity,
            statistics=request.chosen_statistics,
            mechanism=request.mechanism,
            rows_per_person=dataset.manifest.rows_per_person,
        )

    def kernel(self, plan: GramPlan) -> GramKernel:
        """Return Σ z zᵀ of terms and targets."""
        return GramKernel(plan.design, plan.row_map, plan.selection)

    def exact(self, plan: GramPlan, sums: IntArray) -> IntArray:
        """Cut the Gram into what leaves, and compute λ_min where it is asked."""
        return flatten(sums, len(plan.design.terms), plan.outputs, plan.lambda_min_tolerance)

    def exact_s(self, plan: GramPlan) -> float:
        """Return a time for the tables of bases, and for λ_min: how many factorisations it takes depends on rows."""
        tables_s = TABLE_S * count_functions(plan.design.coded)
        if plan.design.combinations is not None:  # of two terms as many as a thousand: they take some of few rows too
            tables_s += PER_CELL_S * sum(output.size for output in plan.outputs)
        if not any(part.statistic == Statistic.LAMBDA_MIN for part in plan.parts):
            return tables_s
        return tables_s + LAMBDA_MIN_S + LAMBDA_MIN_PER_CUBE_S * len(plan.design.terms) ** 3

    def describe_question(self, request: Mapping[str, Any]) -> str:
        """Return what a stored request asks, in words."""
        model = describe_model(request, request["targets"])
        if request["rows"]["map"] == "linear":  # of combinations of terms, as a refinement asks for them
            return f"one step of refining a linear model of {model}: products of its terms"
        return f"sums for linear models of {model}"

    def write_formula(self, request: Mapping[str, Any]) -> str:
        """Return a stored request as a formula."""
        return write_formula(request, request["targets"])

    def noise_of_sums(self, request: Mapping[str, Any], sd: Mapping[str, float]) -> Mapping[str, float]:
        """Return it of the row and the column of the constant term; combined terms have none."""
        if not request["intercept"] or request["rows"]["map"] == "linear":
            return {}
        named = {"features": "xtx_offdiagonal", "targets": "xty"}
        return {name: sd[statistic] for name, statistic in named.items() if statistic in sd}

    def state_noise(self, parts: tuple[Part, ...]) -> dict[str, float]:
        """Return standard deviations by statistic; XᵀX has one on its diagonal and one off it."""
        return _state_noise(parts)

    def state_joint(self, joint: JointBound | None) -> str | None:
        """Return the constant of the joint bound."""
        return str(joint.constant) if isinstance(joint, GramJointBound) else None

    def read_joint(self, constant: str | None) -> GramJointBound | None:
        """Read the constant of the joint bound."""
        return None if constant is None else GramJointBound(Fraction(constant))


def _design(dataset: Dataset, request: GramRequest) -> tuple[tuple[Feature, ...], tuple[Column, ...], Design]:
    """Return features, targets, and the design of the terms that leave."""
    features, targets, design = read_design(dataset, request.features, request.targets, intercept=request.intercept)
    if isinstance(request.rows, LinearRows):
        combinations = read_combinations(request.rows.matrix, request.rows.bits, design, "/rows/matrix")
        design = combine_terms(design, combinations)
    return features, targets, design


def _rows(dataset: Dataset, request: GramRequest, design: Design) -> dict[str, Any]:
    """Return the row map as the canonical request states it, with defaults filled in."""
    if design.combinations is not None:
        return {"map": "linear", **state_combinations(design.combinations, design.combined)}
    if request.rows is None:
        small = default_row_maps(design)[0]
        plan = _plan(dataset, request, design, make_row_map(small), request.price.price)
        return choose_row_map(
            design,
            _state_noise(plan.parts),
            expected_rows=request.expected_rows,
            row_capacity=dataset.manifest.row_capacity,
        )
    try:
        return request.rows.fill(design).model_dump(mode="json")
    except RowsInvalidError as error:
        raise RequestInvalid.at(f"/rows/{error.member}", str(error)) from None


def _state_noise(parts: tuple[Part, ...]) -> dict[str, float]:
    """Return standard deviations in scaled units under the names that quotes and answers use."""
    sd: dict[str, float] = {}
    for part in parts:
        diagonal, offdiagonal = (noise_sd(part.distribution, scale) for scale in part.scales)
        if part.statistic == Statistic.XTX:
            sd |= {"xtx_diagonal": diagonal, "xtx_offdiagonal": offdiagonal}
        else:
            sd[part.statistic] = diagonal
    return sd


def _plan(dataset: Dataset, request: GramRequest, design: Design, row_map: RowMap, price: Price) -> GramPlan:
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
