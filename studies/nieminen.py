"""Nieminen's synthetic study (2017): rank correlation of robust private linear regression, with two sensitivities.

Source: A. Nieminen, "Differentially Private Robust Linear Regression" (MSc thesis, University of Helsinki, 2017),
sections 3.3 to 3.8 and 4.1, 4.2, and the program that the thesis names (github.com/DPBayes/robust-private-lr), which
stores the numbers of figures 4.2 and 4.3.

Protocol. The thesis' own 1,000 rows, drawn again from their seed: ten features and a target of model 3.11, both
precisions 1. In each of 50 random splits 100 rows are held out and 10 public; private, public and held-out rows are
prepared apart: columns centred, rows divided by their norm, the target centred, from the rows themselves. Values are
cut to ±B_x and ±B_y, with B = ωσ and σ of the private rows, and Laplace noise is added to XᵀX, Xᵀy and yᵀy of private
rows; the sums of public rows are added as they are. ω is searched in {0.1, …, 2.0}² on made-up rows with both
precisions at 1, the split of ε on steps of 0.05 at n = 500 and ε = 2. The score is Spearman's rank correlation on
held-out rows. Neighbours differ in one row and n is public.

Sensitivities are the thesis' (calibration ``nieminen2017``: d(d+1)B_x² for XᵀX) and tight ones (``analytic``: half of
that), each with thresholds of its own. Fits: equation 3.5, the posterior mean with both precisions at 1, solved
whatever the matrix is; and of the client `RobustPrivateRegression`, the model with Gamma(2, 2) priors on both
precisions, sampled, where the thesis has ADVI; `EmpiricalBayes` and `AdaSSP`, which know the noise. Plans, exact sums
and noise are the server's own functions without HTTP, through `bench.simulation.Hospital`: each release is of rows with
bounds of their own. Searches take fewer draws than the thesis', and judge by rows held out where its program judges by
the rows fitted. Prints Markdown.

    python -m studies.nieminen [--folds 50] [--figure studies/images/literature_nieminen.png]
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EmpiricalBayes, EstimationWarning, Release, RobustPrivateRegression
from analyst_client.estimators.linear import LinearFit
from analyst_client.kinds import Noise
from bench.simulation import Hospital
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, Mechanism
from studies.common import Panel, draw_panels, head, line, parser_of
from studies.metrics import Floats, Proportion

FEATURES, PUBLIC, HELD_OUT = 10, 10, 100
SPLIT = (0.35, 0.6, 0.05)
"""Of ε, to XᵀX, Xᵀy and yᵀy: the thesis' best."""
OMEGAS = np.arange(1, 21) / 10
SENSITIVITIES = {"his": Calibration.NIEMINEN2017, "tight": Calibration.ANALYTIC}
GAMMA = "Gamma priors"
ESTIMATORS: dict[str, LinearFit | None] = {
    "equation 3.5": None,
    GAMMA: RobustPrivateRegression(draws=250, seed=7),
    "EmpiricalBayes": EmpiricalBayes(),
    "AdaSSP": AdaSSP(),
}
DRAWN = ("his, equation 3.5", "tight, equation 3.5", "tight, Gamma priors", "tight, AdaSSP")
CUT, PLAIN = "no noise, cut", "no noise, not cut"
PUBLISHED_BY_PRICE: dict[float, tuple[float, float]] = {
    0.1: (0.108, 0.270),
    0.2: (0.251, 0.257),
    0.5: (0.620, 0.166),
    1.0: (0.815, 0.062),
    2.0: (0.869, 0.034),
    5.0: (0.883, 0.028),
    10.0: (0.882, 0.028),
}
PUBLISHED_BY_ROWS: dict[float, tuple[float, float]] = {
    0: (0.631, 0.147),
    100: (0.560, 0.170),
    200: (0.730, 0.095),
    300: (0.820, 0.055),
    400: (0.852, 0.042),
    500: (0.869, 0.034),
    600: (0.876, 0.030),
    700: (0.878, 0.030),
    800: (0.877, 0.030),
}
"""Means and deviations over 50 splits."""


