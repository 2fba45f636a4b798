"""Simulated hospitals: rows with known coefficients, and releases of them through the server's own code, no HTTP."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analyst_client import Column as Declared
from analyst_client import Release
from analyst_client.kinds import Noise
from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.kernel import flatten
from curator_service.kinds.gram.kind import Gram
from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic, output_of
from curator_service.privacy.accountant import GDP, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.design import Column, ColumnType, code_rows, make_design
from curator_service.privacy.lattice import to_stored
from curator_service.privacy.mechanism import STEP_DENOMINATOR, ExactSums, draw_noise, perturb
from curator_service.privacy.row_maps import make_row_map
from curator_service.privacy.samplers import Distribution, NoiseSource, SystemNoise
from curator_service.privacy.sums import compute_gram

DELTA = 1e-6
ROW_CAPACITY = 10**8
ROW_MAPS = ("small", "wide", "box")
STATISTICS = (Statistic.XTX, Statistic.XTY, Statistic.YTY)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SeededNoise:
    """Normal noise of a curator's scales, rounded, with a seed: no protection, but the same in every run."""

    generator: np.random.Generator

    def sample(self, distribution: Distribution, scales: npt.ArrayLike) -> npt.ArrayLike:
        """Draw one integer for each scale."""
        assert distribution is Distribution.DISCRETE_GAUSSIAN
        return np.rint(self.generator.standard_normal(np.shape(scales)) * np.asarray(scales)).astype(np.int64)


