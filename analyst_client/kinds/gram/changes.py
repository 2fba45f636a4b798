"""Exact changes of a release: other names, other units, other reference levels. They need no request and no charge."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.combinations import Combinations
from analyst_client.kinds.gram.local import MadeHere
from analyst_client.kinds.gram.quote import Noise
from analyst_client.kinds.gram.recoding import Coding, factors_of, has_level, with_level
from analyst_client.schema.columns import Column, DerivedColumn, Term, column_json, stored_columns, term_json
from analyst_client.schema.wire import Fields, as_float
from analyst_client.terms.expression import COLUMN, Expression, col

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()\[\],":~]++(?!\()')
_NAME = re.compile(r'[^\s()\[\],":~]+')


@dataclass(frozen=True)
class Redeclaration:
    """Other words and units for columns. Scaled terms and their sums stay as they are, but for signs.

    Attributes
    ----------
    names : mapping of str to str
        New names by old ones.
    levels : mapping of str to (mapping of str to str)
        New levels by old ones, by the column's old name.
    units : mapping of str to (float, float, str or None)
        a, b and the unit of a·x + b, by the column's old name.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    units: Mapping[str, tuple[float, float, str | None]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the change as a file states it."""
        return {name: value for name, value in vars(self).items() if value}

    def check(self, of: MadeHere) -> None:
        """Raise `ValueError` where the change would not be exact, or names nothing."""
        columns = {column.name: column for column in of.columns}
        stored = {column.name: column for column in stored_columns(of.columns)}
        known = dict.fromkeys((*stored, *(name for name in of.target_names if name not in columns)))
        computed = [column for column in of.columns if isinstance(column, DerivedColumn)]
        for name in (*self.names, *self.levels, *self.units):
            if name not in known:
                why = "is computed: change the columns that it is of" if name in columns else "is not in the release"
                raise ValueError(f"{name!r} {why}; it has {', '.join(known)}")
            made = [column.name for column in computed if any(source.name == name for source in column.sources)]
            if made and name not in self.names:
                raise ValueError(
                    f"{made[0]!r} is computed of {name!r}, which only the curator can do anew: select(…) the features "
                    "without it first, or ask the curator"
                )
        after = [self.names.get(name, name) for name in known]
        if len(set(after)) < len(after) or not all(map(_NAME.fullmatch, self.names.values())):
            raise ValueError("new names are distinct, without spaces, brackets, quotes, commas, colons and tildes")
        for name, renamed in self.levels.items():
            levels = stored[name].levels if name in stored else ()
            if not set(renamed) <= set(levels):
                raise ValueError(
                    f"{name!r} has the levels {', '.join(levels) or 'of no category'}: rename one of these"
                )
            if len({renamed.get(level, level) for level in levels}) < len(levels):
                raise ValueError(f"two levels of {name!r} would be one: only the curator can join them")
        for name, (a, b, _) in self.units.items():
            self._check_unit(of, name, a, b)

    def _check_unit(self, of: MadeHere, name: str, a: float, b: float) -> None:
        kinds = {f.kind for term in (*of.coded_terms, *of.targets) for f in factors_of(term) if f.column == name}
        if "boolean" in kinds or any(c.name == name and c.type != "numeric" for c in of.columns):
            raise ValueError(f"{name!r} is no number, so it has no other unit")
        if not (math.isfinite(a) and math.isfinite(b) and a):
            raise ValueError(f"the new unit of {name!r} is a·x + b with finite a and b, and a that is not 0")
        moved = [self._term(f) for term in (*of.coded_terms, *of.targets) for f in factors_of(term) if f.column == name]
        if not all(math.isfinite(f.center) and 0.0 < f.scale < math.inf for f in moved):
            raise ValueError(f"{name!r} has bounds that are no numbers in its new unit")
        bases = [f.basis for term in of.coded_terms for f in factors_of(term) if f.basis and f.basis.column == name]
        if any(basis.word != "polynomial" for basis in bases):
            raise ValueError(
                f"a spline of {name!r} has its knots in the old unit: ask the curator for it in the new one"
            )
        if a < 0.0 and (bases or of.combined):
            raise ValueError(f"{name!r} turns round, which its polynomials and combinations do not: take a > 0")

    def apply(self, of: MadeHere) -> dict[str, Any]:
        """Return what changes, by the names of a release's attributes."""
        self.check(of)
        signs = np.array([self._sign(term) for term in of.terms])
        turns = np.array([self._sign(target) for target in of.targets])
        return {
            "xtx": None if of.xtx is None else frozen(of.xtx * np.outer(signs, signs)),
            "xty": None if of.xty is None else frozen(of.xty * np.outer(signs, turns)),
            "features": tuple(map(self._column, of.features)),
            "inner_columns": tuple(map(self._column, of.inner_columns)),
            "terms": tuple(map(self._term, of.terms)),
            "targets": tuple(map(self._term, of.targets)),
            "combined": tuple(map(self._term, of.combined)),
            "posted": None if of.posted is None else self._posted(of.posted, of.combined),
            "expressions": self._expressions(of.expressions),
        }

    def apply_to_step(self, step: Any) -> Any:
        """Return a step beside the release in the same words: its numbers are of the same scaled terms."""
        return replace(
            step,
            columns=tuple(map(self._column, step.columns)),
            terms=tuple(map(self._term, step.terms)),
            target=self._term(step.target),
            expressions=self._expressions(step.expressions),
            posted=type(step.posted)(*(self._posted(one, step.terms) for one in step.posted)),
        )

    def _posted(self, posted: Combinations, terms: Sequence[Term]) -> Combinations:
        new = {term.name: (self._term(term).name, int(self._sign(term))) for term in terms}
        numbers = {new[name][0]: tuple(new[name][1] * n for n in row) for name, row in posted.numbers.items()}
        return replace(posted, numbers=numbers)

    def _expressions(self, known: Mapping[str, Expression]) -> dict[str, Expression]:
        return {self._text(name): self._expression(one) for name, one in known.items()}

    def _expression(self, expression: Expression) -> Expression:
        if expression.operator == COLUMN:
            return col(self.names.get(expression.parameters[0], expression.parameters[0]))
        return replace(expression, arguments=tuple(map(self._expression, expression.arguments)))

    def _text(self, text: str) -> str:
        """Return the name of a column, of a computed one or of several as it is made of new names."""
        return _WORD.sub(lambda word: self.names.get(word[0], word[0]), text) if self.names else text

    def _column(self, column: Column) -> Column:
        renamed, (a, b, unit) = self.levels.get(column.name, {}), self.units.get(column.name, (1.0, 0.0, column.unit))
        bounds = [None if bound is None else a * bound + b for bound in (column.lower, column.upper)]
        lower, upper = bounds if a > 0.0 else bounds[::-1]
        levels = tuple(renamed.get(level, level) for level in column.levels)
        whole = column.whole and column.name not in self.units
        made = replace(
            column, name=self._text(column.name), lower=lower, upper=upper, levels=levels, unit=unit, whole=whole
        )
        if isinstance(made, DerivedColumn):
            sources = tuple(map(self._column, made.sources))
            return replace(made, expression=self._expression(made.expression), sources=sources)
        return made

    def _term(self, term: Term) -> Term:
        if term.factors:
            factors = tuple(map(self._term, term.factors))
            name, column = ":".join(f.name for f in factors), ":".join(str(f.column) for f in factors)
            return replace(term, name=name, column=column, factors=factors)
        if term.basis is not None:
            a, b, _ = self.units.get(term.basis.column, (1.0, 0.0, None))
            center, scale = a * term.basis.center + b, a * term.basis.scale
            basis = term.basis._replace(column=self._text(term.basis.column), center=center, scale=scale)
            name = self._text(term.name)
            return replace(term, name=name, column=name.rpartition("[")[0], basis=basis)
        if term.column is None or term.kind == "combination":
            return term
        column = self._text(term.column)
        if term.kind == "level":
            level = self.levels.get(term.column, {}).get(str(term.level), term.level)
            return replace(term, name=f"{column}[{level}]", column=column, level=level)
        a, b, unit = self.units.get(term.column, (1.0, 0.0, term.unit))
        moved = replace(term, column=column, center=a * term.center + b, scale=abs(a) * term.scale, unit=unit)
        return replace(moved, name=f"{column}[missing]" if term.kind == "missing" else column)

    def _sign(self, term: Term) -> float:
        numbers = [str(f.column) for f in factors_of(term) if f.kind == "numeric"]
        turned = sum(self.units[name][0] < 0.0 for name in numbers if name in self.units)
        return -1.0 if turned % 2 else 1.0


