"""The choice among ways: by public numbers, what is already paid first; shown before anything is charged."""

import math
import sys
from dataclasses import dataclass, replace

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import (
    Inline,
    Note,
    View,
    code,
    facts,
    join,
    number,
    quiet,
    strong,
    table,
    untrusted,
)
from analyst_client.errors import NotConfirmedError, UselessRequestError
from analyst_client.fitting.question import Question
from analyst_client.fitting.ways import Way, buys_nothing, find_ways
from analyst_client.inference.summary import CALL
from analyst_client.planning.refining import UNITS
from analyst_client.refinement.progress import find_notebook
from analyst_client.schema.amounts import write_cost

PAID_FIRST = 1.5
"""By how much longer intervals of what is already paid may be than those of the best purchase."""


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Displayable):
    """The ways to a fit, the one that is taken first, and why.

    Attributes
    ----------
    model, data : str
    family : str
        With the reason for it.
    rows : float
        Public, stated or guessed.
    ways : tuple of Way
        By what they should tell; the first is taken.
    refused : tuple of str
        Other ways, and why they are none.
    """

    model: str
    data: str
    family: str
    rows: float
    ways: tuple[Way, ...]
    refused: tuple[str, ...] = ()

    @property
    def taken(self) -> Way:
        """The way that is taken."""
        return self.ways[0]

    @property
    def call(self) -> str:
        """Python that does the same."""
        return self.taken.call

    @property
    def is_free(self) -> bool:
        """True if nothing is charged."""
        return self.taken.cost is None

    @property
    def reason(self) -> str:
        """One sentence: why this way, and what the next one would have told."""
        taken, *others = self.ways
        paid = ", which is paid already" if self.is_free else ""
        told = f"Taken: {_kind(taken)}{paid}. Its intervals should be {_length(taken)}"
        return f"{told}; those of {_kind(others[0])}, {_length(others[0])}." if others else f"{told}."

    def __repr__(self) -> str:
        """Show what is taken."""
        return f"<Choice of {_kind(self.taken)} for {self.model!r}>"

    def forget(self) -> "Choice":
        """Return it without what buys: a record."""
        return replace(self, ways=tuple(map(_forget, self.ways)))

    def _view(self) -> View:
        places = self.taken.places or {"": self.taken}
        costs: list[tuple[Inline, Inline]] = [
            (untrusted(f"cost at {name}" if name else "cost"), _cost(way)) for name, way in places.items()
        ]
        stated: list[tuple[Inline, Inline]] = [
            ("family", untrusted(self.family)),
            *costs,
            ("rows assumed", f"{self.rows:,.0f}"),
            (CALL, code(self.call)),
        ]
        if not self.taken.affordable:
            short = [name for name, way in self.taken.places.items() if not way.affordable]
            said = untrusted(f"not at {', '.join(short)}") if short else "no"
            stated.insert(1 + len(costs), ("affordable", strong(said)))
        rows = [
            (
                strong(way.name) if way is self.taken else way.name,
                untrusted(_price(way)),
                "no end" if math.isinf(way.half_length) else f"{way.half_length:.3g}",
                "–" if math.isinf(way.expected) else f"{way.expected:.2f}",
                f"{number(way.duration_s)} s",
            )
            for way in self.ways
        ]
        heads = ("way", "price", "±", "times", "takes")
        unit = UNITS[self.family.partition(",")[0]]
        caption = join(
            "What it should tell ",
            quiet(f"(± {unit} for one deviation of a term; times as long as without privacy)"),
        )
        notes = [Note(self.reason), *(Note(quiet("No way: ", untrusted(one), ".")) for one in self.refused)]
        title = join(untrusted(self.model), quiet(" of ", untrusted(self.data)))
        return (facts(title, stated), table(caption, heads, rows, numeric=(1, 2, 3, 4)), *notes)


def _cost(way: Way) -> Inline:
    return "nothing: it is paid already" if way.cost is None else write_cost(way.cost)


def _price(way: Way) -> str:
    """Return the price of a way; of several hospitals with those that charge it."""
    charged: dict[str, list[str]] = {}
    for name, own in (way.places or {"": way}).items():
        charged.setdefault("paid" if own.cost is None else f"ε = {number(own.cost.epsilon)}", []).append(name)
    if len(charged) > 1:
        return "; ".join(f"{price} at {', '.join(names)}" for price, names in charged.items())
    return f"{next(iter(charged))} at each" if way.places else next(iter(charged))


def _forget(way: Way) -> Way:
    return replace(way, buy=buys_nothing, places={name: _forget(one) for name, one in way.places.items()})


def _kind(way: Way) -> str:
    return way.name.partition(",")[0]


def _length(way: Way) -> str:
    return "without ends" if math.isinf(way.expected) else f"{way.expected:.2f} times as long as without privacy"


def choose(question: Question, *, even_so: bool = False) -> Choice:
    """Find the ways, and put the one first that is taken.

    What is paid already is taken where it should tell nearly as much as the best purchase.

    Raises
    ------
    UselessRequestError
        When each way would tell nothing, by public numbers.
    ValueError
        When there is no way.
    """
    _ = question.quote  # a fault of the model itself is told by its own error
    family, why = question.family
    ways, refused = find_ways(question)
    found = Choice(question.text, question.data, f"{family}, {why}", question.rows, tuple(ways), tuple(refused))
    return rank(found, even_so=even_so)


def rank(found: Choice, *, even_so: bool) -> Choice:
    """Put the way first that is taken. Raise as `choose`."""
    ways, refused = found.ways, found.refused
    if not ways:
        raise ValueError("there is no way to this fit: " + "; ".join(refused))
    useful = [way for way in ways if not way.useless]
    if not useful and not even_so:
        raise UselessRequestError(tuple(dict.fromkeys(reason for way in ways for reason in way.useless)))
    best = min(ways, key=lambda way: way.rank)
    paid = [way for way in useful if way.begun and way.expected <= PAID_FIRST * best.expected]
    first = min(paid, key=lambda way: way.rank, default=best)
    others = sorted((way for way in ways if way is not first), key=lambda way: way.rank)
    return replace(found, ways=(first, *others))


def confirm(offer: Displayable, *, is_free: bool, yes: bool, show: bool) -> None:
    """Show a choice or a quote and, where something is charged and nobody said yes, ask.

    Raises
    ------
    NotConfirmedError
        When the answer is no, or nobody can be asked.
    """
    notebook, asks = find_notebook(), not (yes or is_free)
    if not (show or asks):
        return
    if notebook is not None:
        notebook.display(offer)
    elif sys.stderr is not None:
        sys.stderr.write(f"{offer}\n")
    if not asks:
        return
    if notebook is None and not (sys.stdin and sys.stdin.isatty()):
        raise NotConfirmedError("nobody can be asked here: say yes=True to buy at the price that is shown")
    if input("Buy it? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise NotConfirmedError("not bought")
