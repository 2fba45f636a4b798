"""The request of a release: its options stand in `ReleaseRequest`, and signatures and bodies follow from it."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

from analyst_client.kinds.base import Request
from analyst_client.kinds.gram.arguments import Unstated, as_features, as_names, check_target
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.rows import Rows, row_map
from analyst_client.kinds.request import PricedRequest
from analyst_client.meant import find_meant
from analyst_client.schema.columns import Column
from analyst_client.schema.requests import check_expected_rows
from analyst_client.terms.expression import INTERACTION, Expression, sort_key
from analyst_client.terms.formulas import Model, ReadModel

P = ParamSpec("P")
T = TypeVar("T")
Asked: TypeAlias = Sequence[str | Expression] | str | Model
"""Features, or a formula."""
UNSTATED: Any = Unstated()
"""Default of a target: nothing was said of one, which is not the same as ``target=None``."""


ARGUMENT_SYNONYMS = {
    "eps": "epsilon",
    "y": "target",
    "x": "features",
    "columns": "features",
    "formula": "model",
    "dataset": "data",
    "df": "data",
    "fit_intercept": "intercept",
    "alpha": "penalty",
}
"""Names that other libraries give to an argument."""
ELSEWHERE = {"se_fit": "predict_interval", "return_std": "predict_interval"}
"""Arguments of other libraries, and the method that does what they say."""


@dataclass(frozen=True, repr=False)
class ReleaseRequest(PricedRequest[Release, Quote]):
    """A request of noisy sufficient statistics; `CuratorClient.release` explains each option.

    Raises
    ------
    ValueError
        When the options contradict each other, or one makes no sense.

    Examples
    --------
    >>> ReleaseRequest(["age"], target="kappa", mu=0.2).members
    {'kind': 'gram', 'features': ['age'], 'targets': ['kappa'], 'price': {'mu': 0.2}}
    """

    features: Sequence[str | Expression]
    _: KW_ONLY
    target: str | Expression | None = UNSTATED
    targets: Sequence[str | Expression] | None = None
    intercept: bool = True
    rows: Rows | None = None
    norm: float | None = None
    expected_rows: int | None = None
    statistics: Sequence[str] | None = None
    shares: Mapping[str, float] | None = None
    calibration: str | None = None

    @property
    def lacks_target(self) -> bool:
        """True if the request names neither targets nor statistics: then it needs a target."""
        return self.target is UNSTATED and self.targets is None and self.statistics is None

    @property
    def named_targets(self) -> list[Expression] | None:
        """The targets, None where none is named. Raise `ValueError` when they are given twice, or are none."""
        target = None if self.target is UNSTATED else self.target
        check_target(target)
        if target is not None and self.targets is not None:
            raise ValueError("give target or targets, not both")
        targets = self.targets if target is None else [target]
        return None if targets is None else as_features(targets, "targets")

    def in_one_order(self, columns: Sequence[Column]) -> "ReleaseRequest":
        """Return the same request with features and targets in an order that is the same whatever theirs is.

        They stand as a dataset declares the columns that they are made of, interactions last. Steps whose numbers
        follow from the order of terms are then those that were paid for the same terms in another order.
        """
        places = {column.name: place for place, column in enumerate(columns)}

        def key(one: Expression) -> tuple[bool, list[int], str]:
            own = [places.get(name, len(places)) for name in one.columns]
            return one.operator == INTERACTION, own, sort_key(one)

        def arrange(listed: Sequence[Expression]) -> list[Expression]:
            crossed = [
                replace(one, arguments=tuple(sorted(one.arguments, key=key))) if one.operator == INTERACTION else one
                for one in listed
            ]
            return sorted(crossed, key=key)

        targets = self.named_targets
        return replace(
            self,
            features=arrange(as_features(self.features, "features")),
            target=UNSTATED if targets else self.target,
            targets=arrange(targets) if targets else self.targets,
        )

    def _asked_members(self) -> dict[str, Any]:
        body = {"features": [feature.to_json() for feature in as_features(self.features, "features")]}
        if self.named_targets is not None:
            body["targets"] = [target.to_json() for target in self.named_targets]
        return body

    def _option_members(self) -> dict[str, Any]:
        body: dict[str, Any] = {} if self.intercept else {"intercept": False}
        if self.rows is not None or self.norm is not None:
            if self.expected_rows is not None:
                raise ValueError("expected_rows chooses a row map where none is named: leave out rows and norm, or it")
            body["rows"] = row_map(self.rows, self.norm)
        if self.expected_rows is not None:
            body["expected_rows"] = int(check_expected_rows(self.expected_rows) or 0)
        if self.statistics is not None:
            body["statistics"] = as_names(self.statistics, "statistics")
        return body | self._said("shares", "calibration")


class ReleaseOptions(TypedDict, total=False):
    """Types of the options of `ReleaseRequest`, for checkers of types alone: they read no other form of them.

    A test holds both against each other.
    """

    target: str | Expression | None
    targets: Sequence[str | Expression] | None
    where: str | Expression | None
    weight: str | Expression | None
    epsilon: float | None
    delta: float | None
    mu: float | None
    rho: float | None
    intercept: bool
    rows: Rows | None
    norm: float | None
    expected_rows: int | None
    statistics: Sequence[str] | None
    shares: Mapping[str, float] | None
    mechanism: str | None
    calibration: str | None
    fresh: bool
    project: str | None
    reservation: str | None


def as_request(
    asked: "Sequence[str | Expression] | Request[Any, Any]", options: Mapping[str, Any]
) -> "ReleaseRequest | Request[Any, Any]":
    """Return a request of any kind as it is, and the request of sufficient statistics that columns and options make."""
    if not isinstance(asked, Request):
        return ReleaseRequest(asked, **options)
    if options:
        raise ValueError(f"a request is whole: {', '.join(options)} belongs into it")
    return asked


def read_model(
    model: Model, columns: Sequence[Column], options: Mapping[str, Any]
) -> "tuple[ReleaseRequest, ReadModel]":
    """Return the request of a formula, of a dataset with these columns, and where its members come from.

    Raises
    ------
    ValueError
        When an option says again what the formula says.
    """
    read = model.read(columns)
    said = [name for name in (*read.options, *(["target"] if "targets" in read.options else [])) if name in options]
    if said:
        raise ValueError(f"the model says {said[0]} already: give it once")
    return ReleaseRequest(read.features, **read.options, **options), read


def suggests_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Show the options of a request in a signature that takes them, and name the one that was meant by an unknown one.

    The function raises `TypeError` on an argument that it does not know, as Python does.
    """
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(ReleaseRequest, name), annotation=annotation
        )
        for name, annotation in ReleaseOptions.__annotations__.items()
    ]
    return _suggesting(function, options)