@dataclass(frozen=True)
class Rows:
    """Features and a target."""

    features: Floats
    target: Floats

    @classmethod
    def draw(cls, generator: np.random.Generator | np.random.RandomState, count: int) -> "Rows":
        """Draw rows of model 3.11, in the order of the thesis' program."""
        features = generator.normal(0.0, 1.0, (count, FEATURES))
        beta = generator.normal(0.0, 1.0, FEATURES)
        return cls(features, generator.normal(features @ beta, 1.0))

    def take(self, chosen: slice | npt.NDArray[np.int64]) -> "Rows":
        """Return some of the rows."""
        return Rows(self.features[chosen], self.target[chosen])

    def prepared(self) -> "Rows":
        """Return the rows as section 3.5 prepares them: centred, features of norm 1.

        Examples
        --------
        >>> Rows(np.array([[3.0, 4.0], [-3.0, -4.0]]), np.array([0.0, 4.0])).prepared().features[0].tolist()
        [0.6, 0.8]
        """
        if not len(self.target):
            return self
        centred = self.features - self.features.mean(axis=0)
        return Rows(centred / np.linalg.norm(centred, axis=1, keepdims=True), self.target - self.target.mean())

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
        return cls(tuple(Rows.draw(generator, n + HELD_OUT).prepared() for _ in range(sets)), draws, seed)

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
            kept = rows.take(slice(0, -HELD_OUT))
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
            new = rows.take(slice(-HELD_OUT, None))
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
    xtx, xty, yty = (sum((getattr(each, name) for each in releases), 0.0) for name in ("xtx", "xty", "yty"))
    return Release.from_arrays(Bx**2 * xtx, Bx * By * xty, By**2 * yty, constant=False, noise=told)


def fitted(estimator: LinearFit | None, release: Release, count: int, new: Rows) -> float:
    """Fit, predict held-out rows, and return the rank correlation; without an estimator by equation 3.5."""
    if estimator is None:
        beta = np.linalg.solve(np.asarray(release.xtx) + np.eye(FEATURES), np.asarray(release.xty)[:, 0])
        return float(rank_correlation(new.target, new.features @ beta))
    predicted = estimator.fit(release, rows=count).predict(new.features)
    return float(rank_correlation(new.target, np.asarray(predicted, dtype=np.float64)))


@dataclass(frozen=True)
class Split:
    """Rows of one split, prepared."""

    private: Rows
    public: Rows
    new: Rows

    @classmethod
    def of(cls, rows: Rows, n: int, seed: int) -> "Split":
        """Split rows at random; the private rows of a smaller n are among those of a larger one."""
        order = np.random.default_rng([2017, seed]).permutation(len(rows.target))
        new, public, private = order[:HELD_OUT], order[HELD_OUT : HELD_OUT + PUBLIC], order[HELD_OUT + PUBLIC :][:n]
        return cls(*(rows.take(chosen).prepared() for chosen in (private, public, new)))

    @property
    def count(self) -> int:
        """Number of rows that a fit sees."""
        return len(self.private.target) + len(self.public.target)

    def thresholds(self, omegas: tuple[float, float]) -> tuple[float, float]:
        """Return where values are cut: ω deviations of the private rows; without any, nowhere."""
        if not len(self.private.target):
            return 1.0, float(np.abs(self.public.target).max())
        deviations = (float(np.std(values, ddof=1)) for values in (self.private.features, self.private.target))
        x, y = (omega * sigma for omega, sigma in zip(omegas, deviations, strict=True))
        return x, y

    def released(self, omegas: tuple[float, float], epsilon: float, calibration: Calibration) -> Release:
        """Buy a release of the private rows, and add the public ones."""
        thresholds = self.thresholds(omegas)
        bought = self.private.at_curator(thresholds).release(
            epsilon, Mechanism.LAPLACE, calibration=calibration, shares=shares_of(SPLIT)
        )
        return in_raw_units([bought, self.public.at_curator(thresholds).exact], thresholds)

    def exact(self, omegas: tuple[float, float]) -> Release:
        """Return the sums of cut rows without noise."""
        thresholds = self.thresholds(omegas)
        parts = [part for part in (self.private, self.public) if len(part.target)]
        return in_raw_units([part.at_curator(thresholds).exact for part in parts], thresholds)


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

    def scores(self, rows: Rows, seed: int) -> dict[str, float]:
        """Return the rank correlation of every method on a split."""
        split, found = Split.of(rows, self.n, seed), {}
        for name, calibration in SENSITIVITIES.items():
            told = split.released(self.omegas[name], self.epsilon, calibration) if self.n else split.exact((1.0, 1.0))
            for label, estimator in ESTIMATORS.items():
                if self.n or label in {"equation 3.5", GAMMA}:
                    found[f"{name}, {label}"] = fitted(estimator, told, split.count, split.new)
        gamma = ESTIMATORS[GAMMA]
        found[CUT] = fitted(gamma, split.exact(self.omegas["tight"]), split.count, split.new)
        found[PLAIN] = fitted(gamma, split.exact((20.0, 20.0)), split.count, split.new)
        return found


