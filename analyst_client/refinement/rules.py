"""The numbers of a refinement that are no statistics of rows: how a budget is spent, and where rows are cut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from analyst_client.kinds.score import MEAT, NORMS, SCORE

FIRST_RULES: dict[str, Any] = {
    "enough": None,
    "look_clip": 3.0,
    "rows_sure": 0.0,
    "needed_told": 0.0,
    "least": 0.0,
    "unsettled": 1.0,
    "sums": 0.0,
}
"""Rules of refinements that were saved before there were these rules."""


CUT_COLUMNS = (
    "columns were cut to where they were found, so coefficients are not of the columns as they are declared; the "
    "default rules tell intervals"
)
"""Why there are no intervals where rules cut columns."""
_TYPICAL_NORM = 2.5
"""Norm of a gradient, over the scale of residuals times √d, by which it is judged what its statistics can tell."""


@dataclass(frozen=True)
class RefinementRules:
    """Rules of a refinement; each follows from public numbers or from what was paid for.

    Attributes
    ----------
    enough : float or None
        Rows by µ over d^1.5, for d terms, from which intervals are bought: XᵀX is whitened, and norms are those that
        make intervals shortest. With fewer, noise leaves intervals without an end, and all is spent on predictions.
        None is never.
    looks : tuple of float
        Shares of the price for looks at where columns are, the target among them. Each starts from the one before, so a
        range that is ten times too wide takes several; the last one is what the fit relies on.
    wide : float
        Deviation that columns are first taken to have, in halves of their declared ranges.
    short : float
        Norm of the first look, in root mean squares of columns as they are taken to be.
    look_clip : float
        Ends of the ranges that looks see, in scales from the centre. The variance of a column that is 0 in all but one
        of so many rows, squared, is found.
    heed : float
        Weight of the target in a look: whatever else fails, its mean must hold.
    doubt : float
        Bias of a look that clips many rows, in deviations: the next look may move columns so far.
    floor : float
        Least variance that a look may find, in deviations of its noise: below it, a range would be too narrow by luck.
    half : float
        Part of the rows that the norm of a look may leave out at most.
    own, common : float
        Deviations of the variances of columns from what they were taken to be, in that of what is known of one: of each
        by itself, and of all together.
    rows_sure : float
        Least number of rows that a look may find, in deviations of its noise. A guess that is far too large would
        otherwise be believed, and every mean found in the middle of its bounds. 0 stands for a tenth of the guess.
    needed, needed_told : float
        Rows by µ that slopes need, for each column: with fewer the mean of the target is all that is bought. The first
        is of the rows that are stated or guessed, the second of those that looks told.
    least : float
        Rows by µ that the mean of the target needs.
    unsettled : float
        Deviation of what is known of the target's mean, in its own, above which the target is looked at by itself.
    settling : tuple of float
        Shares of the rest for these looks.
    lost : float
        The same deviation, above which slopes are of no use.
    means : tuple of float
        Shares of the rest for looks at the target alone, where slopes are of no use. A range that is far too wide
        takes several of them.
    clip, reach : float
        Ends of the ranges of features and of the target, in standard deviations from the mean. Only the square of the
        target's costs anything.
    gram : float
        Share of the rest for XᵀX, Xᵀy and yᵀy.
    xtx, xty, yty : float
        Its parts for each of these.
    affordable : float
        XᵀX is bought where the noise of its norm is below this, in rows.
    radius, wide_radius : float
        C² of the rows of XᵀX over their number of terms: longer ones are weighted down. The wide one is taken where XᵀX
        has little noise with it all the same.
    widenings : int
        Number of times that the square of the wide radius may be doubled, where XᵀX has little noise all the same.
    steps, blind_steps : int
        Scores, with XᵀX and without it. Each is taken where the last one led, so many small ones reach further than few
        large ones, and have to where nothing else tells how columns go together.
    growth : float
        Ratio of the share of a score to that of the one before.
    beyond : float
        Number of rows that may exceed a norm, in √d/µ: what they lose then is what the noise is.
    told, told_roughly, dear : float
        Noise of a histogram of norms, as a part of the rows: of scores, and of looks; and the share of a price above
        which there is none.
    correlation : float
        Deviation that the correlation of two columns is expected to have, before anything of it is bought.
    grams, explored : int, float
        Most releases of XᵀX, each but the first of rows that are whitened by those before, and the share of what XᵀX
        costs of each but the last. It is the last as soon as all directions are told.
    gram_least : float
        Share of the rest for XᵀX that is enough where it has little noise all the same.
    cut : bool
        Whether numbers are cut to the ranges that were found. Without it they keep their declared bounds, and the
        coefficients are those of the columns as they are declared.
    scores : tuple of float
        Shares of the rest for scores, where intervals are bought. They rest on the later half.
    pilot : float
        Norm of the first half of these scores, over the scale of residuals times √d.
    bins, bins_most, bins_dear : float
        Noise of a histogram of norms, as a part of the root of the rows; the most that it may cost, as a share of its
        score; and that share over the one at which its noise is so low, above which there is none.
    norm, norm_least, norm_most : float
        Norm of a gradient over the root of residual variance times d, and its range over that where a histogram tells.
        Where noise outweighs the sampling of rows a short one is best: of normal residuals it loses less than the noise
        that it saves.
    norm_noise, norm_tail, norm_worth : float
        The norm is wider than `norm` where sampling matters: as wide as leaves the noise of scores at `norm_noise`
        times their sampling variance, at most at `norm_tail` times the fourth root of the rows. From `norm_worth` on
        few gradients are clipped.
    norm_sure : float
        By how many more rows must exceed a norm before it grows, in deviations of the histogram's noise.
    meat : float
        Share of the later half of the scores' costs for Σ g gᵀ, from which the sampling error of scores is told for
        residuals of any variance. It is bought where the norm begins at `norm_worth` or more, as clipped gradients tell
        too little; without it one residual variance is assumed.
    sums : float
        Share of the price for the residual and total sums of squares of all rows, which tell R² and the residual
        deviation. They are bought where XᵀX is.

    Notes
    -----
    The defaults are for intervals and predictions, of the columns as they are declared. `for_predictions` cuts columns
    to where they were found, which predicts better where rows are few or tails long, and tells no interval.

    Examples
    --------
    >>> from analyst_client.refinement import RefinementRules
    >>> RefinementRules().looks, RefinementRules.for_predictions().looks
    ((0.02, 0.02, 0.03, 0.03, 0.05), (0.04, 0.04, 0.05, 0.05, 0.1))
    """

    enough: float | None = 5.0
    looks: tuple[float, ...] = (0.02, 0.02, 0.03, 0.03, 0.05)
    look_clip: float = 6.0
    wide: float = 0.4
    short: float = 1.0
    heed: float = 2.0
    doubt: float = 0.2
    floor: float = 0.7
    half: float = 0.5
    own: float = 0.5
    common: float = 0.9
    rows_sure: float = 1.0
    needed: float = 1.0
    needed_told: float = 1.0
    least: float = 10.0
    unsettled: float = 0.25
    settling: tuple[float, ...] = (0.03, 0.04, 0.05, 0.06, 0.07)
    lost: float = 0.35
    means: tuple[float, ...] = (0.06, 0.08, 0.1, 0.13, 0.17, 0.21, 0.25)
    clip: float = 3.0
    reach: float = 3.5
    gram: float = 0.5
    xtx: float = 0.8
    xty: float = 0.18
    yty: float = 0.02
    affordable: float = 0.15
    radius: float = 0.5
    wide_radius: float = 2.0
    widenings: int = 2
    steps: int = 15
    blind_steps: int = 25
    growth: float = 1.1
    beyond: float = 4.0
    told: float = 0.02
    told_roughly: float = 0.1
    dear: float = 0.2
    correlation: float = 0.15
    grams: int = 5
    explored: float = 0.08
    gram_least: float = 0.15
    cut: bool = False
    scores: tuple[float, ...] = (0.1, 0.15, 0.375, 0.375)
    pilot: float = 2.5
    bins: float = 0.25
    bins_most: float = 0.12
    bins_dear: float = 1.7
    norm: float = 0.6
    norm_least: float = 1.0
    norm_most: float = 3.0
    norm_noise: float = 1.5
    norm_tail: float = 0.4
    norm_worth: float = 2.0
    norm_sure: float = 2.0
    meat: float = 0.15
    sums: float = 0.04

    @classmethod
    def for_predictions(cls, *, cut: bool = True, **rules: Any) -> "RefinementRules":
        """Return the rules for predictions alone: one XᵀX, short norms, and columns cut to where they were found.

        Parameters
        ----------
        cut : bool
            Whether numbers are cut to the ranges that are found for them.
        **rules : object
            Others that differ.
        """
        chosen = cls(
            enough=None,
            looks=(0.04, 0.04, 0.05, 0.05, 0.1),
            look_clip=3.0,
            gram=0.4,
            grams=1,
            gram_least=0.4,
            widenings=0,
            cut=cut,
        )
        return replace(chosen, **rules)

    def expected_to_tell(self, rows: float, mu: float, columns: int) -> Literal["slopes", "mean", "nothing"]:
        """Return what a refinement tells at a price, from public numbers alone.

        Parameters
        ----------
        rows : float
            Public, stated or guessed; the capacity of a dataset gives the most that its price may tell.
        mu : float
            The whole price.
        columns : int
            Features that are numbers, and the target.

        Returns
        -------
        str
            ``"slopes"``; ``"mean"`` where the mean of the target is all that is bought; ``"nothing"`` where noise
            outweighs that, too.
        """
        if rows * mu < self.least:
            return "nothing"
        return "mean" if rows < self.rows_for_slopes(mu, columns) else "slopes"

    def rows_for_slopes(self, mu: float, columns: int) -> float:
        """Return the rows that slopes need at a price, see `expected_to_tell`.

        Parameters
        ----------
        mu : float
            The whole price.
        columns : int
            Features that are numbers, and the target.

        Returns
        -------
        float
            At fewer rows the mean of the target is all that is bought.
        """
        return self.needed * columns / mu

    def gram_cost(self, d: int, n: float, budget: float) -> float:
        """Return what XᵀX costs, in µ².

        Parameters
        ----------
        d : int
            Terms, the constant included.
        n : float
            Rows.
        budget : float
            Of XᵀX and scores, in µ².

        Returns
        -------
        float
            As much as lets its last release have the widest radius with the noise that `radius_squared` allows it, but
            at least `gram_least` of the budget, and at most `gram`.
        """
        widest = self.wide_radius * 2.0**self.widenings
        enough = 2.0 * (3.0 * widest * d / (self.affordable * n)) ** 2 / (1.0 - self.explored)
        return min(self.gram * budget, max(self.gram_least * budget, enough))

    def score_shares(self, step: int, norms: float, *, meat: bool) -> dict[str, float]:
        """Divide the cost of a score.

        Parameters
        ----------
        step : int
            From 0.
        norms : float
            Share of a histogram of norms.
        meat : bool
            Whether later scores have their Σ g gᵀ.

        Returns
        -------
        dict of str to float
            Shares by the statistic, without those that have none.
        """
        outer = self.meat if meat and step >= self.steps // 2 else 0.0
        shares = {SCORE: 1.0 - norms - outer, NORMS: norms, MEAT: outer}
        return {name: share for name, share in shares.items() if share}

    def interval_shares(self, d: int, n: float, cost: float, *, last: bool) -> dict[str, float]:
        """Divide the cost of a score that is bought for intervals.

        Parameters
        ----------
        d : int
            Terms, the constant included.
        n : float
            Rows.
        cost : float
            Of the score, in µ².
        last : bool
            Whether intervals rest on it: then Σ g gᵀ is bought, unless its noise hides it.

        Returns
        -------
        dict of str to float
            Shares by the statistic, without those that have none.
        """
        low_noise = 1.0 / (cost * n * self.bins**2)
        norms = min(max(low_noise, 0.01), self.bins_most) if low_noise < self.bins_dear else 0.0
        told = last and _TYPICAL_NORM**2 * d < math.sqrt(self.meat * cost) * n
        outer = self.meat if told else 0.0
        shares = {SCORE: 1.0 - norms - outer, NORMS: norms, MEAT: outer}
        return {name: share for name, share in shares.items() if share}

    def first_norm(self, d: float, n: float, costs: Sequence[float]) -> float:
        """Return where the norm of a gradient begins, over the root of residual variance times d.

        Parameters
        ----------
        d : float
            Numbers of a gradient, or more where some are told less than others.
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
        The noise of the later half of scores, over their sampling variance, is its square times d/(n µ²). What rows
        beyond it have too much moves coefficients by √n times their part, in standard errors: where residuals' tails
        are those of Student's t with 3 degrees of freedom, that part falls with the norm's square, so that a norm that
        grows with the fourth root of n leaves the shift where it is.
        """
        later = sum(costs[len(costs) // 2 :])
        far = math.sqrt(1.0 + self.clip**2 / d)
        wide = min(math.sqrt(self.norm_noise * later * n / d), self.norm_tail * far * n**0.25)
        return float(max(self.norm, wide))

    def step_costs(self, budget: float, *, blind: bool = False) -> list[float]:
        """Divide what is left over the scores.

        Parameters
        ----------
        budget : float
            Of all of them, in µ².
        blind : bool
            Whether XᵀX was not bought.

        Returns
        -------
        list of float
            Growing, in µ².
        """
        parts = [self.growth**k for k in range(self.blind_steps if blind else self.steps)]
        return [budget * part / sum(parts) for part in parts]

    def radius_squared(self, d: int, n: float, cost: float) -> float | None:
        """Return the squared norm C² to which the rows of XᵀX are shrunk.

        Parameters
        ----------
        d : int
            Terms, the constant included.
        n : float
            Rows.
        cost : float
            Of the release, in µ².

        Returns
        -------
        float or None
            None where XᵀX is not affordable.
        """
        noise = math.sqrt(2.0) / (math.sqrt(cost) * n)  # of the norm of XᵀX, for C = 1
        wide = [(self.wide_radius * 2.0**k, 1.0 / 3.0) for k in range(self.widenings, -1, -1)]
        for ratio, part in (*wide, (self.radius, 1.0)):
            if noise * ratio * d < self.affordable * part:
                return ratio * d
        return None


@dataclass(frozen=True)
class GeneralizedRules(RefinementRules):
    """Rules of a refinement of a logistic or Poisson regression: those of the linear one, with numbers of their own.

    Attributes
    ----------
    looks : tuple of float
        Less than in a linear model: columns are not cut, so looks serve to scale them alone.
    cut : bool
        Coefficients and intervals are of the columns as they are declared. Predictions gain nothing by a cut.
    target, target_least, target_most : float
        Share of the price for the base rate, or for where counts are: `target` over nµ, within the other two.
    least_rows : float
        Of nµ: below this the base rate alone is told.
    gram, gram_least, xtx, xty : float
        XᵀX serves to whiten gradients and to guess the information, so it has less than in a linear model, where
        scores are exact in it. Xᵀy is the first gradient.
    affordable, radius : float
        Its rows are weighted down less than in a linear model: what weights take from heavy tails would be missing in
        the information. More noise is allowed, as scores and Σ g gᵀ correct it.
    correlation : float
        Wider than in a linear model.
    norm, norm_noise : float
        Gradients are clipped at `norm` times their root mean square, that of the rarer class where it is larger, or
        farther out: as far as leaves the noise of later scores at `norm_noise` times their sampling variance. What
        clipping takes is made up for as of normal terms, so that the rest is a small part of a standard error.
    norms : float
        Share of a score's cost for the histogram of norms, which tells how many rows were clipped beyond that.
    norm_most : float
        Rows with large counts have gradients that are many times as long as others.
    steps : int
        Fewer than in a linear model: the later ones are where the information is that of the solution, and must tell.
        Predictions of classes that hardly overlap gain by more of them, as 16 with a growth of 1.2.
    growth : float
        So most is spent near the solution, where a score bends least.
    beyond : float
        Fewer rows may exceed the norm than in a linear model: residuals of a rare class are long on one side alone.
    meat : float
        Share of a score's cost for Σ g gᵀ, at the last steps: it is the information at the solution.
    meat_steps : int
        Number of these steps. Of counts the whole later half has it, to tell how far they vary.
    meat_affordable : float
        It is bought where the noise of its trace, √d/(µ n) times the squared norm, is below this. Of a boolean, whose
        variance the family tells, it is where that noise is below a d-th of it.
    step_most : float
        Longest move of the index η in a step, in standard deviations: noise goes no further.
    misfit : float
        Deviation of the information from that of normal terms, relative, for an index of deviation 1.

    Examples
    --------
    >>> from analyst_client.refinement import GeneralizedRules
    >>> GeneralizedRules().looks
    (0.02, 0.02, 0.03, 0.03, 0.05)
    """

    enough: float | None = None
    look_clip: float = 3.0
    looks: tuple[float, ...] = (0.02, 0.02, 0.03, 0.03, 0.05)
    cut: bool = False
    grams: int = 5
    gram_least: float = 0.2
    widenings: int = 2
    target: float = 10.0
    target_least: float = 0.05
    target_most: float = 0.25
    least_rows: float = 30.0
    gram: float = 0.4
    xtx: float = 0.85
    xty: float = 0.15
    affordable: float = 0.3
    radius: float = 0.7
    correlation: float = 0.25
    norm: float = 1.3
    norm_noise: float = 1.0
    norms: float = 0.06
    norm_most: float = 30.0
    steps: int = 7
    growth: float = 1.5
    beyond: float = 2.0
    meat: float = 0.25
    meat_steps: int = 2
    meat_affordable: float = 1.0
    step_most: float = 2.0
    misfit: float = 0.1
    means: tuple[float, ...] = (0.3, 0.3, 0.4)

    def rows_for_slopes(self, mu: float, columns: int) -> float:
        """Return the rows that slopes need at a price, however many columns there are.

        Parameters
        ----------
        mu : float
            The whole price.
        columns : int
            Not used.

        Returns
        -------
        float
            At fewer rows the base rate is all that is bought.
        """
        del columns
        return self.least_rows / mu

    @classmethod
    def for_predictions(cls, *, cut: bool = True, **rules: Any) -> "GeneralizedRules":
        """Return the rules for predictions alone: the default ones, with columns cut to where they were found.

        Parameters
        ----------
        cut : bool
            Whether numbers are cut to the ranges that are found for them.
        **rules : object
            Others that differ.
        """
        return cls(cut=cut, **rules)

    def gradient_norm(self, d: float, n: float, costs: Sequence[float], rarity: float) -> float:
        """Return the norm of a gradient, over the root of its mean square.

        Parameters
        ----------
        d : float
            Numbers of a gradient.
        n : float
            Rows.
        costs : sequence of float
            Of scores, in µ².
        rarity : float
            Root mean square of a gradient of the rarer class, over that of all rows.

        Returns
        -------
        float
            At least `norm` times `rarity`.
        """
        return max(self.norm * rarity, super().first_norm(d, n, costs))

    def target_share(self, n_mu: float) -> float:
        """Return the share for the base rate, or for where counts are, of a price µ and n rows."""
        return min(max(self.target / n_mu, self.target_least), self.target_most)

    def buys_meat(self, k: int, d: int, n: float, cost: float, ratio: float, *, counts: bool) -> bool:
        """Return whether a step buys Σ g gᵀ.

        Parameters
        ----------
        k : int
            Steps before it.
        d : int
            Directions.
        n : float
            Rows.
        cost : float
            Of the step, in µ².
        ratio : float
            Norm of a gradient over the root of its mean square.
        counts : bool
            Whether there is no interval without it, so that its trace is enough.

        Returns
        -------
        bool
            False where its noise would hide it.
        """
        noise = ratio**2 * math.sqrt(d) / (math.sqrt(self.meat * cost) * n)
        first = self.steps // 2 if counts else self.steps - self.meat_steps
        return k >= first and noise < self.meat_affordable / (1.0 if counts else d)
