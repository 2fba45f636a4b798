"""Effect of one person on each statistic, exactly, in lattice units: squared in L2, plain in L1.

Terms are bounded by q; a group, whose terms' sizes add up to at most q, counts as one (`Design.group_count`); a row
that counts for nothing is allowed in every bound. Each function is for a person with one row: with m rows L2 and L1 are
m times as large (`of_rows`). docs/privacy.md has a proof for each; tests/unit/privacy searches for neighbours that
would beat them.

Throughout, G is the number of groups, a single term being a group of one; h is the number of groups of two or more
terms; s = G − h; `norm_squared` is R², the bound on ‖terms‖².
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import root_up
from curator_service.privacy.lattice import UNIT

_REPLACE = Adjacency.REPLACE_ONE


def xtx_box_l2_squared(group_count: int, wide_group_count: int, adjacency: Adjacency) -> Fraction:
    """Bound the upper triangle of XᵀX, each entry counted once, where terms are bounded one by one.

    Parameters
    ----------
    group_count : int
        G.
    wide_group_count : int
        h.

    Returns
    -------
    Fraction
        q⁴ (G² + G)/2 when a row is added or removed, q⁴ (G² + h) when it is replaced.
    """
    if adjacency is _REPLACE:
        return Fraction(UNIT**4 * (group_count**2 + wide_group_count))
    return Fraction(UNIT**4 * (group_count**2 + group_count), 2)


def xtx_norm_l2_squared(norm_squared: int, adjacency: Adjacency) -> Fraction:
    """Bound XᵀX in Frobenius norm (off-diagonals of the triangle weighted √2), where the norm of terms is bounded.

    ‖xxᵀ‖_F = ‖x‖² ≤ R²; ‖xxᵀ − vvᵀ‖²_F = ‖x‖⁴ + ‖v‖⁴ − 2(x·v)² ≤ 2R⁴, reached by orthogonal rows.
    """
    return Fraction(norm_squared**2 * (2 if adjacency is _REPLACE else 1))


def xty_l2_squared(norm_squared: int, adjacency: Adjacency) -> Fraction:
    """Bound Xᵀy for one target bounded by q: R q when a row is added or removed, 2 R q when it is replaced."""
    return Fraction(norm_squared * UNIT**2 * (4 if adjacency is _REPLACE else 1))


def xtx_box_l1(group_count: int, wide_group_count: int, adjacency: Adjacency) -> Fraction:
    """Bound the upper triangle of XᵀX in L1, where terms are bounded one by one.

    Returns
    -------
    Fraction
        q² G(G+1)/2 when a row is added or removed, q² (s(s+1)/2 + 2hs + h² + h) when it is replaced: the same
        without wide groups.
    """
    if adjacency is _REPLACE:
        wide, single = wide_group_count, group_count - wide_group_count
        return UNIT**2 * (Fraction(single * (single + 1), 2) + 2 * wide * single + wide**2 + wide)
    return Fraction(UNIT**2 * group_count * (group_count + 1), 2)


Supports = Sequence[tuple[int, int]]
"""Of each group its number of terms, and how many of them may differ from 0 in a row: `Design.supports`."""


def xtx_norm_l1(norm_squared: int, supports: Supports, adjacency: Adjacency) -> Fraction:
    """Bound the upper triangle of XᵀX in L1, where the norm of terms is bounded.

    At most S terms of a row differ from 0, so (Σ|x_i|)² ≤ S R² and the triangle is at most R²(S + 1)/2. Replaced, it is
    at most twice that, and at most R² √(2(K + L/2)) by Cauchy and Schwarz on the Frobenius norm, with K diagonal and
    L other entries that can differ from 0: in each group twice its support, if it has so many terms, and none between
    the two of a one-hot group, of which there are h; L = min(K(K−1)/2 − h, S(S−1)).
    """
    places = sum(support for _, support in supports)
    added = Fraction(norm_squared * (places + 1), 2)
    if adjacency is not _REPLACE:
        return added
    diagonal = sum(min(2 * support, size) for size, support in supports)
    one_hot = sum(size > 1 and support == 1 for size, support in supports)
    others = min(diagonal * (diagonal - 1) // 2 - one_hot, places * (places - 1))
    return min(2 * added, Fraction(root_up(Fraction(norm_squared**2 * (2 * diagonal + others)))))


def xty_l1(norm_squared: int, supports: Supports, adjacency: Adjacency, *, lengthens: bool = False) -> Fraction:
    """Bound Xᵀy in L1 for one target bounded by q: Σ|x_i| q ≤ √S R q, and at most G q²; twice that when replaced.

    S terms of a row differ from 0 at most, and sizes of each of the G groups add up to q at most. Where the row map
    lengthens rows, s terms of a group, of norm q at most, add up to √s q instead: B-splines divided by their norm do.
    """
    places = sum(support for _, support in supports)
    by_norm = Fraction(root_up(Fraction(places * norm_squared * UNIT**2)))
    by_groups = sum(root_up(Fraction(UNIT**4 * (support if lengthens else 1))) for _, support in supports)
    added = min(by_norm, Fraction(by_groups))
    return added * 2 if adjacency is _REPLACE else added


def yty() -> Fraction:
    """Bound yᵀy for one target bounded by q, in L1 and L2: y² lies in [0, q²], so q² under both adjacencies."""
    return Fraction(UNIT**2)


def lambda_min(norm_squared: int, tolerance: int, rows_per_person: int = 1) -> Fraction:
    """Bound the computed λ_min(XᵀX), in L1 and L2, under both adjacencies.

    Adding m rows adds a positive semidefinite matrix of trace at most m R², so λ_min rises, by at most m R² (Weyl).
    Replacing them removes and adds: the two moves have opposite signs, so m R² bounds the change, not twice that. A
    computed value lies between 2 tolerances below the true one and 1 above (`kernel.compute_lambda_min`).
    """
    return Fraction(rows_per_person * norm_squared + 3 * tolerance)


def joint_cost(xtx: Fraction, xty: Fraction, yty: Fraction, joint_constant: Fraction) -> Fraction:
    """Bound the joint cost of XᵀX, Xᵀy and yᵀy under replace_one, from the cost of each alone.

    The pair of rows that moves XᵀX most is orthogonal, the pair that moves Xᵀy most is parallel, and the pair that
    moves yᵀy most has one target at 0, where it moves Xᵀy half as far: the sum of the three cannot be reached.

    Parameters
    ----------
    xtx, xty, yty : Fraction
        Cost of each part, all targets included: squared sensitivity over variance.
    joint_constant : Fraction
        L/(k R⁴), where the squared change of XᵀX is at most L − k (x·v)² for rows x and v: 1 for
        `xtx_norm_l2_squared`, `xtx_box_joint_constant` for `xtx_box_l2_squared`.

    Returns
    -------
    Fraction
        xtx + xty/4 + max(yty, xty/4 + joint_constant · xty²/(16 xtx)), or the sum of the three where that is less.
    """
    together = xtx + xty / 4 + max(yty, xty / 4 + joint_constant * xty**2 / (16 * xtx))
    return min(together, xtx + xty + yty)


def xtx_box_joint_constant(group_count: int, wide_group_count: int) -> Fraction:
    """Return the joint bound constant of `xtx_box_l2_squared` for `joint_cost`: L = q⁴(G² + h), k = 1, R² = G q²."""
    return Fraction(group_count**2 + wide_group_count, group_count**2)


@dataclass(frozen=True, slots=True)
class GramJointBound:
    """`joint_cost` as accountants ask it: of XᵀX, Xᵀy and yᵀy; the cost of anything else is added.

    Attributes
    ----------
    constant : Fraction
    """

    constant: Fraction

    def cost(self, costs: Mapping[str, Fraction]) -> Fraction:
        """Bound the cost of all, from what each costs alone, by name."""
        rest = dict(costs)
        xtx, xty, yty = (rest.pop(name, Fraction(0)) for name in (Statistic.XTX, Statistic.XTY, Statistic.YTY))
        together = joint_cost(xtx, xty, yty, self.constant) if xtx else xtx + xty + yty
        return together + sum(rest.values(), Fraction(0))


def nieminen_sensitivity(statistic: Statistic, term_count: int) -> Fraction:
    """Return the sensitivity that Nieminen's algorithm 2 draws noise for, with every bound at q [1]_.

    d(d+1) B_x² for XᵀX, which is twice what a row can move it; 2 d B_x B_y for Xᵀy; B_y² for yᵀy.

    References
    ----------
    .. [1] A. Nieminen, "Differentially Private Robust Linear Regression", MSc thesis, University of Helsinki 2017,
       algorithm 2.
    """
    factors = {Statistic.XTX: term_count * (term_count + 1), Statistic.XTY: 2 * term_count, Statistic.YTY: 1}
    return Fraction(factors[statistic] * UNIT**2)
