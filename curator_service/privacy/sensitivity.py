"""How far one person can move each statistic: squared L2 sensitivities, exact, in lattice units.

Terms are bounded by q; a one-hot group counts as one term (`Design.group_count`); a row that counts for nothing is
allowed in every bound. docs/privacy.md has a proof for each; tests/unit/privacy searches for neighbours that
would beat them.
"""

from fractions import Fraction

from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.lattice import UNIT


def xtx_box_l2_squared(group_count: int, wide_group_count: int, adjacency: Adjacency) -> Fraction:
    """Bound the upper triangle of XᵀX, each entry counted once, under the box map.

    Parameters
    ----------
    group_count : int
        G: terms with a one-hot group counted once; R² = G q².
    wide_group_count : int
        h: one-hot groups of two or more terms.
    adjacency : Adjacency

    Returns
    -------
    Fraction
        Squared L2 sensitivity, in lattice units to the fourth power: q⁴ (G² + G)/2 when a row is added or removed,
        q⁴ (G² + h) when it is replaced.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return Fraction(UNIT**4 * (group_count**2 + group_count), 2)
    return Fraction(UNIT**4 * (group_count**2 + wide_group_count))


def xtx_ball_l2_squared(norm_squared: int, adjacency: Adjacency) -> Fraction:
    """Bound XᵀX in Frobenius norm (off-diagonals of the triangle weighted √2), under the ball map.

    ‖xxᵀ‖_F = ‖x‖² ≤ R²; ‖xxᵀ − vvᵀ‖²_F = ‖x‖⁴ + ‖v‖⁴ − 2(x·v)² ≤ 2R⁴, reached by orthogonal rows.
    """
    return Fraction(norm_squared**2 * (1 if adjacency is Adjacency.ADD_REMOVE else 2))


def xty_l2_squared(norm_squared: int, adjacency: Adjacency) -> Fraction:
    """Bound Xᵀy for one target bounded by q: R q when a row is added or removed, 2 R q when it is replaced."""
    return Fraction(norm_squared * UNIT**2 * (1 if adjacency is Adjacency.ADD_REMOVE else 4))


def yty_l2_squared() -> Fraction:
    """Bound yᵀy for one target bounded by q: y² lies in [0, q²], so q² under both adjacencies."""
    return Fraction(UNIT**4)


def lambda_min_l2_squared(norm_squared: int, float_error: int) -> Fraction:
    """Bound the computed λ_min(XᵀX) under both adjacencies.

    Adding a row adds xxᵀ ⪰ 0, so λ_min rises, by at most ‖x‖² (Weyl). Replacing one removes and adds: the two moves
    have opposite signs, so R² bounds the change, not 2R². Each of the two computed values is off by at most
    `float_error`, and rounding to integers adds 1.
    """
    return Fraction((norm_squared + 2 * float_error + 1) ** 2)