@dataclass(frozen=True)
class Truth:
    """Distribution of the rows.

    Attributes
    ----------
    beta : ndarray of shape (1 + d,)
        The intercept and the coefficients, in the units of the rows.
    residual_sd : float
    correlated : bool
        False: features uniform over [−1, 1]. True: normal of correlation ½, three deviations to the bound.
    """

    beta: Floats
    residual_sd: float = 1 / 3
    correlated: bool = False

    @classmethod
    def of(cls, d: int, *, correlated: bool = False) -> "Truth":
        """Return the benches' truth: 0.6 and −0.3 by turns over √d, and an intercept of 0.1."""
        slopes = np.where(np.arange(d) % 2 == 0, 0.6, -0.3) / math.sqrt(d)
        return cls(np.concatenate([[0.1], slopes]), correlated=correlated)

    def draw_features(self, generator: np.random.Generator, n: int) -> Floats:
        """Draw n rows of features."""
        d = len(self.beta) - 1
        if not self.correlated:
            return generator.uniform(-1.0, 1.0, (n, d))
        common = generator.standard_normal((n, 1))
        own = generator.standard_normal((n, d))
        return np.clip((common + own) / (3.0 * math.sqrt(2.0)), -1.0, 1.0)

    def draw(self, generator: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Draw n rows: features and target."""
        features = self.draw_features(generator, n)
        noise = self.residual_sd * generator.standard_normal(n)
        return features, self.beta[0] + features @ self.beta[1:] + noise


class Hospital:
    """Rows at a curator, with the bounds that it declares.

    Parameters
    ----------
    features : ndarray of shape (n, d)
    target : ndarray of shape (n,)
        Of bool: a boolean target.
    feature_bound, target_bound : float
        Values are declared to lie within plus and minus these.
    rows : {"small", "wide", "box"}
        Which of the default row maps; see `default_row_maps`.
    """

    def __init__(
        self,
        features: Floats,
        target: Floats | npt.NDArray[np.bool_],
        *,
        feature_bound: float = 1.0,
        target_bound: float = 1.5,
        rows: str = "small",
        intercept: bool = True,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ) -> None:
        n, d = features.shape
        names = [f"x{j + 1}" for j in range(d)]
        columns = tuple(Column(name, ColumnType.NUMERIC, lower=-feature_bound, upper=feature_bound) for name in names)
        if target.dtype == np.bool_:
            response = Column("y", ColumnType.BOOLEAN, levels=("false", "true"))
        else:
            response = Column("y", ColumnType.NUMERIC, lower=-target_bound, upper=target_bound)
        self.columns = (*columns, response)
        self.design = make_design(columns, (response,), intercept=intercept)
        self.rows, self.adjacency = rows, adjacency
        chosen = default_row_maps(self.design)[ROW_MAPS.index(rows)]
        self.norm: float | None = chosen.get("norm")
        self._map = make_row_map(chosen)
        stored = {
            column.name: to_stored(np.ascontiguousarray(values), column.lower, column.upper)
            if column.type is ColumnType.NUMERIC
            else values.astype(np.int32)
            for column, values in zip(self.columns, [*features.T, target], strict=True)
        }
        mapped = self._map.apply(code_rows(stored, self.design, n), self.design)
        total = len(self.design.terms) + 1
        self.gram = compute_gram([mapped], total)

    @classmethod
    def by_default(
        cls, features: Floats, target: Floats, epsilon: float, mechanism: Mechanism = Mechanism.GAUSSIAN
    ) -> "Hospital":
        """Return a hospital whose row map is the default at this price for the right guess of the number of rows."""
        small = cls(features[:2], target[:2])
        noise = small.release(epsilon, mechanism).noise
        rows = choose_row_map(
            small.design, {"xty": noise.xty or 0.0}, expected_rows=len(features), row_capacity=ROW_CAPACITY
        )
        return cls(features, target, rows=ROW_MAPS[default_row_maps(small.design).index(rows)])

    @cached_property
    def exact(self) -> Release:
        """The exact statistics, which no analyst sees."""
        values = {
            output.statistic: flatten(self.gram, len(self.design.terms), (output,), 1).tolist()
            for output in (output_of(statistic, self.design) for statistic in STATISTICS)
        }
        return self._release(values, Noise(0.0, 0.0, 0.0, 0.0))

    def release(
        self,
        epsilon: float,
        mechanism: Mechanism = Mechanism.GAUSSIAN,
        *,
        calibration: Calibration = Calibration.ANALYTIC,
        shares: Mapping[Statistic, Fraction] | None = None,
        source: NoiseSource | None = None,
    ) -> Release:
        """Buy a release: (ε, 1e-6) with Gaussian noise, ε with Laplace noise; of XᵀX, Xᵀy and yᵀy without shares.

        Noise is the system's, where no source is given.
        """
        delta = DELTA if mechanism is Mechanism.GAUSSIAN else None
        plan = plan_gram(
            self.design,
            self._map,
            self.adjacency,
            row_capacity=ROW_CAPACITY,
            price=Price(epsilon=epsilon, delta=delta),
            shares=default_shares(STATISTICS, mechanism) if shares is None else shares,
            accountant=GDP,
            mechanism=mechanism,
            calibration=calibration,
        )
        exact = ExactSums(flatten(self.gram, len(self.design.terms), plan.outputs, plan.lambda_min_tolerance))
        noisy = perturb(exact, plan, draw_noise(plan, source or SystemNoise()))
        noise = Noise(distribution=plan.parts[0].distribution, **Gram().state_noise(plan.parts))
        return self._release(dict(noisy.values), noise)

    def _release(self, values: dict[str, list[int]], noise: Noise) -> Release:
        d = len(self.design.terms)
        xtx = np.zeros((d, d))
        xtx[np.triu_indices(d)] = np.array(values["xtx"]) / STEP_DENOMINATOR
        xtx = np.triu(xtx) + np.triu(xtx, 1).T
        declared = [
            Declared.numeric(column.name, column.lower, column.upper)
            if column.type is ColumnType.NUMERIC
            else Declared.boolean(column.name)
            for column in self.columns
        ]
        return Release.from_arrays(
            xtx,
            np.array(values["xty"]) / STEP_DENOMINATOR,
            np.array(values["yty"]) / STEP_DENOMINATOR if "yty" in values else None,
            features=declared[:-1],
            targets=declared[-1:],
            constant=self.design.has_constant,
            noise=noise,
            norm=self.norm,
        )
