"""Shrinkage that knows the noise: a prior fitted to the release, and the posterior mean under it."""

from typing import ClassVar

from analyst_client.estimators.base import LinearFit
from analyst_client.inference.equations import Equations
from analyst_client.inference.prior import fit_prior
from analyst_client.inference.results import Solution


class EmpiricalBayes(LinearFit):
    """Least squares, shrunk direction by direction by how far the data are above the noise: a Wiener filter.

    There is nothing to choose: the prior's variance follows from the release by its marginal likelihood, and the noise
    from what the curator states; see `analyst_client.inference.prior.fit_prior`. The constant is not shrunk.

    Attributes
    ----------
    prior_variance_ : float
        τ² of a scaled coefficient.

    Examples
    --------
    >>> from analyst_client import EmpiricalBayes, Release
    >>> release = Release.from_arrays(
    ...     [[300.0, 0.0], [0.0, 20.0]], [150.0, 6.0], 90.0, features=["age"], noise=3.0)
    >>> fit = EmpiricalBayes().fit(release)
    >>> fit.coef_.round(2).tolist(), round(fit.intercept_, 2)
    ([0.2], 0.5)
    """

    _target_attributes: ClassVar[tuple[str, ...]] = ("penalty_", "prior_variance_")

    prior_variance_: float

    def _solve(self, equations: Equations) -> Solution:
        prior = fit_prior(equations)
        self.prior_variance_ = prior.variance
        self.penalty_ = 0.0
        return Solution(prior.theta, prior.inverse)
