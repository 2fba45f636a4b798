"""The quote of a refinement: its steps, how long they take, and the accuracy to expect."""

import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, Note, View, facts, join, number, quiet, strong, table, untrusted
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import Fit
from analyst_client.estimators.logistic import LogisticRegression
from analyst_client.estimators.poisson import PoissonRegression
from analyst_client.estimators.refined import RefinedRegression
from analyst_client.inference.quantiles import student_quantile
from analyst_client.inference.units import raw_units
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.buying import Refining, check_space
from analyst_client.refinement.family import LOSSES
from analyst_client.refinement.practice import CORRELATION, EXPLAINED, Practice, Step, residuals
from analyst_client.schema.amounts import Cost, write_cost
from analyst_client.schema.columns import Term
from analyst_client.schema.quotes import write_space

FITS: dict[str, type[Fit]] = {
    "gaussian": RefinedRegression,
    "binomial": LogisticRegression,
    "poisson": PoissonRegression,
}
"""Estimators of a refinement, by family."""
UNITS = {
    "gaussian": "in standard deviations of the target",
    "binomial": "in log odds",
    "poisson": "in the logarithm of the mean",
}
"""Units of half lengths for a change by one standard deviation of a term, by family."""
N_MU_SURE = 10.0
"""Rows by µ over terms^1.5 from which on nearly all fits have intervals with ends."""
_ROUNDS = 30
"""Steps of Newton's method, of which a likelihood of made-up rows needs some five."""


@dataclass(frozen=True, eq=False, repr=False)
class RefinementQuote(Displayable):
    """Steps of a refinement, its cost, and the accuracy to expect of it. Free: no row was read.

    Attributes
    ----------
    dataset, target, family : str
    cost : Cost
        Of all steps together.
    affordable : bool
        Whether the budget would suffice now.
    rows : float
        Number that is public, or that is guessed.
    n_mu : float
        Rows by the price µ, over the number of terms to the power of 1.5: from 3 on intervals may have ends.
    steps : tuple of Step
        Requests as they are expected. Which they are in the end follows from what is bought.
    terms : tuple of str
        Names of the D' terms beside the constant, without an offset.
    half_lengths, without_privacy : ndarray of shape (D',)
        Half of a 95 % interval for a change by one standard deviation of the term, expected of the refinement and
        without privacy: in standard deviations of the target, or on the scale of the link. Infinite without an end.
    useless : tuple of str
        Reasons for which no slope would be told, by public numbers: `CuratorClient.refine` refuses the call, unless
        ``even_so=True``.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client, features = recorded_client("one_call"), ["age", "sex", "creatinine"]
    >>> quote = client.quote_refinement("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
    >>> len(quote.steps), dict(zip(quote.terms, quote.half_lengths.round(3).tolist()))
    (12, {'age': 0.03, 'sex[M]': 0.03, 'creatinine': 0.029})
    """

    dataset: str
    target: str
    family: str
    cost: Cost
    affordable: bool
    rows: float
    n_mu: float
    steps: tuple[Step, ...]
    terms: tuple[str, ...]
    half_lengths: FloatArray
    without_privacy: FloatArray
    useless: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Public times of all steps together, in seconds."""
        return sum(step.duration_s for step in self.steps)

    def __repr__(self) -> str:
        """Show what is asked, and its cost."""
        cost = f"epsilon={number(self.cost.epsilon)}, delta={number(self.cost.delta)}"
        return f"<RefinementQuote of {self.target!r}: {len(self.steps)} steps, {cost}>"

    def _view(self) -> View:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(step.kind for step in self.steps).items())
        stated: list[tuple[Inline, Inline]] = [
            ("cost", write_cost(self.cost)),
            ("affordable", "yes" if self.affordable else strong("no")),
            ("steps", f"{len(self.steps)}: {kinds}"),
            ("takes", f"{number(self.duration_s)} s of public times, and what the line takes"),
            ("space for answers", self._space()),
            ("rows assumed", f"{self.rows:,.0f}"),
            ("rows by µ / terms^1.5", number(self.n_mu)),
        ]
        rows = [
            (untrusted(name), number(half), number(plain), "–" if np.isinf(half) else f"{half / plain:.2f}")
            for name, half, plain in zip(self.terms, self.half_lengths, self.without_privacy, strict=True)
        ]
        caption = join("Half of a 95 % interval ", quiet(f"({UNITS[self.family]}, per standard deviation of the term)"))
        heads = ("term", "expected", "without privacy", "times as long")
        title = join("Refinement of ", untrusted(self.target), quiet(" of ", untrusted(self.dataset)))
        notes = [Note(quiet(note)) for note in self.notes]
        return (facts(title, stated), table(caption, heads, rows, numeric=(1, 2, 3)), *notes)

    def _space(self) -> Inline:
        return write_space(sum(step.answer_bytes for step in self.steps), self.steps[0].answer_bytes_left)

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions behind the accuracy, and warnings, in sentences."""
        notes = [
            f"Expected of {self.rows:,.0f} made-up rows: normal columns with correlations of {CORRELATION:g}, of which "
            f"the target is explained by {EXPLAINED:.0%}. Nothing is known of the curator's rows: long tails, and "
            "columns that others nearly add up to, are told less."
        ]
        if np.isinf(self.half_lengths).all():
            notes.append("At this price no interval is expected to have an end.")
        elif self.n_mu < N_MU_SURE:
            notes.append(
                f"Rows by µ over terms^1.5 are below {N_MU_SURE:g}: noise leaves many fits without ends of intervals."
            )
        if not self.affordable:
            notes.append(
                "Amounts that you hold count as spent here: a call that was interrupted goes on with its own "
                "(client.reservations() lists them)."
            )
        notes += [f"This tells nothing: {reason}." for reason in self.useless]
        if self.steps[0].is_free:
            notes.append("The first step was bought before: where all steps were, the call costs nothing.")
        return tuple(notes)