@dataclass(frozen=True)
class Relevelling:
    """Other reference levels: the indicator of the old one is the constant less those of the others.

    Attributes
    ----------
    references : mapping of str to str
        By the column's name.
    """

    references: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the change as a file states it."""
        return {"references": dict(self.references)}

    def check(self, of: MadeHere) -> None:
        """Raise `ValueError` where the change would not be exact, or names nothing."""
        known = {column.name: column for column in of.columns if column.type == "categorical"}
        for name, level in self.references.items():
            if name not in known:
                raise ValueError(f"the release has no category {name!r}; it has {', '.join(known) or 'none'}")
            if level not in known[name].levels:
                raise ValueError(f"{name!r} has no level {level!r}; it has {', '.join(known[name].levels)}")
            if level != known[name].levels[0] and not any(has_level(term, name) for term in of.coded_terms):
                raise ValueError(f"no term is of a level of {name!r}: other features are computed of it")
        if of.combined:
            raise ValueError("rows are of combinations, in which levels are no terms of their own: ask the curator")
        if not of.has_constant:
            raise ValueError("without a constant no level is left out: each has a term of its own")
        if of.mapped_by.divides_terms:
            raise ValueError(f"{of.mapped_by.division}, and the constant was not: no level is what the others leave")

    def apply(self, of: MadeHere) -> dict[str, Any]:
        """Return what changes, by the names of a release's attributes."""
        self.check(of)
        wanted, columns = of.terms, {column.name: column for column in of.columns}
        for name, level in self.references.items():
            reference = columns[name].levels[0]
            if level == reference:
                continue
            wanted = tuple(with_level(t, name, reference) if has_level(t, name) == level else t for t in wanted)
            levels = (level, *(other for other in columns[name].levels if other != level))
            columns[name] = replace(columns[name], levels=levels)
        T = Coding(of.terms, of.columns).matrix(wanted)
        xtx = None if of.xtx is None else _through(T, _through(T, of.xtx).T)
        return {
            "xtx": None if xtx is None else frozen((xtx + xtx.T) / 2.0),
            "xty": None if of.xty is None else frozen(_through(T, of.xty)),
            "lambda_min": None,
            # Entries of the new terms share draws, so no deviation of each would say it: see `Release.as_released`.
            "noise": Noise(yty=of.noise.yty, distribution=of.noise.distribution),
            "features": tuple(columns[column.name] for column in of.features),
            "inner_columns": tuple(columns[column.name] for column in of.inner_columns),
            "terms": wanted,
        }