def measure(setting: Setting, folds: int) -> dict[str, Proportion]:
    """Return mean rank correlations over splits, with their standard errors."""
    rows = Rows.draw(np.random.RandomState(42), 1000)
    scores = [setting.scores(rows, seed) for seed in range(folds)]
    return {name: Proportion.of([each[name] for each in scores]) for name in scores[0]}


def budget_table(sets: int = 5, draws: int = 5, again: int = 40) -> Iterator[str]:
    """Yield the table of splits: the thesis', the best of the grid, thirds, and old equal halves, on rows made anew."""
    search, anew = Search.of(500, sets, draws, seed=35), Search.of(500, again, draws, seed=60)
    yield head(["sensitivities", "split of ε to XᵀX, Xᵀy, yᵀy"], ["ω_x, ω_y", "in the search", "on new rows"])
    for name, calibration in SENSITIVITIES.items():
        tried = {split: search.best(noise_of(calibration, 2.0, split)) for split in splits()}
        order = sorted(tried, key=lambda split: -tried[split][1])
        place = order.index(SPLIT) + 1
        for label, split in (
            ("the best", order[0]),
            (f"the thesis', place {place} of 171", SPLIT),
            ("", (0.5, 0.45, 0.05)),
        ):
            chosen, score = tried[split]
            fresh = anew.scores(noise_of(calibration, 2.0, split), chosen).reshape(again, draws).mean(axis=1)
            shares = ", ".join(f"{share:g}" for share in split) + (f" ({label})" if label else "")
            omegas = ", ".join(f"{OMEGAS[each]:.1f}" for each in chosen)
            yield line(name, shares, omegas, f"{score:.3f}", Proportion.of(fresh))


Lines = dict[str, dict[float, Proportion]]


def study(settings: Sequence[Setting], folds: int, label: str) -> Lines:
    """Print the table of some settings, and return its lines: points by price or by rows."""
    names = [f"{name}, {fit}" for name in SENSITIVITIES for fit in ESTIMATORS]
    series: Lines = {name: {} for name in ("published", *names, CUT, PLAIN)}
    places = [setting.epsilon if label == "ε" else float(setting.n) for setting in settings]
    for setting, place in zip(settings, places, strict=True):
        known, deviation = (PUBLISHED_BY_PRICE if label == "ε" else PUBLISHED_BY_ROWS)[place]
        series["published"][place] = Proportion(known, deviation / math.sqrt(50))
        for name, mean in measure(setting, folds).items():
            series[name][place] = mean
    print(head(["sensitivities, fit"], [f"{label} = {place:g}" for place in places]))
    for name, points in series.items():
        print(line(name, *(str(points[place]) if place in points else "–" for place in places)))
    for name in SENSITIVITIES:
        pairs = [", ".join(f"{each:.1f}" for each in setting.omegas[name]) for setting in settings]
        print(line(f"ω_x, ω_y: {name}", *("–" if not s.n else pair for s, pair in zip(settings, pairs, strict=True))))
    return series


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, measure, print, draw."""
    parser = parser_of(__doc__, "literature_nieminen.png", reads=False)
    parser.add_argument("--folds", type=int, default=50)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(PUBLISHED_BY_PRICE))
    parser.add_argument("--rows", type=int, nargs="+", default=[int(n) for n in PUBLISHED_BY_ROWS])
    parser.add_argument("--no-splits", action="store_true", help="leave out the search of the split")
    options = parser.parse_args(arguments)
    if not options.no_splits:
        print("\n".join(budget_table()), flush=True)
    studies = (
        ("500 private rows", "ε", [Setting.of(500, epsilon) for epsilon in options.epsilons]),
        ("ε = 2", "n", [Setting.of(n, 2.0) for n in options.rows]),
    )
    panels = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)  # that noise is large, which the tables show
        for title, label, settings in studies:
            print(f"\n{title}:\n")
            series = study(settings, options.folds, label)
            drawn = {name: series[name] for name in ("published", *DRAWN, PLAIN)}
            panels.append(Panel(title, label, "rank correlation", drawn, {}, (label == "ε", False), (-0.1, 1.0)))
    draw_panels(options.figure, panels, columns=2)


if __name__ == "__main__":
    main()