def quote_refinement(refining: Refining) -> RefinementQuote:
    """Practise a refinement, and say what to expect of it.

    Parameters
    ----------
    refining : Refining

    Returns
    -------
    RefinementQuote

    Raises
    ------
    ValueError
        When the model is larger than a refinement can be.
    CuratorError
        When the curator would refuse a step.
    """
    practice, problem, quote = refining.practise(), refining.problem, refining.quote
    check_space(practice.steps)
    terms, offset = quote.in_order((problem.order, quote.target_names)).terms, problem.offset
    free = [term for term in terms if offset is None or term.column != offset.name]
    names = tuple(term.name for term in free if term.kind != "constant")
    half_lengths, plain = expected_half_lengths(practice, problem.family, len(names))
    return RefinementQuote(
        quote.dataset,
        problem.target.name,
        problem.family,
        quote.cost,
        quote.affordable,
        problem.rows,
        problem.rows * problem.mu / len(free) ** 1.5,
        practice.steps,
        names,
        half_lengths,
        plain,
        refining.useless,
    )


def expected_half_lengths(practice: Practice, family: str, count: int) -> tuple[FloatArray, FloatArray]:
    """Return half lengths of intervals on made-up rows, by refinement and without privacy; see `RefinementQuote`.

    Parameters
    ----------
    practice : Practice
    family : str
    count : int
        D'.

    Returns
    -------
    half_lengths, without_privacy : ndarray of shape (D',)
        Infinite, and not a number, where no slopes were bought.
    """
    unbounded, unknown = np.full(count, np.inf), np.full(count, np.nan)
    refinement = practice.refinement
    if refinement is None or refinement.found.frame is None:
        return unbounded, unknown
    frame, scores = refinement.found.frame, [one for one in refinement.releases if isinstance(one, ScoreRelease)]
    terms, last = frame.terms, next(one for one in reversed(scores) if one.target.name == frame.target.name)
    x, y = practice.rows.design(last.columns, terms), practice.rows.target(last.columns, last.target)
    start = np.zeros(len(terms)) if refinement.found.theta is None else frame.to_terms(refinement.found.theta)
    free = count + 1  # an offset stands last, and its coefficient is known
    covariance = _without_privacy(x, y, last.target, family, start, free)
    spread = float(y.std()) if family == "gaussian" else 1.0
    covariance /= practice.rows.weight
    quantile = abs(student_quantile(0.025, practice.rows.weight * len(y)))
    L = raw_units(terms[:free], last.target if family == "gaussian" else Term("index", "numeric"), None)[0]
    raw = quantile * np.sqrt(np.diag(L @ covariance @ L.T))[1:]
    plain = quantile * np.sqrt(np.diag(covariance))[1:] * x[:, :free].std(axis=0)[1:] / spread
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimationWarning)
            low, high = FITS[family]().fit(refinement).conf_int()[1:].T
    except (EstimationError, np.linalg.LinAlgError):  # the price bought too little for them
        return unbounded, plain
    return np.asarray((high - low) / 2.0 / raw * plain), plain


def _without_privacy(
    x: FloatArray, y: FloatArray, target: Term, family: str, theta: FloatArray, free: int
) -> FloatArray:
    """Return the covariance of the first coefficients of scaled terms, fitted on rows that everybody may see.

    It begins at what the refinement found: Newton's method of counts diverges from far away.
    """
    n, given = len(y), x[:, free:] @ theta[free:]
    x, theta = x[:, :free], theta[:free]
    for _ in range(_ROUNDS):
        eta = x @ theta + given
        r = residuals(LOSSES[family], y, eta, target)
        inverse = np.linalg.pinv((x * _slopes(family, eta, target)[:, np.newaxis]).T @ x, hermitian=True)
        theta = theta + inverse @ (x.T @ r)
    half = x * r[:, np.newaxis]
    if family == "gaussian":
        return np.asarray(inverse * float(r @ r) / (n - x.shape[1]))
    return np.asarray(inverse @ (half.T @ half) @ inverse)


def _slopes(family: str, eta: FloatArray, target: Term) -> FloatArray:
    """Return how fast residuals of a loss fall with the index."""
    h = 1e-4
    zero = np.zeros_like(eta)
    fall = residuals(LOSSES[family], zero, eta - h, target) - residuals(LOSSES[family], zero, eta + h, target)
    return np.asarray(fall / (2.0 * h))