Change = Redeclaration | Relevelling


def _through(T: FloatArray, A: FloatArray) -> FloatArray:
    """Return T A, added up in one order on every machine: a file states the sums, and they are held against it."""
    found = np.zeros((len(T), A.shape[1]))
    for i, j in np.argwhere(T):
        found[i] += T[i, j] * A[j]
    return found


def read_changes(body: Fields) -> tuple[Change, ...]:
    """Read the changes that a file states. Raise `ServiceError` on a wrong one."""
    return body.each("changes", _read_change)


def _read_change(fields: Fields) -> Change:
    if fields.members.keys() == {"references"}:
        return Relevelling(_texts(fields, "references"))
    if not fields.members or not fields.members.keys() <= {"names", "levels", "units"}:
        raise fields.fault("changes", "made of names, levels and units, or of references")
    levels, units = (fields.members.get(name, {}) for name in ("levels", "units"))
    within, numbers = Fields(levels, f"{fields.where}/levels"), Fields(units, f"{fields.where}/units").members
    return Redeclaration(
        _texts(fields, "names") if "names" in fields.members else {},
        {name: _texts(within, name) for name in within.members},
        {name: _read_unit(fields, value) for name, value in numbers.items()},
    )


def _read_unit(fields: Fields, value: Any) -> tuple[float, float, str | None]:
    match value:
        case [int() | float() as a, int() | float() as b, str() | None as unit] if not isinstance(a, bool):
            return as_float(a), as_float(b), unit
    raise fields.fault("units", "made of two numbers and a unit")


def _texts(fields: Fields, name: str) -> dict[str, str]:
    within = fields.object(name)
    return {key: within.text(key) for key in within.members}


def statement_of(made: MadeHere) -> dict[str, Any]:
    """Return what came out of changes, as a file states it beside them: to be read, and to be held against them."""
    arrays = {"xtx": made.xtx, "xty": made.xty, "yty": made.yty}
    return {
        "columns": [column_json(column) for column in made.columns],
        "terms": [term_json(term) for term in made.terms],
        "targets": [term_json(term) for term in made.targets],
        "noise": made.noise.sd,
        "statistics": {name: array.tolist() for name, array in arrays.items() if array is not None},
    }
