"""The numbers of a refinement that are no statistics of rows: how a budget is spent, and where rows are cut."""

import math
from dataclasses import dataclass


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
        Shares of that.
    affordable : float
        XᵀX is bought where its noise, √(2d) C²/(µ n) relative to a row's terms, is below this times √d.
    radius, wide_radius : float
        C² of the rows of XᵀX over their number of terms: longer ones are weighted down. The wide one is taken where XᵀX
        has little noise with it all the same.
    steps : int
    growth : float
        Factor from the share of one score to that of the next.
    norms : float
        Share of a score's cost for the histogram of norms.
    beyond : float
        Rows that may exceed the norm of a score, in √d/µ.
    correlation : float
        Deviation that the correlation of two columns is expected to have, before anything of it is bought.
    least_rows : float
        Of nµ: below this the mean alone is told.
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
    steps: int = 10
    growth: float = 1.3
    norms: float = 0.06
    beyond: float = 4.0
    correlation: float = 0.25
    least_rows: float = 30.0

    def target_share(self, n_mu: float) -> float:
        """Return the share for where the target is, of a budget µ and n rows."""
        return min(max(self.target / n_mu, self.target_least), self.target_most)

    def step_costs(self, budget: float) -> list[float]:
        """Divide what is left over the scores."""
        parts = [self.growth**k for k in range(self.steps)]
        return [budget * part / sum(parts) for part in parts]

    def radius_squared(self, d: int, n: float, cost: float) -> float | None:
        """Return C² of the rows of XᵀX.

        Parameters
        ----------
        d : int
            Terms.
        n : float
            Rows.
        cost : float
            Cost, as µ².

        Returns
        -------
        float or None
            None where XᵀX is not affordable.
        """
        noise = math.sqrt(2.0 * d) / (math.sqrt(cost) * n)  # of XᵀX, over n, for C = 1
        for ratio, part in ((self.wide_radius, 1.0 / 3.0), (self.radius, 1.0)):
            if noise * ratio * d < self.affordable * part * math.sqrt(d):
                return ratio * d
        return None


@dataclass(frozen=True)
class GeneralizedRules(RefinementRules):
    """Rules of a refinement of a logistic or Poisson regression: those of the linear one, with numbers of their own.

    Attributes
    ----------
    target : float
        For the base rate; for where counts are, as in a linear model.
    gram, xtx, xty : float
        XᵀX serves to whiten gradients and to guess the information, so it has less than in a linear model, where
        scores are exact in it. Xᵀy is for the start.
    steps : int
        Fewer than in a linear model: the later ones are where the information is that of the solution, and must tell.
    growth : float
        So most is spent near the solution, where a score bends least.
    beyond : float
        Fewer rows may exceed the norm than in a linear model: residuals of a rare class are long on one side alone.
    unseen : float
        Noise of a score over its deviation as rows are sampled, up to which its norm grows in any case.
    meat, meat_steps : float and int
        Share of a score's cost for Σ g gᵀ, at so many last steps: it is the information at the solution.
    meat_affordable : float
        It is bought where its noise, √(2d) d/(µ n) relative to the information, is below this.
    step_most : float
        Longest step, in standard deviations of the index η: noise goes no further.
    misfit : float
        Relative deviation of the information from that of normal terms, for an index of deviation 1.
    """

    target: float = 10.0
    gram: float = 0.3
    xtx: float = 0.85
    xty: float = 0.15
    steps: int = 7
    growth: float = 1.5
    beyond: float = 2.0
    unseen: float = 0.3
    meat: float = 0.25
    meat_steps: int = 2
    meat_affordable: float = 0.5
    step_most: float = 2.0
    misfit: float = 0.05

    def buys_meat(self, k: int, d: int, n: float, cost: float) -> bool:
        """Return whether a step buys Σ g gᵀ.

        Parameters
        ----------
        k : int
            Number of the step, from 0.
        d : int
            Directions.
        n : float
            Rows.
        cost : float
            Cost of the step, as µ².

        Returns
        -------
        bool
            True of the last steps, where it rises above its noise.
        """
        noise = math.sqrt(2.0 * d) * d / (math.sqrt(self.meat * cost) * n)
        return k >= self.steps - self.meat_steps and noise < self.meat_affordable
