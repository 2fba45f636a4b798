"""Nieminen's synthetic study (2017): rank correlation of robust private linear regression, with two sensitivities.

Source: A. Nieminen, "Differentially Private Robust Linear Regression" (MSc thesis, University of Helsinki, 2017),
sections 3.3 to 3.8 and 4.1, 4.2. The thesis shows its results in figures alone.

Protocol. Ten features and a target of model 3.11, both precisions 1; columns centred, rows divided by their norm, the
target centred, all of it from the rows themselves. Values are cut to ±B_x and ±B_y, with B = ωσ, and Laplace noise is
added to XᵀX, Xᵀy and yᵀy of private rows; the sums of ten public rows are added as they are. ω is searched in
{0.1, …, 2.0}² on made-up rows with both precisions at 1, the split of ε on steps of 0.05 at n = 500 and ε = 2. The fit
has Gamma(2, 2) priors on both precisions; the score is Spearman's rank correlation on 100 held-out rows. Neighbours
differ in one row and n is public, as in the thesis.

Sensitivities are the thesis' (calibration ``nieminen2017``: d(d+1)B_x² for XᵀX) and tight ones (``analytic``: half of
that), each with thresholds of its own. Plans, exact sums and noise are the server's own functions without HTTP, through
`bench.simulation.Hospital`: 2,400 releases of as many datasets, each with bounds of its own. Fits are the client's.

Other than in the thesis: every one of the 50 folds has rows and coefficients of its own, where it splits one set of
1,000 rows; the posterior is sampled by Gibbs, where it has ADVI; searches take fewer draws. Prints Markdown.

    python -m experiments.nieminen [--folds 50] [--figure docs/images/literature_nieminen.png]
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from analyst_client import EmpiricalBayes, Noise, Release, RobustPrivateRegression
from analyst_client.estimators.base import LinearFit
from bench.simulation import Hospital
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, Mechanism
from experiments.metrics import Floats, Proportion
from experiments.studies import Panel, draw_panels, head, line, parser_of

FEATURES, PUBLIC, HELD_OUT = 10, 10, 100
ROWS = (0, 100, 200, 300, 400, 500, 600, 700, 800)
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SPLIT = (0.35, 0.6, 0.05)
"""Of ε, to XᵀX, Xᵀy and yᵀy: the thesis' best."""
OMEGAS = np.arange(1, 21) / 10
SENSITIVITIES = {"his sensitivities": Calibration.NIEMINEN2017, "tight sensitivities": Calibration.ANALYTIC}
KNOWN = "tight, and a fit that knows the noise"
DRAWS = 250


@dataclass(frozen=True)
class Rows:
    """Prepared rows: features of norm 1 and a target, both about 0."""

    features: Floats
    target: Floats

    @classmethod
    def draw(cls, generator: np.random.Generator, count: int) -> "Rows":
        """Draw rows of model 3.11, and prepare them as section 3.5 says."""
        beta = generator.standard_normal(FEATURES)
        features = generator.standard_normal((count, FEATURES))
        target = features @ beta + generator.standard_normal(count)
        centred = features - features.mean(axis=0)
        return cls(centred / np.linalg.norm(centred, axis=1, keepdims=True), target - target.mean())

    def part(self, first: int, end: int) -> "Rows":
        """Return some of the rows."""
        return Rows(self.features[first:end], self.target[first:end])

    def at_curator(self, thresholds: tuple[float, float]) -> Hospital:
        """Return the rows at a curator that declares thresholds as bounds."""
        return Hospital(
            self.features,
            self.target,
            feature_bound=thresholds[0],
            target_bound=thresholds[1],
            rows="box",
            intercept=False,
            adjacency=Adjacency.REPLACE_ONE,
        )


