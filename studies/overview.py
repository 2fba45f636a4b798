"""The classifiers of an overview of privacy methods: as it programs them, and as they are private.

Source: the overview of `local_sgd`. Its Algorithms 3 to 5 are gradient descent without privacy, with clipping and
normal noise (DPSGD), and with an ℓ∞ sampler (LPSGD). Its section 8.3 states numbers of a logistic regression: sex by
height and weight. Rows are made up here, of two normal laws; 4,900 train, 70 % of its 7,000.

- *As printed*: its appendix. Inches and pounds, no constant, 10,000 lots of a hundredth of the rows, steps of 1e-5.
  DPSGD clips the mean of a lot, and its noise has the deviation σ²C². LPSGD takes 50 steps (it states no number) of
  length α along a view of the mean gradient of all rows.
- *Central*: every person's gradient is clipped to 1 on public bounds, and normal noise makes 100 steps over all rows
  µ-private together, by µ = √100 · 2/(n · deviation), where one person is replaced.
- *Local*: each person answers once, through `analyst_client.local`, at the coefficients that were reached.

Accuracy is at the best boundary on rows for testing, as there. The error is the largest difference of a raw coefficient
between a fit to a third of the rows and the fit to all. Prints Markdown.

    python -m studies.overview [--repeats 10] [--figure studies/images/overview.png]
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.special import expit

from analyst_client.local import GradientDescent, Reports
from analyst_client.planning.prices import epsilon_of, gdp_delta, number_of
from studies.common import Panel, draw_panels, parser_of, print_table
from studies.local_sgd import PRINTED_STEPS, brief
from studies.metrics import Floats, Proportion

WOMEN, MEN = ((63.7, 135.9), (2.7, 19.0)), ((69.0, 187.0), (2.9, 19.8))
"""Means and spreads of height in inches and weight in pounds."""
CORRELATION = 0.85
BOUNDS = {"height": (54, 80), "weight": (80, 270), "male": (0, 1)}
LOW, HIGH = np.array([54.0, 80.0]), np.array([80.0, 270.0])
PEOPLE, TESTED, FALSE_POSITIVES = (490, 1_470, 4_900, 49_000), 20_000, 0.08
SHARE, STEPS, RATE, CLIP = 0.01, 10_000, 1e-5, 51.05
PRIVACY = ((0.05, 0.1), (0.2, 1e-4))
LOCAL_STEPS, LOCAL_LENGTH, CHAINS = 35, 10.0, 2
CENTRAL_STEPS, CENTRAL_LENGTH = 100, 100.0
Fit = Callable[[Floats, Floats, np.random.Generator], Floats]


def bodies(generator: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Draw heights and weights, and who is a man."""
    male = generator.random(count) < 0.5
    normal = generator.standard_normal((count, 2))
    normal[:, 1] = CORRELATION * normal[:, 0] + math.sqrt(1.0 - CORRELATION**2) * normal[:, 1]
    mean, spread = (np.where(male[:, np.newaxis], *pair) for pair in zip(MEN, WOMEN, strict=True))
    return mean + spread * normal, male.astype(np.float64)


def climb(x: Floats, y: Floats, generator: np.random.Generator, *, sigma: float = 0.0) -> Floats:
    """Fit by Algorithm 3, or 4 with its noise, as printed."""
    theta, lot, deviation = np.zeros(2), max(1, int(SHARE * len(y))), sigma**2 * CLIP**2
    for _ in range(STEPS):
        rows = generator.integers(0, len(y), lot)
        gradient = (y[rows] - expit(x[rows] @ theta)) @ x[rows] / lot
        if sigma:
            clipped = gradient / max(1.0, float(np.linalg.norm(gradient)) / CLIP)
            gradient = clipped + deviation * generator.standard_normal(2)
        theta = theta + RATE * gradient
    return theta


