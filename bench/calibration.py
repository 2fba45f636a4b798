"""Simulation-based calibration of `BayesianRegression`: ranks of what the prior drew among draws of its posterior.

Coefficients and the residual precision are drawn from the default prior, then a release with Gaussian noise of the
stated deviation, halved in variance off the diagonal. Were the posterior exact, the rank of the truth among draws would
be uniform (Talts et al. 2018). Of each parameter: χ² of the ranks over 20 bins with its p, the share of truths in the
lowest and the highest 2.5 % and 25 % of draws, the coverage of 90 % and 95 % intervals, and the mean rank. The last row
is of those draws alone whose XᵀX is positive definite: whether it helps to know that it is.

The posterior takes every XᵀX for as likely as any other. `--fixed released` draws what that says: the released XᵀX is
fixed, and the exact one is that less its noise. `--fixed rows` is what hospitals have: rows of uniform features, and
noise added to theirs. Prints Markdown.

    python -m bench.calibration [--releases 500] [--rows 500] [--terms 3] [--noise 50] [--fixed rows]

S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman, "Validating Bayesian inference algorithms with
simulation-based calibration", 2018.
"""

import argparse
import math
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt

from analyst_client.inference.evidence import Evidence, NoisyMoments, bordered
from analyst_client.inference.posterior import sample_posterior
from analyst_client.inference.prior import Prior

Floats = npt.NDArray[np.float64]
BINS = 20
PRIOR = Prior()


def draw_release(rng: np.random.Generator, rows: int, d: int, noise_sd: float, fixed: str) -> tuple[Evidence, Floats]:
    """Draw from the prior, and a release: the evidence, and the coefficients with log τ after them."""
    e = d + 1
    lam = rng.gamma(PRIOR.coefficient_shape, 1.0 / PRIOR.coefficient_rate)
    beta = np.append(rng.normal(0.0, PRIOR.constant_sd), rng.normal(0.0, lam**-0.5, d))
    tau = rng.gamma(PRIOR.residual_shape, 1.0 / PRIOR.residual_rate)
    variance = noise_sd**2 * (0.5 + 0.5 * np.eye(d + 2))
    while True:
        X = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, d))])
        noise = np.triu(np.sqrt(variance) * rng.normal(size=(d + 2, d + 2)))
        noise += np.triu(noise, 1).T
        xtx = X.T @ X - (noise[:e, :e] if fixed == "released" else 0.0)
        if np.linalg.eigvalsh(xtx)[0] > 0.0:
            break
    scores = rng.normal(size=e)  # Xᵀu and uᵀu, which are all that rows come in by
    moment = np.linalg.cholesky(xtx) @ scores / math.sqrt(tau)
    squares = (rng.chisquare(max(xtx[0, 0] - e, 1.0)) + scores @ scores) / tau
    exact = bordered(xtx, xtx @ beta + moment, float(beta @ xtx @ beta + 2.0 * beta @ moment + squares))
    noisy = exact + noise
    moments = NoisyMoments(
        noisy[:e, :e], noisy[:e, e], float(noisy[e, e]), variance[:e, :e], variance[:e, e], float(variance[e, e])
    )
    return Evidence((moments,)), np.append(beta, math.log(tau))


def ranks(task: tuple[int, int, int, float, str]) -> Floats:
    """Return the share of draws below each parameter's true value, and that of definite draws."""
    seed, *shape = task
    rng = np.random.default_rng(seed)
    evidence, truth = draw_release(rng, *shape)
    drawn = sample_posterior(evidence, draws=250, chains=4, seed=rng)
    values = np.concatenate([drawn.beta, np.log(drawn.residual_precision)[..., np.newaxis]], axis=-1)
    below: Floats = np.mean(values < truth, axis=(0, 1))
    nearer = np.abs(values[..., 0]) < abs(truth[0])
    definite = np.linalg.eigvalsh(drawn.xtx)[..., 0] > 0.0
    known = nearer[definite] if np.any(definite) else nearer
    return np.concatenate([below, [np.mean(nearer), np.mean(known), drawn.definite_share]])


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--terms", type=int, default=3)
    parser.add_argument("--noise", type=float, default=50.0)
    parser.add_argument("--fixed", choices=["rows", "released"], default="rows")
    options = parser.parse_args()
    tasks = [(k, options.rows, options.terms, options.noise, options.fixed) for k in range(options.releases)]
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        found = np.array(list(workers.map(ranks, tasks, chunksize=4)))
    print(f"{len(found)} releases, {np.mean(found[:, -1]):.0%} of draws definite\n")
    shares_of = "lowest 2.5 % | lowest 25 % | highest 25 % | highest 2.5 % | 90 % | 95 %"
    print(f"| parameter | χ² (19) | p | {shares_of} | mean rank |\n| --- |" + " ---: |" * 9)
    names = ["constant", *(f"x{j + 1}" for j in range(options.terms)), "log τ"]
    names += ["size of the constant", "of it, definite draws"]
    for name, below in zip(names, found.T, strict=False):
        counts = np.histogram(below, BINS, (0.0, 1.0))[0]
        expected = len(below) / BINS
        square = float(np.sum((counts - expected) ** 2) / expected)
        off = np.abs(below - 0.5)
        cuts = (below < 0.025, below < 0.25, below > 0.75, below > 0.975, off < 0.45, off < 0.475)
        shares = [np.mean(cut) for cut in cuts]
        cells = " | ".join(f"{share:.3f}" for share in shares)
        print(f"| {name} | {square:.1f} | {tail(square):.3f} | {cells} | {below.mean():.3f} |")


def tail(square: float) -> float:
    """Return the probability that χ² with one degree of freedom less than bins exceeds a value."""
    from scipy import special  # noqa: PLC0415 -- as in the client

    return float(special.chdtrc(BINS - 1, square))


if __name__ == "__main__":
    main()