def rank_correlation(truth: Floats, predicted: Floats) -> Floats:
    """Return Spearman's coefficient of each column of predictions, of values without ties: equation 3.14.

    Parameters
    ----------
    truth : ndarray of shape (n,)
    predicted : ndarray of shape (n, ...)

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([[1.0, 9.0], [4.0, 5.0], [5.0, 2.0]])).tolist()
    [1.0, -1.0]
    """
    n = len(truth)
    ranks, true_ranks = (np.argsort(np.argsort(values, axis=0), axis=0) for values in (predicted, truth))
    differences = ranks - true_ranks.reshape(n, *(1,) * (predicted.ndim - 1))
    return np.asarray(1.0 - 6.0 * np.sum(differences.astype(float) ** 2, axis=0) / (n**3 - n), dtype=np.float64)


def splits(steps: int = 20) -> Iterator[tuple[float, float, float]]:
    """Yield every split of ε in steps of 1/20 over three statistics, each with one step at least.

    Examples
    --------
    >>> len(list(splits())), sum(next(splits()))
    (171, 1.0)
    """
    for first in range(1, steps - 1):
        for second in range(1, steps - first):
            yield first / steps, second / steps, (steps - first - second) / steps


def shares_of(split: tuple[float, float, float]) -> dict[Statistic, Fraction]:
    """Return a split as the server takes it."""
    statistics = (Statistic.XTX, Statistic.XTY, Statistic.YTY)
    return {each: Fraction(round(20 * share), 20) for each, share in zip(statistics, split, strict=True)}


@lru_cache(maxsize=1024)
def noise_of(calibration: Calibration, epsilon: float, split: tuple[float, float, float]) -> Noise:
    """Return the noise that the server states at a price, in units of the thresholds."""
    nobody = Rows(np.zeros((2, FEATURES)), np.zeros(2)).at_curator((1.0, 1.0))
    return nobody.release(epsilon, Mechanism.LAPLACE, calibration=calibration, shares=shares_of(split)).noise


@dataclass(frozen=True)
class Search:
    """Made-up rows and noise of scale 1, on which thresholds and splits are tried: the same for all that are compared.

    Attributes
    ----------
    rows : tuple of Rows
        The last hundred of each are predicted.
    draws : int
        Draws of the noise for each.
    seed : int
    """

    rows: tuple[Rows, ...]
    draws: int
    seed: int

    @classmethod
    def of(cls, n: int, sets: int, draws: int, seed: int) -> "Search":
        """Make up rows."""
        generator = np.random.default_rng([seed, n])
        return cls(tuple(Rows.draw(generator, n + HELD_OUT) for _ in range(sets)), draws, seed)

    @cached_property
    def deviations(self) -> tuple[float, float]:
        """σ of all features, and of the target."""
        return (
            float(np.std(np.concatenate([rows.features for rows in self.rows]))),
            float(np.std(np.concatenate([rows.target for rows in self.rows]))),
        )

    @cached_property
    def sums(self) -> list[tuple[Floats, Floats]]:
        """XᵀX by ω_x and Xᵀy by ω_x and ω_y of each set, in units of the thresholds."""
        found = []
        for rows in self.rows:
            kept = rows.part(0, len(rows.target) - HELD_OUT)
            Z = np.array([np.clip(kept.features / (omega * self.deviations[0]), -1.0, 1.0) for omega in OMEGAS])
            u = np.array([np.clip(kept.target / (omega * self.deviations[1]), -1.0, 1.0) for omega in OMEGAS])
            found.append((np.swapaxes(Z, 1, 2) @ Z, np.einsum("xni,yn->xyi", Z, u)))
        return found

    def scores(self, noise: Noise, chosen: tuple[int, int] | None = None) -> Floats:
        """Return the rank correlation of each draw, for all thresholds or for the chosen ones.

        Returns
        -------
        ndarray of shape (sets · draws, 20, 20) or (sets · draws, 1, 1)
        """
        places = (slice(None), slice(None)) if chosen is None else tuple(slice(i, i + 1) for i in chosen)
        Bx, By = (omega * sigma for omega, sigma in zip((OMEGAS, OMEGAS), self.deviations, strict=True))
        Bx, By = Bx[places[0], None, None, None], By[None, places[1], None, None]
        generator, found = np.random.default_rng(self.seed), []
        unit = math.sqrt(0.5)  # a deviation to the scale of Laplace noise
        for rows, (xtx, xty) in zip(self.rows, self.sums, strict=True):
            new = rows.part(len(rows.target) - HELD_OUT, len(rows.target))
            for _ in range(self.draws):
                P = unit * (noise.xtx_offdiagonal or 0.0) * generator.laplace(size=(FEATURES, FEATURES))
                Q = unit * (noise.xty or 0.0) * generator.laplace(size=FEATURES)
                A = Bx**2 * (xtx[places[0], None] + np.triu(P) + np.triu(P, 1).T) + np.eye(FEATURES)
                b = (Bx * By)[..., 0] * (xty[places] + Q)
                beta = np.linalg.solve(np.broadcast_to(A, (*b.shape, FEATURES)), b[..., np.newaxis])[..., 0]
                found.append(rank_correlation(new.target, np.einsum("ni,xyi->nxy", new.features, beta)))
        return np.array(found)

    def best(self, noise: Noise) -> tuple[tuple[int, int], float]:
        """Return the places of the thresholds that score best, and their mean score."""
        means = self.scores(noise).mean(axis=0)
        place = np.unravel_index(np.argmax(means), means.shape)
        return (int(place[0]), int(place[1])), float(means[place])


