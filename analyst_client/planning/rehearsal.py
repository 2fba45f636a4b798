"""Dummy releases: noise around assumed statistics, to write an analysis before anything is spent."""

from dataclasses import asdict
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds.gram.local import packed, write_text
from analyst_client.kinds.gram.quote import Noise, Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.planning.assumptions import Assumptions


def rehearse(quote: Quote, assumptions: Assumptions, seed: int = 0) -> Release:
    r"""Make a dummy release: what the real one might look like, if the assumptions hold.

    Whatever runs on it runs on the real one: terms, targets, statistics, request and stated noise are the same. Its
    numbers say nothing of the curator's rows.

    Parameters
    ----------
    quote : Quote
        The request, with its noise.
    assumptions : Assumptions
        Of this quote's terms, targets and row map.
    seed : int
        The same seed gives the same release.

    Returns
    -------
    Release
        Of the dataset ``"… (dummy)"``, with the quote's cost and without a receipt.

    Raises
    ------
    ValueError
        When the assumptions are of another request, or the quote states no noise.

    Notes
    -----
    With n rows, A is n times the assumed moments. Sampling moves Xᵀy by :math:`z \sim N(0, s^2\kappa A)`, with κ the
    mean of w², and leaves a residual sum of mean :math:`s^2\kappa(n - D)`. On top comes noise of the quote's law.

    Examples
    --------
    >>> from analyst_client import OLS
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> release = rehearse(QUOTE, assumptions)
    >>> release
    <Release dummy of 'flchain (dummy)': kappa ~ age, sex, creatinine, lambda, epsilon=1, delta=1e-06>
    >>> OLS().fit(release).term_names_.tolist()
    ['age', 'sex[M]', 'creatinine', 'lambda']
    """
    return DummyReleases(quote, assumptions).release(np.random.default_rng(seed))


class DummyReleases:
    """Dummy releases of one quote under one set of assumptions.

    Attributes
    ----------
    xtx : ndarray of shape (D, D)
    xty : ndarray of shape (D, T)
    yty : ndarray of shape (T,)
        What is expected of the exact statistics.
    """

    def __init__(self, quote: Quote, assumptions: Assumptions) -> None:
        assumptions.check_made_for(quote)
        self._quote = quote
        self.xtx = assumptions.rows * assumptions.moments
        self.xty = self.xtx @ assumptions.coefficients
        self._variances = assumptions.residual_variances
        self._weight = assumptions.weight
        self._residual = self._variances * self._weight * (assumptions.rows - len(self.xtx))
        self.yty = np.sum(assumptions.coefficients * self.xty, axis=0) + self._residual
        self._assumptions = assumptions

    def release(self, generator: np.random.Generator | None = None) -> Release:
        """Return a release: of what is expected, without any noise in its numbers; or drawn."""
        quote, noise = self._quote, self._quote.noise
        xtx, xty, yty = self.xtx, self.xty, self.yty
        if generator is not None:
            xty, yty = self._sampled(generator)
            xtx, xty, yty = self._noisy(generator, xty, yty)
        offered = {"xtx": noise.xtx_diagonal, "xty": noise.xty, "yty": noise.yty, "lambda_min": noise.lambda_min}
        d, t = len(quote.terms), len(quote.targets)
        statistics: dict[str, Any] = {
            "xtx": packed(xtx[np.triu_indices(d)], (d, d), "upper"),
            "xty": packed(xty, (d, t)),
            "yty": packed(yty, (t,)),
        }
        if noise.lambda_min is not None:
            smallest = float(np.linalg.eigvalsh(self.xtx)[0])
            drawn = 0.0 if generator is None else _draw(generator, noise, 1)[0] * noise.lambda_min
            statistics["lambda_min"] = packed(smallest + drawn, ())
        text = write_text(
            quote,
            release_id="dummy",
            dataset=f"{quote.dataset} (dummy)",
            request=quote.request,
            statistics={name: entry for name, entry in statistics.items() if offered[name] is not None},
            noise=noise,
            cost={name: value for name, value in asdict(quote.cost).items() if value is not None and value != np.inf},
        )
        return Release.from_text(text)

    def _sampled(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw Xᵀy and yᵀy of rows whose XᵀX is the expected one."""
        root = np.linalg.cholesky(self.xtx)
        whitened = generator.standard_normal(self.xty.shape) * np.sqrt(self._variances * self._weight)
        rows = self._assumptions.rows - len(root)
        left = self._residual * np.maximum(1.0 + np.sqrt(2.0 / rows) * generator.standard_normal(len(self.yty)), 0.0)
        beta = self._assumptions.coefficients
        xty = self.xty + root @ whitened
        yty = np.sum(beta * (2.0 * xty - self.xty), axis=0) + left + np.sum(whitened**2, axis=0)
        return xty, yty

    def _noisy(
        self, generator: np.random.Generator, xty: FloatArray, yty: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Add noise of the quote's law to each entry once."""
        noise, d = self._quote.noise, len(self.xtx)
        law = NoiseLaw.of(Noise(noise.xtx_diagonal or 0.0, noise.xtx_offdiagonal or 0.0, noise.xty or 0.0), d)
        variances = np.sqrt(law.xtx[np.triu_indices(d)])
        xtx = self.xtx.copy()
        xtx[np.triu_indices(d)] += _draw(generator, noise, len(variances)) * variances
        xtx = np.triu(xtx) + np.triu(xtx, 1).T
        xty = xty + _draw(generator, noise, xty.size).reshape(xty.shape) * (noise.xty or 0.0)
        return xtx, xty, yty + _draw(generator, noise, len(yty)) * (noise.yty or 0.0)


def _draw(generator: np.random.Generator, noise: Noise, count: int) -> FloatArray:
    """Draw numbers of deviation 1 of the stated law."""
    if "laplace" in noise.distribution:
        return generator.laplace(0.0, np.sqrt(0.5), count)
    return generator.standard_normal(count)
