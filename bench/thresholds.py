"""Threshold sessions: errors of answers beside what is stated, and a model that is checked at three hospitals.

First k counts of persons with a large κ in subgroups of flchain, of an age and a sex, at ε in all and β = 0.05:

- *laplace*: a release of `counts` for each, at ε/k. α is the exact tail of the largest of k draws.
- *session*: is each count above its threshold? α is `SessionTerms.accuracy`, of 1 and of 10 positive answers. All
  counts are α away from their thresholds, and as many above as may be.
- *local*: randomised response, once for all counts. α is `compare_with_central`'s.
- *gaussian*, stated alone: `counts` that cost a GDP account, all together, what the session costs it.

A cell has α in rows, α over the distance that is exceeded in a share of β, and the share of repeats beyond α.

Then a linear model of κ, fitted to rows of last year, is checked at three curators, each with a third of the other
rows. At the third κ has risen by `SHIFT` for each unit of λ. A session of one positive answer asks if the model misses
more of a group than a threshold, which follows from last year's rows, α and three standard deviations of sampling.
False is a yes about a number α or more below, missed a no about one α or more above. Beside it: the share of Grams that
tell a shift, as the 95 % interval of λ's coefficient does not hold last year's.

    python -m bench.thresholds [--repeats 2000] [--reports 100] [--sessions 300] [--releases 100] [--figure FILE]
"""

import argparse
import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations, count, product, starmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from analyst_client import AdaSSP, CuratorClient
from analyst_client.local import RandomizedResponse, Reports, answer_linear_queries, compare_with_central
from analyst_client.local.exact import SOURCE
from analyst_client.plots.style import NEUTRAL, ON_LIGHT, plain_ticks
from analyst_client.schema.sessions import SessionTerms
from analyst_client.terms import col
from bench.desk import MOMENT
from bench.run import OUTPUT
from bench.serving import open_population, serve
from curator_service.container import Curator
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.repository import Dataset
from curator_service.kinds.counts.schema import CountsRequest
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import GDP, PURE, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.parts import LaplacePart
from curator_service.privacy.samplers import Distribution, SystemNoise
from curator_service.privacy.thresholds import plan_session
from curator_service.releases.preparation import prepare
from curator_service.sessions.questions import STEP, question_sensitivity, read_question
from curator_service.sessions.schemas import QuestionRequest
from examples.flchain.cohort import BOUNDS, HERE, Split, clip, load_split

Floats = npt.NDArray[np.float64]
Rows = Mapping[str, npt.NDArray[Any]]
BETA, DELTA = 0.05, 1e-6
EPSILONS, QUESTIONS, SHOWN = (0.1, 0.3, 1.0), (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000), (1, 20, 200, 2000)
EPSILON, SHIFT, SIZE = 0.3, 0.25, 2_100
"""Of a session; what λ's coefficient has risen by; how many patients a hospital says that it has, about."""
BOUNDS_MG_DL = (0.5, 0.75, 1.0, 1.5)
GROUPS: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    "everybody": lambda of: of("age") >= 0,
    "women": lambda of: of("sex") == "F",
    "men": lambda of: of("sex") == "M",
    "below 70": lambda of: of("age") < 70,
    "from 70 on": lambda of: of("age") >= 70,
}
"""Conditions, of expressions as of arrays."""
GRAM_EPSILONS = (0.3, 1.0, 1.5, 2.0, 2.5, 3.0)


def read_rows(header: list[str], rows: list[list[str]]) -> Rows:
    """Return columns, cut to their declared bounds."""
    columns = {name: [row[header.index(name)] for row in rows] for name in (*BOUNDS, "sex")}
    numbers = {name: clip([float(text or "nan") for text in columns[name]], name) for name in BOUNDS}
    return numbers | {"sex": np.array(columns["sex"])}


# --- Stated and measured errors