def in_raw_units(releases: Sequence[Release], thresholds: tuple[float, float]) -> Release:
    """Add up releases and tell them in the units of the rows; noise is that of the first.

    The priors of the fit are about coefficients and residuals in these units.
    """
    Bx, By = thresholds
    noise = releases[0].noise
    told = Noise(
        Bx**2 * (noise.xtx_diagonal or 0.0),
        Bx**2 * (noise.xtx_offdiagonal or 0.0),
        Bx * By * (noise.xty or 0.0),
        By**2 * (noise.yty or 0.0),
        distribution=noise.distribution,
    )
    xtx, xty, yty = (sum(np.asarray(getattr(each, name)) for each in releases) for name in ("xtx", "xty", "yty"))
    return Release.from_arrays(Bx**2 * xtx, Bx * By * xty, By**2 * yty, constant=False, noise=told)


def fitted(estimator: LinearFit, release: Release, count: int, new: Rows) -> float:
    """Fit, predict held-out rows, and return the rank correlation."""
    predicted = estimator.fit(release, rows=count).predict(new.features)
    return float(rank_correlation(new.target, np.asarray(predicted, dtype=np.float64)))


@dataclass(frozen=True)
class Setting:
    """A number of private rows, a price, and thresholds that were searched for it, in deviations."""

    n: int
    epsilon: float
    omegas: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, n: int, epsilon: float, sets: int = 10, draws: int = 10) -> "Setting":
        """Search thresholds."""
        search, omegas = Search.of(max(n, 100), sets, draws, seed=2017), {}
        for name, calibration in SENSITIVITIES.items():
            (x, y), _ = search.best(noise_of(calibration, epsilon, SPLIT))
            omegas[name] = (float(OMEGAS[x]), float(OMEGAS[y]))
        return cls(n, epsilon, omegas)

    def scores(self, seed: int) -> dict[str, float]:
        """Return the rank correlation of every method on rows that are new."""
        rows = Rows.draw(np.random.default_rng([seed, self.n]), self.n + PUBLIC + HELD_OUT)
        private, public = rows.part(0, self.n), rows.part(self.n, self.n + PUBLIC)
        new, count = rows.part(self.n + PUBLIC, len(rows.target)), self.n + PUBLIC
        sigmas = float(np.std(rows.features)), float(np.std(rows.target))
        robust = RobustPrivateRegression(draws=DRAWS, seed=seed)
        found = {}
        for name, calibration in SENSITIVITIES.items():
            thresholds = (self.omegas[name][0] * sigmas[0], self.omegas[name][1] * sigmas[1])
            exact = [part.at_curator(thresholds).exact for part in (public, private)[: 1 + (self.n > 0)]]
            released = exact
            if self.n > 0:
                curator, asked = private.at_curator(thresholds), {"calibration": calibration, "shares": shares_of(SPLIT)}
                released = [curator.release(self.epsilon, Mechanism.LAPLACE, **asked), exact[0]]
            told = in_raw_units(released, thresholds)
            found[name] = fitted(robust, told, count, new)
        found[KNOWN] = fitted(EmpiricalBayes(), told, count, new) if self.n > 0 else math.nan
        found["no noise, cut"] = fitted(robust, in_raw_units(exact, thresholds), count, new)
        X, y = rows.features[:count], rows.target[:count]
        plain = Release.from_arrays(X.T @ X / 2 + (X.T @ X).T / 2, X.T @ y, float(y @ y), constant=False)
        found["no noise, not cut"] = fitted(robust, plain, count, new)
        return found


