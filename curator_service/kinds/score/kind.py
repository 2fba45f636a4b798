"""The kind ``score``: Σ of clipped gradients of a loss, at coefficients and through directions that are posted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import KindWords, Planned, ReleaseKind
from curator_service.kinds.combining import (
    read_coefficients,
    read_combinations,
    state_coefficients,
    state_combinations,
)
from curator_service.kinds.counting import PER_CELL_S
from curator_service.kinds.designs import count_functions, read_design
from curator_service.kinds.features import SELECTING, read_selection, state_feature, state_selection
from curator_service.kinds.gram.kind import PASS_WORK_MAX
from curator_service.kinds.score.conformance import CONFORMANCE
from curator_service.kinds.score.kernel import ScoreKernel, typical_kernel
from curator_service.kinds.score.listing import ScoreListing
from curator_service.kinds.score.response_models import SCORE
from curator_service.kinds.score.schema import EXAMPLE, KIND, ScoreRequest
from curator_service.kinds.score.sensitivity import score_l1, score_l2_squared
from curator_service.kinds.score.statistics import Statistic, output_of
from curator_service.kinds.wording import describe_model, list_asked, write_formula
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.allocation import DISTRIBUTIONS, Allocation, Bound, allocate
from curator_service.privacy.bases import TABLE_S
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Design
from curator_service.privacy.expressions.elementary import TINY
from curator_service.privacy.expressions.operators import LARGEST
from curator_service.privacy.losses import DIGESTS, Loss, links_are_known
from curator_service.privacy.mechanism import Output, noise_sd
from curator_service.privacy.parts import Part

LINK_S = 0.02
"""Of the public duration: making a link's table."""


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """Everything that decides a ``score`` release but the data."""

    kernel: ScoreKernel
    allocation: Allocation
    joint: JointBound | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each statistic with the scales of its noise."""
        return self.allocation.parts

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Output of each statistic."""
        return tuple(output_of(statistic, self.kernel.directions.count) for statistic in self.kernel.statistics)


class Score(ReleaseKind[ScoreRequest, ScorePlan, ScoreListing]):
    """Noisy gradients of a linear, logistic or Poisson loss, counts of rows by their norms, and their products."""

    name = KIND
    request_model = ScoreRequest
    models = SCORE
    listing = ScoreListing
    asked: ClassVar = (
        "kind",
        "features",
        "target",
        "intercept",
        "loss",
        "link",
        "coefficients",
        "directions",
        "statistics",
        "mechanism",
        "calibration",
        "shares",
        *SELECTING,
    )
    declared: ClassVar = ("columns", "terms", "target", "derived")
    example: ClassVar = EXAMPLE
    words: ClassVar = KindWords(
        "steps of fitting a model",
        "A step of fitting a model: the gradient of a loss, clipped for each row, at stated coefficients.",
        {
            "score": "sum of clipped gradients",
            "norms": "rows by the norm of their gradient before it was clipped",
            "meat": "products of clipped gradients",
        },
        {
            "meat_diagonal": "products of clipped gradients, on the diagonal",
            "meat_offdiagonal": "products of clipped gradients, beside the diagonal",
        },
    )
    conformance: ClassVar = CONFORMANCE
    typical: ClassVar = (typical_kernel(4), typical_kernel(30))
    self_tests: ClassVar = ((links_are_known, "a table of a link is not the one that its digest names"),)

    def describe_question(self, request: Mapping[str, Any]) -> str:
        """Return what a stored request asks, in words."""
        if request["coefficients"]["weights"] == {"(constant)": -1} and request["loss"] == "linear":
            where = f"where {list_asked(request['features'])} lie, together with {list_asked([request['target']])}"
            return f"one step of refining a model: {where}, clipped row by row"
        model = describe_model(request, [request["target"]])
        return f"one step of fitting a {request['loss']} model of {model}: its gradient, clipped row by row"

    def write_formula(self, request: Mapping[str, Any]) -> str:
        """Return a stored request as a formula."""
        return write_formula(request, [request["target"]])

    def plan(self, dataset: Dataset, request: ScoreRequest) -> Planned[ScorePlan]:
        """Check a request against declarations, fill in its defaults, and plan it."""
        features, targets, design = read_design(
            dataset, request.features, [request.target], intercept=request.intercept, at_target="/target"
        )
        _check_target(request, design)
        coefficients, directions = request.coefficients, request.directions
        shares = request.shares_of_price
        kernel = ScoreKernel(
            design,
            request.loss,
            read_coefficients(coefficients.weights, coefficients.bits, design, "/coefficients/weights"),
            read_combinations(directions.matrix, directions.bits, design, "/directions/matrix"),
            tuple(shares),
            read_selection(request.where, request.weight, dataset.manifest.by_name),
        )
        if dataset.manifest.row_capacity * kernel.products > PASS_WORK_MAX:
            rule = "the declared row capacity is too large for a pass over rows with so many terms and directions"
            raise RequestInvalid.at("/directions", f"{rule}; ask for fewer")
        plan = ScorePlan(kernel, _allocate(dataset, request, kernel.directions.count, request.price.price))
        stated = {
            "kind": request.kind,
            "features": list(request.features),
            "target": request.target,
            "intercept": request.intercept,
            "loss": request.loss,
            **({"link": link} if (link := DIGESTS.get(request.loss)) is not None else {}),
            "coefficients": state_coefficients(kernel.coefficients, design.terms),
            "directions": state_combinations(kernel.directions, design.terms),
            "statistics": [s.value for s in shares],
            "mechanism": request.mechanism,
            "calibration": request.calibration,
            "price": request.state_price(),
            "shares": {
                s.value: float(share) if request.shares is None else request.shares[s] for s, share in shares.items()
            },
        }
        stated |= {name: given for name in SELECTING if (given := getattr(request, name)) is not None}
        canonical = stated | {
            "features": [state_feature(feature) for feature in features],
            "target": state_feature(targets[0]),
            "price": request.own_price(dataset.accountant),
            **state_selection(kernel.selection),
        }
        return Planned(stated, canonical, plan)

    def plan_at(self, dataset: Dataset, request: ScoreRequest, plan: ScorePlan, price: Price) -> ScorePlan:
        """Plan the same request at another price."""
        return replace(plan, allocation=_allocate(dataset, request, plan.kernel.directions.count, price))

    def bounds(self, dataset: Dataset, request: ScoreRequest) -> tuple[tuple[Bound, ...], None]:
        """Derive the sensitivities that a charge must state, from declarations alone."""
        count = len(next(iter(request.directions.matrix.values())))
        return _bounds(dataset, request, count), None

    def kernel(self, plan: ScorePlan) -> ScoreKernel:
        """Return what rows contribute."""
        return plan.kernel

    def exact_s(self, plan: ScorePlan) -> float:
        """Return a time for the tables of links and bases, and for numbers, which take some even where rows are few."""
        tables_s = LINK_S * (plan.kernel.loss is not Loss.LINEAR) + TABLE_S * count_functions(plan.kernel.design.terms)
        return tables_s + PER_CELL_S * sum(output.size for output in plan.outputs)

    def state_noise(self, parts: tuple[Part, ...]) -> dict[str, float]:
        """Return standard deviations by statistic; the meat has one on its diagonal and one off it."""
        sd: dict[str, float] = {}
        for part in parts:
            diagonal, offdiagonal = (noise_sd(part.distribution, scale) for scale in part.scales)
            if part.statistic == Statistic.MEAT:
                sd |= {"meat_diagonal": diagonal, "meat_offdiagonal": offdiagonal}
            else:
                sd[part.statistic] = diagonal
        return sd


