"""From pooled equations to the moments that a posterior is drawn from."""

import math

from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations
from analyst_client.inference.noise_model import NoisyMoments


def moments_of(equations: Equations) -> NoisyMoments:
    """Return the moments of one release. Raise `EstimationError` for several."""
    if len(equations.sites) > 1:
        raise EstimationError("a posterior is drawn from one release: fit on one, or use another estimator")
    (site,) = equations.sites
    law = site.law
    known = site.yty is not None and law.yty is not None
    if site.rows is None:
        _ = equations.rows  # says what is missing
    return NoisyMoments(
        site.xtx,
        site.xty,
        float(site.yty) if site.yty is not None else 0.0,
        law.xtx,
        law.xty,
        float(law.yty) if known and law.yty is not None else math.inf,
        constant=equations.has_constant,
        rows=None if equations.has_constant else max(float(site.rows or 0.0), 1.0),
        weight_shares=site.weight_shares,
    )
