"""Saved fits: one file with the exact texts that a fit was made of, of which it is made again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from analyst_client.errors import ServiceError
from analyst_client.inference.prior import Prior
from analyst_client.kinds.gram.release import Release
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.terms.expression import Expression, read_expression

FORMAT = 1
MEMBERS = {"fit", "estimator", "parameters", "chosen", "call", "releases", "refinement", "refinements"}


class Source(NamedTuple):
    """The arguments of `Fit.fit`, as they were given: nothing is copied.

    Attributes
    ----------
    releases : sequence of Release, Refinement, or mapping of str to either
    target : str or None
    features : sequence of str or None
    rows : float, sequence of float, or None
    """

    releases: Sequence[Release] | Refinement | Mapping[str, Release] | Mapping[str, Refinement]
    target: str | None = None
    features: Sequence[str] | None = None
    rows: float | Sequence[float] | None = None

    @property
    def named(self) -> "dict[str, Release | Refinement]":
        """Releases or refinements by the names that they have in sentences."""
        if isinstance(self.releases, Mapping):
            return dict(self.releases)
        if isinstance(self.releases, Refinement):
            return {"": self.releases}
        return {f"release {k}": one for k, one in enumerate(self.releases, 1)}


class SavedFit(NamedTuple):
    """A fit as its file has it.

    Attributes
    ----------
    estimator : str
        Name of the class.
    parameters : dict
        Hyper-parameters when it was fitted.
    chosen : dict
        Those that the fit chose by itself: the seed of draws.
    source : Source
    """

    estimator: str
    parameters: dict[str, Any]
    chosen: dict[str, Any]
    source: Source

    def write(self) -> str:
        """Return the text of a file. Raise `ValueError` where a hyper-parameter cannot be written."""
        source = self.source
        body: dict[str, Any] = {"fit": FORMAT} | self._asdict()
        del body["source"]
        body["call"] = {"target": source.target, "features": source.features, "rows": source.rows}
        if isinstance(source.releases, Refinement):
            body["refinement"] = source.releases.to_text()
        elif refinements := {name: one for name, one in source.named.items() if isinstance(one, Refinement)}:
            body["refinements"] = {name: one.to_text() for name, one in refinements.items()}
        else:
            named = isinstance(source.releases, Mapping)
            body["releases"] = [
                {"text": one._saved_text, "order": one.order} | ({"name": name} if named else {})
                for name, one in source.named.items()
                if isinstance(one, Release)
            ]
        try:
            return json.dumps(body, ensure_ascii=False, indent=1, default=_plain)
        except TypeError as error:
            raise ValueError(f"this fit cannot be saved: {error}") from None

    @classmethod
    def read(cls, text: str) -> "SavedFit":
        """Read a file. Raise `ServiceError` where it holds no fit."""
        body = Fields(parse_json(text))
        if not body.has("fit"):
            raise ServiceError("malformed answer: it has no member 'fit'")
        if body.integer("fit") != FORMAT or not body.members.keys() <= MEMBERS:
            raise body.fault("fit", f"{FORMAT}, the format that this version reads, or it has other members")
        call = body.mapping("call")
        bought = [name for name in ("releases", "refinement", "refinements") if body.has(name)]
        if call.keys() != {"target", "features", "rows"} or len(bought) != 1:
            raise body.fault("call", "that of one fit")
        releases: Any
        match bought[0]:
            case "releases":
                named = body.each("releases", _read_release)
                releases = dict(named) if all(name for name, _ in named) else [one for _, one in named]
            case "refinement":
                releases = Refinement.from_text(body.text("refinement"))
            case _:
                texts = Fields(body.mapping("refinements"))
                releases = {name: Refinement.from_text(texts.text(name)) for name in texts.members}
        call["target"] = _read_name(call["target"])
        call["features"] = call["features"] and [_read_name(one) for one in call["features"]]
        parameters = {name: _read_parameter(value) for name, value in body.mapping("parameters").items()}
        return cls(body.text("estimator"), parameters, body.mapping("chosen"), Source(releases, **call))


def _plain(value: Any) -> Any:
    """Return what JSON has not as what it has."""
    if isinstance(value, Prior):
        return {"prior": asdict(value)}
    if isinstance(value, Expression):
        return {"expression": value.to_json()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r} is no value of a file")


def _read_name(value: Any) -> Any:
    return read_expression(value.get("expression")) if isinstance(value, Mapping) else value


def _read_parameter(value: Any) -> Any:
    try:
        return Prior(**value["prior"]) if isinstance(value, Mapping) else value
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceError(f"malformed answer: a prior is none ({type(error).__name__})") from None


def _read_release(body: Fields) -> tuple[str | None, Release]:
    order, name = body.array("order"), body.optional("name", body.text)
    try:
        return name, Release.from_text(body.text("text")).in_order((order[0], order[1]))
    except (LookupError, TypeError, ValueError) as error:
        raise body.fault("order", f"of this release ({type(error).__name__})") from None