def measure(setting: Setting, folds: int) -> dict[str, Proportion]:
    """Return mean rank correlations over folds, with their standard errors."""
    scores = [setting.scores(seed) for seed in range(folds)]
    return {name: Proportion.of([each[name] for each in scores]) for name in scores[0]}


def budget_table(sets: int = 5, draws: int = 5, again: int = 40) -> Iterator[str]:
    """Yield the table of splits: the thesis', the best of the grid, thirds, and old equal halves, on rows made anew."""
    search, anew = Search.of(500, sets, draws, seed=35), Search.of(500, again, draws, seed=60)
    yield head(["sensitivities", "split of ε to XᵀX, Xᵀy, yᵀy"], ["ω_x, ω_y", "in the search", "on new rows"])
    for name, calibration in SENSITIVITIES.items():
        tried = {split: search.best(noise_of(calibration, 2.0, split)) for split in splits()}
        order = sorted(tried, key=lambda split: -tried[split][1])
        place = order.index(SPLIT) + 1
        for label, split in (("the best", order[0]), (f"the thesis', place {place} of 171", SPLIT), ("", (0.5, 0.45, 0.05))):
            chosen, score = tried[split]
            fresh = anew.scores(noise_of(calibration, 2.0, split), chosen).reshape(again, draws).mean(axis=1)
            shares = ", ".join(f"{share:g}" for share in split) + (f" ({label})" if label else "")
            omegas = ", ".join(f"{OMEGAS[each]:.1f}" for each in chosen)
            yield line(name, shares, omegas, f"{score:.3f}", Proportion.of(fresh))


def study(settings: Sequence[Setting], folds: int, label: str) -> tuple[str, list[dict[str, Proportion]]]:
    """Return the table of some settings, and its numbers."""
    found = [measure(setting, folds) for setting in settings]
    names = list(found[0])
    lines = [head([label], [*names, "ω_x, ω_y: his", "tight"])]
    for setting, means in zip(settings, found, strict=True):
        cells = ["–" if math.isnan(means[name].value) else str(means[name]) for name in names]
        omegas = [", ".join(f"{each:.1f}" for each in pair) if setting.n else "–" for pair in setting.omegas.values()]
        lines.append(line(f"{setting.epsilon:g}" if label == "ε" else setting.n, *cells, *omegas))
    return "\n".join(lines), found


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, measure, print, draw."""
    parser = parser_of(__doc__, "literature_nieminen.png", reads=False)
    parser.add_argument("--folds", type=int, default=50)
    parser.add_argument("--no-splits", action="store_true", help="leave out the search of the split")
    options = parser.parse_args(arguments)
    if not options.no_splits:
        print("\n".join(budget_table()), flush=True)
    panels = []
    by_price = [Setting.of(500, epsilon) for epsilon in EPSILONS]
    by_rows = [Setting.of(n, 2.0) for n in ROWS]
    for label, settings, title in (("ε", by_price, "500 private rows"), ("private rows", by_rows, "ε = 2")):
        table, found = study(settings, options.folds, label)
        print(f"\n{title}:\n\n{table}", flush=True)
        at = [setting.epsilon if label == "ε" else float(setting.n) for setting in settings]
        series = {
            name: {x: means[name] for x, means in zip(at, found, strict=True) if not math.isnan(means[name].value)}
            for name in found[0]
        }
        ylabel = "Spearman's rank correlation"
        panels.append(Panel(title, label, ylabel, series, {}, (label == "ε", False), (-0.05, 1.0)))
    draw_panels(options.figure, panels, columns=2)


if __name__ == "__main__":
    main()
