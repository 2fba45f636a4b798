"""The numbers of a refinement that are no statistics of rows: how a budget is spent, and where rows are cut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RefinementRules:
    """RefinementRules of a refinement; each follows from public numbers or from what was paid for.

    Attributes
    ----------
    columns, first : float
        Share of the budget for where features are, and share of that for the first look, within declared bounds.
    reach, clip : float
        Range of the second look, and where columns are cut, in standard deviations from the mean.
    target, target_least, target_most : float
        Share for where the target is: `target` over nµ, within the other two.
    gram : float
        Share of the rest for XᵀX, Xᵀy and yᵀy.
    xtx, xty, yty : float
        How that is divided.
    affordable : float
        XᵀX is bought where its noise, √(2d) C²/(µ n) relative to a row's terms, is below this times √d.
    radius, wide_radius : float
        C² of the rows of XᵀX over their number of terms: longer ones are weighted down. The wide one is taken where XᵀX
        has little noise with it all the same.
    widenings : int
        Times that the square of the wide radius may be doubled, where XᵀX has little noise all the same.
    steps : int
    growth : float
        How fast shares of scores grow.
    norms : float
        Share of a score's cost for the histogram of norms.
    beyond : float
        How many rows may exceed the norm of a score, in √d/µ.
    correlation : float
        Deviation that the correlation of two columns is expected to have, before anything of it is bought.
    least_rows : float
        Of nµ: below this the mean alone is told.
    looks, look_growth : int and float
        Number of Grams that are bought, each but the first of rows that are whitened by those before, and the ratio of
        their shares, one to the next.
    cut : bool
        Whether numbers are cut to the ranges that were found. Without it they keep their declared bounds, and the
        coefficients are those of the columns as they are declared.
    norm, norm_least, norm_most : float
        The norm of a gradient over the root of residual variance times d: where it begins, and its range over that.
    norm_noise, norm_wide : float
        The norm begins wider than `norm`, at most at `norm_wide`, where the noise of scores stays below this part of
        their sampling variance. At 0 it does not.
    norm_sure : float
        In deviations of the histogram's noise: by how many more rows must exceed a norm before it grows.
    meat : float
        Share of the later half of the scores' costs for Σ g gᵀ, from which the sampling error of scores is told for
        residuals of any variance. Without it one residual variance is assumed.

    Notes
    -----
    The defaults are for predictions. `for_intervals` is for `conf_int()` and tests.
    """

    columns: float = 0.25
    first: float = 0.3
    reach: float = 3.0
    clip: float = 2.5
    target: float = 20.0
    target_least: float = 0.05
    target_most: float = 0.25
    gram: float = 0.5
    xtx: float = 0.8
    xty: float = 0.18
    yty: float = 0.02
    affordable: float = 0.15
    radius: float = 0.7
    wide_radius: float = 2.0
    widenings: int = 0
    steps: int = 10
    growth: float = 1.3
    norms: float = 0.06
    beyond: float = 4.0
    correlation: float = 0.25
    least_rows: float = 30.0
    looks: int = 1
    look_growth: float = 3.0
    cut: bool = True
    norm: float = 1.3
    norm_least: float = 0.7
    norm_most: float = 3.0
    norm_noise: float = 0.0
    norm_wide: float = 8.0
    norm_sure: float = 0.0
    meat: float = 0.0

    @classmethod
    def for_intervals(cls, *, cut: bool = True, **rules: Any) -> "RefinementRules":
        """Return the rules for intervals: whitened looks at XᵀX, norms that few rows exceed, and their Σ g gᵀ.

        Parameters
        ----------
        cut : bool
            Whether numbers are cut to the ranges that are found for them.
        **rules : object
            Others that differ.
        """
        chosen: dict[str, Any] = {
            "columns": 0.1,
            "gram": 0.55,
            "widenings": 2,
            "looks": 3,
            "steps": 6,
            "beyond": 1.0,
            "norm": 4.0,
            "norm_least": 1.0,
            "norm_noise": 0.4,
            "norm_sure": 2.0,
            "meat": 0.15,
        }
        return cls(**(chosen | {"cut": cut} | rules))

    def look_costs(self, budget: float) -> list[float]:
        """Divide what Grams cost over the looks."""
        parts = [self.look_growth**k for k in range(self.looks)]
        return [budget * part / sum(parts) for part in parts]

    def target_share(self, n_mu: float) -> float:
        """Return the share for where the target is, of a budget µ and n rows."""
        return min(max(self.target / n_mu, self.target_least), self.target_most)

    def score_shares(self, step: int) -> dict[str, float]:
        """Divide the cost of a score."""
        meat = self.meat if step >= self.steps // 2 else 0.0
        shares = {"score": 1.0 - self.norms - meat, "norms": self.norms}
        return shares | {"meat": meat} if meat else shares

    def first_norm(self, d: int, n: float, costs: Sequence[float]) -> float:
        """Return where the norm of a gradient begins, over the root of residual variance times d.

        Parameters
        ----------
        d : int
            Numbers of a gradient.
        n : float
            Rows.
        costs : sequence of float
            Of scores, in µ².

        Returns
        -------
        float
            At least `norm`.

        Notes
        -----
        The noise of the later half of scores, over their sampling variance, is its square times d/(n µ²).
        """
        later = sum(costs[len(costs) // 2 :])
        return max(self.norm, min(math.sqrt(self.norm_noise * later * n / d), self.norm_wide))

    def step_costs(self, budget: float) -> list[float]:
        """Divide what is left over the scores."""
        parts = [self.growth**k for k in range(self.steps)]
        return [budget * part / sum(parts) for part in parts]

    def radius_squared(self, d: int, n: float, cost: float) -> float | None:
        """Return C² of the rows of an XᵀX of d terms and n rows at a cost µ²; None where it is not affordable."""
        noise = math.sqrt(2.0 * d) / (math.sqrt(cost) * n)  # of XᵀX, over n, for C = 1
        wide = [self.wide_radius * 2.0**k for k in range(self.widenings, -1, -1)]
        for ratio, part in (*((each, 1.0 / 3.0) for each in wide), (self.radius, 1.0)):
            if noise * ratio * d < self.affordable * part * math.sqrt(d):
                return ratio * d
        return None