@dataclass(frozen=True)
class Way:
    """A way to answer k questions: by k, α and the largest error of each repeat, in rows, and which are beyond α."""

    name: str
    stated: Mapping[int, float]
    errors: Mapping[int, Floats]
    beyond: Mapping[int, list[bool]] = field(default_factory=dict)

    def measured(self, k: int) -> float:
        """Return the distance that is exceeded in a share of β."""
        return float(np.quantile(self.errors[k], 1.0 - BETA))

    def cell(self, k: int) -> str:
        """Return a cell of the table."""
        beyond = np.mean(self.beyond.get(k, self.errors[k] > self.stated[k]))
        return f"{self.stated[k]:,.1f}, {self.stated[k] / self.measured(k):.2f}, {beyond:.4f}"


@cache
def dataset() -> Dataset:
    """Return the cohort as a dataset of a pure account."""
    manifest = Manifest.model_validate(tomllib.loads((HERE / "manifest.toml").read_text(encoding="utf-8")))
    return Dataset("flchain", "flchain", "olmsted", Adjacency.ADD_REMOVE, PURE, manifest, "", MOMENT, "", "")


def counts_scale(at: Dataset, mechanism: str, **price: float) -> int:
    """Return the scale of the noise of a count, in steps, as the curator plans it."""
    asked = {"kind": "counts", "tables": [{"axes": [{"column": "mgus"}]}], "mechanism": mechanism, "price": price}
    (part,) = prepare(KINDS, at, CountsRequest.model_validate(asked)).plan.parts
    return part.scale if isinstance(part, LaplacePart) else part.sigma


def draw(scale: int, *shape: int) -> Any:
    """Draw discrete Laplace noise as the curator does, in steps."""
    return SystemNoise().sample(Distribution.DISCRETE_LAPLACE, np.full(math.prod(shape), scale)).reshape(shape)


def tail(k: int) -> float:
    """Return how likely each of k errors exceeds α, where the largest does with β."""
    return -math.expm1(math.log1p(-BETA) / k)


def laplace_alpha(epsilon: float, k: int) -> float:
    """Return α of counts at ε/k: of discrete Laplace noise, P(|X| ≥ a) = 2pᵃ/(1 + p), p = exp(−1/scale)."""
    scale = counts_scale(dataset(), "laplace", epsilon=epsilon / k)
    return scale * math.log(2.0 / ((1.0 + math.exp(-1.0 / scale)) * tail(k))) / STEP


def gaussian_alpha(mu: float, k: int) -> float:
    """Return α of Gaussian counts that together cost µ."""
    sigma = counts_scale(replace(dataset(), accountant=GDP), "gaussian", mu=mu / math.sqrt(k))
    return sigma * float(norm.isf(tail(k) / 2.0)) / STEP


def by_laplace(epsilon: float, repeats: int) -> Way:
    """Measure counts."""
    scales = {k: counts_scale(dataset(), "laplace", epsilon=epsilon / k) for k in QUESTIONS}
    errors = {k: np.abs(draw(scale, repeats, k)).max(axis=1) / STEP for k, scale in scales.items()}
    return Way("laplace", {k: laplace_alpha(epsilon, k) for k in QUESTIONS}, errors)


def terms_of(epsilon: float, positives: int) -> SessionTerms:
    """Return the terms of a session of counts, with what it costs a GDP account."""
    price, sensitivity = Price(epsilon=epsilon), question_sensitivity(1)
    plan = plan_session(PURE, price, sensitivity=sensitivity, positives=positives, is_monotone=True)
    scales, cost = (plan.threshold_scale, plan.question_scale), GDP.spent(plan.cost(GDP), DELTA)
    return SessionTerms("", "", "above", positives, STEP, sensitivity, *scales, float(plan.epsilon), cost)  # type: ignore[arg-type]