def climb_locally(x: Floats, y: Floats, generator: np.random.Generator, *, alpha: float) -> Floats:
    """Fit by Algorithm 5 as printed: the mean gradient of all rows through a sampler of the solid square.

    Its r is read off that gradient. In two dimensions its C is 1/3, and its bound is B = 2 r / (C tanh(α/2)).
    """
    theta = np.zeros(2)
    for _ in range(PRINTED_STEPS):
        gradient = (y - expit(x @ theta)) @ x / len(y)
        bound = float(np.abs(gradient).max())
        corner = np.where(generator.random(2) < 0.5 + gradient / (2.0 * bound), 1.0, -1.0)
        drawn = generator.uniform(-1.0, 1.0, 2) * 6.0 * bound / math.tanh(alpha / 2.0)
        theta = theta + alpha * (drawn if (drawn @ corner >= 0.0) == (generator.random() < expit(alpha)) else -drawn)
    return theta


def descend_centrally(x: Floats, y: Floats, generator: np.random.Generator, *, mu: float) -> Floats:
    """Fit with every person's gradient clipped to 1, and noise for µ over all steps: a curator that sees the rows."""
    half = (HIGH - LOW) / 2.0
    scaled = np.column_stack([np.ones(len(y)), np.clip((x - LOW) / half - 1.0, -1.0, 1.0)])
    lengths, theta, kept = np.linalg.norm(scaled, axis=1), np.zeros(3), []
    deviation = math.sqrt(CENTRAL_STEPS) * 2.0 / (len(y) * mu)
    for t in range(1, CENTRAL_STEPS + 1):
        residual = expit(scaled @ theta) - y
        clipped = residual / np.maximum(1.0, np.abs(residual) * lengths)
        gradient = clipped @ scaled / len(y) + deviation * generator.standard_normal(3)
        theta = theta - CENTRAL_LENGTH / math.sqrt(t) * gradient
        kept.append(theta)
    return np.asarray(np.mean(kept[CENTRAL_STEPS // 2 :], axis=0)[1:] / half)


def descend_locally(x: Floats, y: Floats, generator: np.random.Generator, *, epsilon: float) -> Floats:
    """Fit by reports of the people, each asked once."""
    descent = GradientDescent(
        BOUNDS, "male", epsilon=epsilon, loss="logistic", steps=LOCAL_STEPS, chains=CHAINS, step_length=LOCAL_LENGTH
    )
    groups = iter(np.array_split(generator.permutation(len(y)), LOCAL_STEPS * CHAINS))
    while descent.done < descent.steps:
        reports = []
        for question in descent.questions:
            people = next(groups)
            records = np.column_stack([x[people], y[people]]).tolist()
            answers = [question.report(dict(zip(BOUNDS, record, strict=True))) for record in records]
            reports.append(Reports.collect(question, answers))
        descent.step(reports)
    return np.array([one.value for one in descent.estimate().estimates[1:]])


def judge(scores: Floats, y: Floats) -> Floats:
    """Return accuracy at the best boundary, area under the curve, and positives found at 8 % false ones."""
    order = np.argsort(-scores, kind="stable")
    found = np.append(0.0, np.cumsum(y[order])) / y.sum()
    false = np.append(0.0, np.cumsum(1.0 - y[order])) / (1.0 - y).sum()
    accuracy = np.max(y.mean() * found + (1.0 - y.mean()) * (1.0 - false))
    return np.array([accuracy, np.trapezoid(found, false), found[false <= FALSE_POSITIVES][-1]])


def log_odds(x: Floats) -> Floats:
    """Return the log odds of a man by the laws that rows are drawn from: no rule does better."""
    logs = []
    for mean, spread in (MEN, WOMEN):
        a, b = ((x - mean) / spread).T
        squares = (a**2 - 2.0 * CORRELATION * a * b + b**2) / (1.0 - CORRELATION**2)
        logs.append(-squares / 2.0 - math.log(spread[0] * spread[1]))
    return np.asarray(logs[0] - logs[1])


# Each fit, and what the overview states of it: accuracy, area, positives found, error.
MODELS: dict[str, tuple[Fit, tuple[str, str, str, str]]] = {
    "no privacy, as printed": (climb, ("", "", "", "")),
    "DPSGD as printed, σ = 0.05": (partial(climb, sigma=0.05), ("94%", "75%", "> 90%", "< 5e-02")),
    "DPSGD as printed, σ = 0.2": (partial(climb, sigma=0.2), ("91%", "69%", "", "")),
    "LPSGD as printed, α = 1": (partial(climb_locally, alpha=1.0), ("", "", "> 90% at 10%", "")),
    "LPSGD as printed, α = 0.5": (partial(climb_locally, alpha=0.5), ("", "35%", "", "")),
    "central, ε = 1": (partial(descend_centrally, mu=number_of(gdp_delta, 1.0, 1e-6)), ("", "", "", "")),
    "central, ε = 0.1": (partial(descend_centrally, mu=number_of(gdp_delta, 0.1, 1e-6)), ("", "", "", "")),
    "local, ε = 1": (partial(descend_locally, epsilon=1.0), ("", "", "", "")),
    "local, ε = 0.5": (partial(descend_locally, epsilon=0.5), ("", "", "", "")),
}


def promised(sigma: float, delta: float) -> list[float]:
    """Return ε of DPSGD by the overview's formula, of its algorithm as written, and of its program as printed.

    The last two compose the lots that hold a person, a hundred on average. The mean of a lot moves by 2 ‖x‖/L at most,
    for people within the bounds: the clip is longer than that, and bounds nothing.

    Examples
    --------
    >>> [round(promised(sigma, delta)[0], 2) for sigma, delta in ((0.05, 0.1), (0.2, 1e-4))]
    [15.67, 8.09]
    """
    by_formula = (SHARE**2 * STEPS + SHARE * math.sqrt(STEPS * math.log(1.0 / delta)) / sigma) / 2.0
    moved = 2.0 * float(np.linalg.norm(HIGH)) / int(SHARE * PEOPLE[2])
    mus = [math.sqrt(SHARE * STEPS) * moved / deviation for deviation in (sigma * CLIP, sigma**2 * CLIP**2)]
    return [by_formula, *(epsilon_of(gdp_delta, mu, delta) for mu in mus)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = parser_of(__doc__, "overview.png", reads=False)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args(arguments)
    (x_test, y_test), whole = bodies(np.random.default_rng(0), TESTED), PEOPLE[2]
    series: dict[str, dict[float, Proportion]] = {}
    lines = [("the best rule", "", "", "", "", *(f"{one:.1%}" for one in judge(log_odds(x_test), y_test)), "")]
    for name, (fit, stated) in MODELS.items():
        judged, errors = [], []
        for seed in range(options.repeats):
            x, y = bodies(np.random.default_rng([seed, 1]), max(PEOPLE))
            generator = np.random.default_rng([seed, 2])
            fits = {n: fit(x[:n], y[:n], generator) for n in (*PEOPLE, whole // 3)}
            errors.append(float(np.abs(fits[whole // 3] - fits[whole]).max()))
            judged.append([judge(x_test @ fits[n], y_test) for n in PEOPLE])
        by_rows = np.array(judged)
        series[name] = {float(n): Proportion.of(by_rows[:, k, 0]) for k, n in enumerate(PEOPLE)}
        means = (f"{one:.1%}" for one in by_rows[:, 2].mean(axis=0))
        lines.append((name, *stated, *means, brief(Proportion.of(errors))))
    parts = ("accuracy", "area", "found", "error")
    print_table(["model"], [f"{who} {part}" for who in ("stated", "our") for part in parts], lines)
    shown = ((name, *(f"{one.value:.1%} ± {one.error:.1%}" for one in row.values())) for name, row in series.items())
    print_table(["accuracy by rows"], [f"{n:,}" for n in PEOPLE], shown)
    kinds = ((*model, *(f"{one:.2f}".replace("inf", "> 1000") for one in promised(*model))) for model in PRIVACY)
    print_table([], ["σ", "δ", "ε by the formula", "as written", "as printed"], kinds)
    halves = [{name: row for name, row in series.items() if ("printed" in name) is of} for of in (True, False)]
    titles = zip(("as printed", "private"), halves, strict=True)
    panels = [Panel(title, "rows", "accuracy", half, {}, (True, False), (0.45, 0.95)) for title, half in titles]
    draw_panels(options.figure, panels, columns=2)


if __name__ == "__main__":
    main()