def suggests_options_of(other: Callable[..., Any], *left_out: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Do so of the options of another function, but for those that are left out."""
    named = [one for one in inspect.signature(other).parameters.values() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return functools.partial(_suggesting, options=[one for one in named if one.name not in left_out])


def check_options(called: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `TypeError` for an option that is none, with the one that was meant."""
    listed = list(known)
    for name, value in options.items():
        if name in listed:
            continue
        likely = (ARGUMENT_SYNONYMS.get(name.lower()), find_meant(name, listed))
        meant = next((one for one in likely if one in listed), None)
        has = f"; it has {', '.join(listed)}" if listed else ": it takes none"
        raise TypeError(f"{called} has no argument {name!r}{f': did you mean {meant}={value!r}?' if meant else has}")


def _suggesting(function: Callable[P, T], options: Sequence[inspect.Parameter]) -> Callable[P, T]:
    signature = expand_options(inspect.signature(function), options)
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in signature.parameters.values())
    known = list(signature.parameters)

    places = [one for one in signature.parameters.values() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    named = [name for name, one in signature.parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if len(args) > len(places) and named and not takes_any:
            told = ", ".join(one.name for one in places[1:])
            raise TypeError(f"{function.__name__}() takes {told} by place, and the others by name: {named[0]}=…")
        answered = {*known, "alpha"} if "level" in known else known  # by `takes_level`
        unknown = {name: value for name, value in kwargs.items() if name not in answered}
        if unknown:
            called = f"{type(args[0]).__name__ if function.__name__ == '__init__' else function.__name__}()"
            for name in unknown:
                if hasattr(args[0], other := ELSEWHERE.get(name.lower(), "")):
                    raise TypeError(f"{called} has no argument {name!r}: {other}(…) has it")
            check_options(called, unknown, known[1:])
        return function(*args, **kwargs)

    checked.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect.signature` returns
    return checked


def expand_options(signature: inspect.Signature, options: Sequence[inspect.Parameter]) -> inspect.Signature:
    """Return a signature with options in the place of its ``**options``, if it has them."""
    own = list(signature.parameters.values())
    if own[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        return signature
    taken = [parameter for parameter in options if parameter.name not in signature.parameters]
    first = [parameter for parameter in own if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    last = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    return signature.replace(parameters=[*first, *taken, *last])