def by_session(epsilon: float, positives: int, number: int, repeats: int) -> Way:
    """Measure sessions, and compare number and threshold as the curator does."""
    terms = terms_of(epsilon, positives)
    at, noises = draw(terms.threshold_scale, repeats), draw(terms.question_scale, repeats, max(QUESTIONS))
    stated = {k: terms.accuracy(k, BETA) for k in QUESTIONS}
    errors, beyond = dict[int, Floats](), dict[int, list[bool]]()
    opened: Any = SimpleNamespace(direction="above")
    for k, alpha in stated.items():
        above = min(positives, k // 2)
        lowest = noises[:, k - above : k].min(axis=1) if above else at
        highest = noises[:, : k - above].max(axis=1)  # of a no: where it stays one, all with less noise do
        errors[k] = np.maximum(highest - at, at - lowest) / STEP
        asked = [QuestionRequest(threshold=number + off) for off in (alpha, -alpha)]
        no, yes = (read_question(dataset(), opened, one, 1.0) for one in asked)
        drawn, sums = zip(highest.tolist(), lowest.tolist(), at.tolist(), strict=True), np.array([number * STEP])
        beyond[k] = [no.exceeds(sums, high, rho) or not yes.exceeds(sums, low, rho) for high, low, rho in drawn]
    return Way(f"session, c = {positives}", stated, errors, beyond)


def by_reports(epsilon: float, bits: npt.NDArray[np.bool_], queries: Floats, repeats: int) -> Way:
    """Measure randomised response."""
    question, truth, n = RandomizedResponse({"large": ["no", "yes"]}, epsilon=epsilon), queries @ bits, len(bits)
    worst = []
    for _ in range(repeats):
        answers = tuple(question.law.draw(int(bit), SOURCE) for bit in bits)
        reports = Reports(question, tuple(map(str, range(n))), answers)
        tables = [answer_linear_queries(reports, part) for part in np.array_split(queries, 16)]
        values = np.array([one.value for table in tables for one in table.estimates])
        worst.append(np.maximum.accumulate(np.abs(values - truth)))
    stated = {k: n * compare_with_central(n, k, epsilon, level=1.0 - BETA).local_error for k in QUESTIONS}
    return Way("local", stated, {k: np.array(worst)[:, k - 1] for k in QUESTIONS})


def subgroups(rows: Rows) -> Floats:
    """Return weights of persons in subgroups of an age and a sex, everybody first, of shape (k, n)."""
    spans = list(product(combinations(range(50, 101), 2), ("F", "M", "FM")))
    order = np.random.default_rng(2012).permutation(len(spans))[: max(QUESTIONS) - 1]
    chosen = [((50, 100), "FM"), *(spans[i] for i in order)]
    age, sex = rows["age"], {who: np.isin(rows["sex"], [*who]) for who in ("F", "M", "FM")}
    return np.array([(age >= low) & (age <= high) & sex[who] for (low, high), who in chosen], np.float64)


def measure_errors(repeats: int, reports: int, path: Path) -> None:
    """Print tables of stated and measured errors, and draw their figure."""
    split = load_split()
    rows = read_rows(split.header, split.registered + split.held_out)
    bits, queries, starts = rows["kappa"] > 2.0, subgroups(rows), []
    errors = (f"{math.sqrt(BETA * (1.0 - BETA) / number):.4f}" for number in (repeats, reports))
    print(f"{len(bits):,} persons; a share of {BETA} has a standard error of {', of local '.join(errors)}\n")
    print("| ε | way | " + " | ".join(f"k = {k:,}" for k in SHOWN) + " |\n| ---: | --- |" + " ---: |" * len(SHOWN))
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    grid = figure.subplots(1, len(EPSILONS), sharey=True)
    for epsilon, axes in zip(EPSILONS, grid, strict=True):
        sessions = [by_session(epsilon, positives, len(bits), repeats) for positives in (1, 10)]
        ways = [by_laplace(epsilon, repeats), *sessions, by_reports(epsilon, bits, queries, reports)]
        for way in ways:
            print(f"| {epsilon:g} | {way.name} | " + " | ".join(map(way.cell, SHOWN)) + " |", flush=True)
        terms = terms_of(epsilon, 1)
        others = partial(laplace_alpha, epsilon), partial(gaussian_alpha, terms.cost.mu or 0.0)
        found = [next(k for k in count(1) if terms.accuracy(k, BETA) < alpha(k)) for alpha in others]
        found.append(compare_with_central(len(bits), 1, epsilon, level=1.0 - BETA).local_from or 0)
        starts.append(f"| {epsilon:g} | " + " | ".join(f"from k = {k}" for k in found) + " |")
        draw_panel(axes, epsilon, ways, [others[1](k) for k in QUESTIONS], (found[0], found[2]))
    print("\n| ε | session below laplace | session below gaussian | local below laplace |\n|" + " ---: |" * 4)
    print("\n".join(starts))
    grid[0].set_ylabel(f"α in rows, β = {BETA}; points: measured")
    plain_ticks(grid[0].yaxis, 1, 1e5)
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def draw_panel(axes: Axes, epsilon: float, ways: list[Way], gaussian: list[float], starts: tuple[int, int]) -> None:
    """Draw α by the number of questions, measured distances as points, and where Laplace noise is passed."""
    for way, color in zip(ways, ON_LIGHT, strict=False):
        axes.plot(*zip(*way.stated.items(), strict=True), color=color, label=way.name)
        axes.plot(QUESTIONS, [way.measured(k) for k in QUESTIONS], ".", color=color)
    axes.plot(QUESTIONS, gaussian, "--", color=NEUTRAL, linewidth=1, label="gaussian")
    for k in starts:
        at = (k, laplace_alpha(epsilon, k))
        axes.plot(*at, "o", markersize=9, markerfacecolor="none", color="black", markeredgewidth=0.8)
        axes.annotate(f"{k}", at, (-5, 6), textcoords="offset points", ha="right", fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel="questions", title=f"ε = {epsilon:g}")
    axes.spines[["top", "right"]].set_visible(False)
    plain_ticks(axes.xaxis, 1, 2000)


# --- Last year's model at three hospitals


def missing(rows: Rows, theta: Floats, group: str, bound: float) -> Any:
    """Return who is further from last year's prediction than a bound."""
    predicted = theta[0] + theta[1] * rows["age"] + theta[2] * rows["lambda"]
    return (np.abs(rows["kappa"] - predicted) > bound) & GROUPS[group](rows.__getitem__)


def threshold_of(past: Rows, theta: Floats, group: str, bound: float, alpha: float) -> float:
    """Fix a threshold by last year's rows, before anything is asked."""
    is_missed = missing(past, theta, group, bound)
    share = float(np.mean(is_missed))
    sampling = math.sqrt(share * (1.0 - share) * (SIZE + SIZE**2 / len(is_missed)))
    return math.ceil(SIZE * share + alpha + 3.0 * sampling)


@contextmanager
def open_hospital(split: Split) -> Iterator[CuratorClient]:
    """Serve a curator of these rows, whose passes end when they are done, nearly."""

    def set_up(curator: Curator, folder: Path) -> None:
        split.write_registered(folder / "rows.csv")
        open_population(curator, "olmsted", Price(mu=900.0))
        curator.datasets.register(HERE / "manifest.toml", folder / "rows.csv", actor="bench")

    os.environ["CURATOR_PACE"] = str(2.0**-10)
    with (
        serve(set_up, app="curator_service.app:create_app") as server,
        CuratorClient(f"http://127.0.0.1:{server.port}", server.analyst("flchain"), memory=None) as client,
    ):
        yield client


def ask_all(client: CuratorClient, checks: list[tuple[str, float, float]], theta: Floats) -> list[bool]:
    """Ask in one session, until a yes; return the answers."""
    intercept, slopes = float(theta[0]), {"age": float(theta[1]), "lambda": float(theta[2])}
    with client.threshold_session("flchain", positives=1, epsilon=EPSILON) as session:
        for group, bound, threshold in checks:
            weight = None if group == "everybody" else 1.0 - ~GROUPS[group](col)
            if session.misses("kappa", slopes, intercept=intercept, bound=bound, threshold=threshold, weight=weight):
                break
    return [one.is_positive for one in session.answers]


def gram_line(client: CuratorClient, place: int, old: float, releases: int, mechanism: str) -> str:
    """Return a line of the share of releases in which the interval of λ's coefficient does not hold the old one."""
    price: dict[str, Any] = {"delta": DELTA} if mechanism == "gaussian" else {"mechanism": "laplace"}
    asked: dict[str, Any] = {"target": "kappa", "fresh": True, "even_so": True, **price}
    cells = []
    for epsilon in GRAM_EPSILONS:
        bought: Any = [client.release("flchain", ["age", "lambda"], epsilon=epsilon, **asked) for _ in range(releases)]
        ends = [AdaSSP().fit(one).conf_int()[-1] for one in bought]
        cells.append(f"{np.mean([not low <= old <= high for low, high in ends]):.2f}, µ {bought[0].cost.mu:.2f}")
    return f"| {place} | {mechanism} | " + " | ".join(cells) + " |"


def measure_hospitals(sessions: int, releases: int) -> None:
    """Print what sessions told, and what Grams would."""
    split = load_split()
    past = read_rows(split.header, split.held_out)
    X = np.column_stack([np.ones(len(past["age"])), past["age"], past["lambda"]])
    theta = np.linalg.lstsq(X, past["kappa"], rcond=None)[0]
    thirds = [[list(row) for row in split.registered[i::3]] for i in range(3)]
    kappa, light = split.header.index("kappa"), split.header.index("lambda")
    for row in thirds[2]:
        row[kappa] = repr(float(row[kappa]) + SHIFT * float(row[light]))
    terms: Any = terms_of(EPSILON, 1)
    alpha = terms.accuracy(len(GROUPS) * len(BOUNDS_MG_DL), BETA)
    checks = [(g, b, threshold_of(past, theta, g, b, alpha)) for g in GROUPS for b in BOUNDS_MG_DL]
    print(f"\n{len(checks)} questions, ε = {EPSILON}, µ {terms.cost.mu:.2f}, α = {alpha:.1f}; {sessions} sessions;")
    print(f"a share of {BETA} has a standard error of {math.sqrt(BETA * (1.0 - BETA) / sessions):.3f}\n")
    print("| hospital | patients | furthest above a threshold | a yes | false | missed |\n|" + " ---: |" * 6)
    lines = []
    for place, rows in enumerate(thirds, 1):
        held = read_rows(split.header, rows)
        away = [int(missing(held, theta, group, bound).sum()) - threshold for group, bound, threshold in checks]
        with open_hospital(Split(split.header, rows, [])) as client:
            told = [list(zip(ask_all(client, checks, theta), away, strict=False)) for _ in range(sessions)]
            lines += [gram_line(client, place, theta[2], releases, name) for name in ("gaussian", "laplace")]
        rules = (lambda yes, _: yes, lambda yes, off: yes and off <= -alpha, lambda yes, off: not yes and off >= alpha)
        shares = " | ".join(f"{np.mean([any(starmap(rule, one)) for one in told]):.3f}" for rule in rules)
        print(f"| {place} | {len(rows):,} | {max(away):.0f} | {shares} |", flush=True)
    print(f"\nA Gram of age and λ, {releases} releases: share that tells a shift, and cost\n")
    print("| hospital | noise | " + " | ".join(f"ε = {e:g}" for e in GRAM_EPSILONS) + " |")
    print("| --- | --- |" + " ---: |" * len(GRAM_EPSILONS) + "\n" + "\n".join(lines))


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, number in (("--repeats", 2000), ("--reports", 100), ("--sessions", 300), ("--releases", 100)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--figure", type=Path, default=OUTPUT / "thresholds.png")
    options = parser.parse_args()
    measure_errors(options.repeats, options.reports, options.figure)
    measure_hospitals(options.sessions, options.releases)


if __name__ == "__main__":
    main()