def _check_target(request: ScoreRequest, design: Design) -> None:
    (target,) = (column for column in design.sources if column.name == design.targets[0].name)
    match request.loss:
        case Loss.LOGISTIC if not target.is_truth:
            rule = f"the logistic loss is of a boolean, and {target.name!r} is a number"
            raise RequestInvalid.at("/target", f"{rule}; a comparison such as {{'less': [{target.name!r}, 1]}} is one")
        case Loss.POISSON if target.is_truth:
            raise RequestInvalid.at("/target", f"Poisson's loss is of counts, and {target.name!r} is a boolean")
        case Loss.POISSON if target.lower < 0:
            rule = f"Poisson's loss is of counts, and {target.name!r} may be {target.lower:g}"
            raise RequestInvalid.at("/target", f"{rule}; {{'maximum': [{target.name!r}, 0]}} is not negative")
        # As of all that is computed: else its sums overflow, or are denormal, which takes longer.
        case Loss.POISSON if target.upper > LARGEST or target.upper / 2 - target.lower / 2 < TINY:
            rule = f"is computed of numbers of up to {LARGEST:g}, and of bounds that are {TINY:g} apart or more"
            raise RequestInvalid.at("/target", f"Poisson's loss {rule}; those of {target.name!r} are not")
    if request.link is not None and request.link != DIGESTS.get(request.loss):
        raise RequestInvalid.at("/link", f"the table of the {request.loss} link is another; leave the member out")


def _bounds(dataset: Dataset, request: ScoreRequest, count: int) -> tuple[Bound, ...]:
    adjacency: Adjacency = dataset.adjacency
    rows, gaussian = dataset.manifest.rows_per_person, request.mechanism is Mechanism.GAUSSIAN

    def moved(statistic: Statistic) -> Fraction:
        if gaussian:
            return score_l2_squared(statistic, adjacency, rows)
        return score_l1(statistic, count, adjacency, rows)

    return tuple(
        Bound(s, DISTRIBUTIONS[request.mechanism], moved(s), has_pairs=gaussian and s is Statistic.MEAT)
        for s in request.shares_of_price
    )


def _allocate(dataset: Dataset, request: ScoreRequest, count: int, price: Price) -> Allocation:
    shares: Mapping[Statistic, Fraction] = request.shares_of_price
    return allocate(
        _bounds(dataset, request, count),
        list(shares.values()),
        price=price,
        accountant=dataset.accountant,
        mechanism=request.mechanism,
    )
