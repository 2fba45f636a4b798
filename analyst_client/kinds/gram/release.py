"""A release: one published answer, with everything needed to fit regressions on it and to check where it comes from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from analyst_client.display.model import Block, Inline, Note, folded, number, quiet, table, write_json
from analyst_client.errors import ServiceError
from analyst_client.kinds.gram.arguments import check_list, check_target
from analyst_client.kinds.gram.changes import (
    Change,
    Redeclaration,
    Relevelling,
    read_changes,
    statement_of,
)
from analyst_client.kinds.gram.exports.moments import raw_moments
from analyst_client.kinds.gram.exports.origin import list_origin
from analyst_client.kinds.gram.exports.programs import Package, find_package, write_program
from analyst_client.kinds.gram.local import MadeHere
from analyst_client.kinds.gram.quote import show_noise
from analyst_client.kinds.gram.row_lengths import describe_choice
from analyst_client.kinds.gram.rows import asked_combinations
from analyst_client.kinds.gram.saving import (
    Changed,
    unwrap,
    unwrap_changes,
    unwrap_steps,
    wrap,
    wrap_changes,
    wrap_steps,
)
from analyst_client.kinds.gram.selection import find_part, select_statistics
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.ledger.files import replace_file
from analyst_client.ledger.verification import Verification
from analyst_client.schema.amounts import write_cost
from analyst_client.schema.quotes import write_expression
from analyst_client.schema.reading import LOCAL
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.terms.expression import Expression
from analyst_client.terms.matching import match_features, name_of

_COMPARED = ("noise", "combined", "posted", "lambda_min", "request", "receipt", "cost")
"""What must be as the text gives it, beside the numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Release(MadeHere):
    """Noisy sufficient statistics of D terms and T targets, and their terms of use.

    A curator keeps one text for everybody who means the same, with columns in an order of its own. What
    `CuratorClient.release` returns stands in the order that was asked. Read from a file, or fetched by its id, a
    release stands in that of its text, and `select` gives it another.

    Made by `CuratorClient.release`, `load`, `from_text`, `from_arrays` or `from_public`. Arrays are read-only and in
    scaled units (a term lies in [−1, 1]); a statistic that was not asked is None. Two releases are equal when their
    texts are. Text and cost: see `PublishedAnswer`; columns and terms: see `Coded`; statistics: see `NoisyStatistics`.

    Attributes
    ----------
    combinations : ndarray of shape (D', D) or None
        Of rows of combinations, the weights of D' terms in the D combinations, exactly as the curator used them.
    receipt : Receipt or None
        The ledger entry of the charge. None when the release was made of arrays.
    selected_from : Release or None
        The whole that this is a part of, see `select`.
    changed_from : Release or None
        The release before it was brought to other names, units or reference levels: see `rename`, `convert` and
        `relevel`.
    changes : tuple
        These changes, in order.
    before_relevel : Release or None
        The same release with the curator's reference levels, where `relevel` took others: see `as_released`.
    steps : tuple of ScoreRelease
        Counts of rows by their length, where the row map was chosen by them, and Σ g gᵀ of this model, where robust
        standard errors were bought. A file keeps them, and their receipts.

    Examples
    --------
    >>> release = Release.from_arrays([[4.0, 1.0], [1.0, 2.0]], [[3.0], [2.0]], features=["age"], targets=["kappa"])
    >>> release.term_names
    ('(constant)', 'age')
    >>> release.xty.shape
    (2, 1)
    """

    selected_from: Annotated["Release | None", LOCAL] = None
    steps: Annotated[tuple[ScoreRelease, ...], LOCAL] = ()
    changed_from: Annotated["Release | None", LOCAL] = None
    changes: Annotated[tuple[Change, ...], LOCAL] = ()
    before_relevel: Annotated["Release | None", LOCAL] = None

    @property
    def original(self) -> "Release":
        """The whole answer of the curator that this was derived from; itself where it is one."""
        above = self.selected_from or self.changed_from
        return self if above is None else above.original

    @property
    def as_released(self) -> "Release":
        """The same release with the curator's reference levels, so that each entry has a draw of noise of its own.

        Names and units are as here. It is the release itself unless `relevel` made it: then entries are sums of
        several, with noise that is correlated, and `noise` does not state it. A fit uses the exact covariance.
        """
        return self.before_relevel or self

    @property
    def norm(self) -> float | None:
        """The norm R that longer rows were shrunk to under ``"ball"``, in scaled units; None under another row map."""
        return self.mapped_by.norm(self.rows_asked)

    @property
    def longest_squared(self) -> int:
        """The squared norm of the longest possible row that was weighted, in scaled units.

        1 for the constant and for each group of terms; rows of a part were weighted as rows of the whole.
        """
        return len({term.group for term in self.original.terms})

    @property
    def weights_rows(self) -> bool:
        """True if a row may count for less than another: under ``"ball"``, unless no row exceeds the norm.

        Under ``"linear"`` a row whose combinations are longer than 1 counts for less.
        """
        return self.mapped_by.shrinks(self.rows_asked, self.longest_squared)

    @property
    def weighting(self) -> str | None:
        """Weighting of rows, as a clause; None where each row counts for 1, so that sums are of people."""
        found = [f"rows count by {write_expression(self.request['weight'])}"] if "weight" in self.request else []
        if self.weights_rows or self.mapped_by.divides_terms:
            found.append(self.mapped_by.clause(self.rows_asked))
        return " and ".join(found) or None

    @property
    def people(self) -> tuple[str, str] | None:
        """People whose budget was charged, by the receipt: the population's name, and the id of the curator's key."""
        if self.receipt is None:
            return None
        return str(self.receipt.get("population")), str(self.receipt.get("key_id"))

    @property
    def is_public(self) -> bool:
        """True if it was made of rows that the analyst owns, see `from_public`."""
        return self.request.get("public") is True

    @property
    def weights_target(self) -> bool:
        """True if a target took part in the weights of its rows: a fit then has an unknown bias."""
        above = self.selected_from or self.changed_from
        names = {column.name for column in (self.selected_from or self).features}
        taken = any(target.column in names for target in self.targets) or (above is not None and above.weights_target)
        return self.weights_rows and taken

    @property
    def caveats(self) -> tuple[str, ...]:
        """Differences between a fit of this part and one of a request of the same columns; and weights of rows."""
        return (*self._weight_caveats, *self._part_caveats)

    @property
    def _weight_caveats(self) -> tuple[str, ...]:
        robust = self.selected_from is None and any(step.meat is not None for step in self.steps)
        if "weight" not in self.request or robust:
            return ()
        weight = write_expression(self.request["weight"])
        return (
            f"rows count by {weight}: standard errors take a row's weight for its square, and are too wide where "
            "weights are small.",
        )

    @property
    def _part_caveats(self) -> tuple[str, ...]:
        if self.changed_from is not None:
            return (*self.changed_from._part_caveats, *self._relevel_caveats)
        if self.selected_from is None:
            return ()
        kept = {*self.feature_names, *self.target_names}
        dropped = [name for name in self.selected_from.feature_names if name not in kept]
        still = {column.name for column in self.columns}
        left = [column for column in self.selected_from.columns if column.name not in still]
        omitting = [column.name for column in left if column.missing == "omit"]
        omitting += [name for name in self.selected_from.target_names if name not in kept]
        found = list(self.selected_from._part_caveats)
        if omitting:
            found.append(
                f"rows are those of the full request: a row that misses {' or '.join(omitting)} counts for nothing "
                "here either."
            )
        if self.weights_rows and (dropped or self.weights_target):
            names = ", ".join(self.selected_from.feature_names)
            found.append(
                f"weights are those of the full request ({names}): coefficients are those of the best linear "
                "prediction of rows so weighted, and a request of these columns alone would weight them differently."
            )
        if self.weights_target:
            found.append(
                f"{', '.join(self.target_names)} took part in the weights of the rows, which biases the coefficients: "
                "there are no intervals, standard errors or tests. Ask for it as the target, or with rows='box'."
            )
        return tuple(found)

    @property
    def _relevel_caveats(self) -> tuple[str, ...]:
        if self.before_relevel is None or not self.weights_rows:
            return ()
        return (
            "rows were weighted by their length under the curator's reference levels: a request with others would "
            "weight them differently.",
        )

    @property
    def _name(self) -> str:
        if self.changed_from is not None:
            return f"changed {self.changed_from._name}"
        return self.id if self.selected_from is None else f"part of {self.id}"

    def _list_origin(self) -> list[tuple[Inline, Inline]]:
        whole = self.selected_from
        part: list[tuple[Inline, Inline]] = [] if whole is None else [("part of", whole._caption())]
        part += [("changed", write_json(change.to_json())) for change in self.changes]
        return [*super()._list_origin(), *part]

    def _list_costs(self) -> list[tuple[Inline, Inline]]:
        bought = [("Σ g gᵀ" if step.norms is None else "row lengths", step.cost) for step in self.steps]
        of_steps = [(f"cost of {what}", write_cost(cost)) for what, cost in bought if cost is not None]
        return [*super()._list_costs(), *of_steps]

    def _list_choices(self) -> list[tuple[Inline, Inline]]:
        choice = describe_choice(self)
        return [] if choice is None else [("chosen", choice)]

    def _blocks(self) -> list[Block]:
        heads = ("term", "kind", "column", "center", "scale", "unit")
        terms = [
            (term.name, term.kind, term.column or "", number(term.center), number(term.scale), term.unit or "")
            for term in (*self.coded_terms, *self.targets)
        ]
        listed = f"terms ({len(self.coded_terms):,}) and targets ({len(self.targets):,})"
        title = f"Combinations ({len(self.terms):,}) of {listed}" if self.combined else listed.capitalize()
        caption = quiet("A raw value x stands in the statistics as (x − center) / scale")
        own = self.as_released
        relevelled = "" if own is self else "with the curator's reference levels: here entries are sums of several "
        return [
            show_noise(own.noise, len(self.terms), len(self.targets), under=relevelled),
            *map(Note, self.caveats),
            folded(title, table(caption, heads, terms, numeric=(3, 4))),
        ]

    @property
    def _signed_texts(self) -> tuple[str, ...]:
        """The whole answer's, and those of its steps: nobody signed what stands beside these."""
        return (self.original.text, *(step.text for step in self.steps))

    @property
    def _saved_text(self) -> str:
        """The text of what was derived holds the steps already."""
        if not self.steps or self.original is not self:
            return self.text
        return wrap_steps(self.text, [step.text for step in self.steps])

    def verify(self, *keys: "str | os.PathLike[str]") -> Verification:
        """Check the curator's answer against its ledger entry, and that these numbers follow from it.

        See `analyst_client.verify`. Of a part or a changed release the whole answer is checked, and the numbers here
        are held against those that it gives.

        Parameters
        ----------
        *keys : str or path-like
            The curator's public keys, as `curator-verify --key` takes them. Without any the signature is not checked.

        Returns
        -------
        Verification
            True in a condition exactly when nothing was found to be wrong.
        """
        outcome = super().verify(*keys)
        try:
            agrees = self._agrees_with(type(self).from_text(self._saved_text).in_order(self.order))
        except (ServiceError, ValueError):
            agrees = False
        if agrees or outcome.verdict == "inconsistent":
            return outcome
        return replace(outcome, verdict="inconsistent", reasons=("the numbers are not those that the text gives",))

    def _agrees_with(self, again: "Release") -> bool:
        one, other = self.before_relevel, again.before_relevel
        same = one is other if one is None or other is None else one._agrees_with(other)
        return same and all(
            getattr(self, name) == getattr(again, name) for name in ("_signed_texts", "_contents", *_COMPARED)
        )

    @property
    def _contents(self) -> list[Any]:
        """The numbers, the ones of steps too."""
        meats = [None if step.meat is None else step.meat.tolist() for step in self.steps]
        return [statement_of(self), meats, [({*step.terms}, step.target, step.posted) for step in self.steps]]

    def in_order(self, order: tuple[Sequence[str], Sequence[str]]) -> "Release":
        """Return the same release, with the same text, with its features and targets in another order.

        Raises
        ------
        ValueError
            When these are not its columns.
        """
        features, targets = map(tuple, order)
        if (features, targets) == self.order:
            return self
        if [*map(sorted, order)] != [*map(sorted, self.order)]:
            raise ValueError("the release has other columns")
        return replace(self, **select_statistics(self, find_part(self, self, features, targets, self.row_map)))

    def find_order(self, request: Any) -> tuple[Sequence[str], Sequence[str]]:
        """Return the order of a request. Raise `ServiceError` when it asked for other columns."""
        named = match_features(self.expressions, self.columns, request.members)
        if named is None:
            raise ServiceError(f"malformed answer: {self.id} has other columns than were asked")
        if self.posted != asked_combinations(request.members):
            raise ServiceError(f"malformed answer: the terms of {self.id} are combined otherwise than was asked")
        return named

    def select(
        self, features: "Sequence[str | Expression] | None" = None, target: "str | Expression | None" = None
    ) -> "Release":
        """Return a part of this release: fewer features, or one of them as the target. It costs nothing.

        The part keeps the receipt, and `verify` checks the whole answer that it was cut out of. Its rows and weights
        are those of the whole: `caveats` says where that changes what a fit is about.

        Parameters
        ----------
        features : sequence of str or Expression, optional
            Names of features that explain, in order, or what they were asked for as. Default all but the target.
        target : str or Expression, optional
            One of the targets, or a numeric or boolean feature. Default all targets.

        Returns
        -------
        Release
            The part, in the order of `features`; the whole where everything is kept.

        Raises
        ------
        ValueError
            When there is no such column, or what is asked for cannot be cut out.

        Notes
        -----
        A feature as the target has its Xᵀy and yᵀy in XᵀX: off-diagonal entries of its row, and its diagonal one. Each
        entry above the diagonal has noise of its own, and none of these is an entry of the part's XᵀX, so the part's
        statistics have independent noise too: Xᵀy that of an off-diagonal entry, yᵀy that of a diagonal one.

        Under ``"ball"`` a row's weight follows from all features. A feature that becomes the target took part in it:
        the fit is biased, and there are no intervals.

        Examples
        --------
        >>> release = Release.from_arrays([[9.0, 1.0, 2.0], [1.0, 5.0, 0.5], [2.0, 0.5, 4.0]], [3.0, 1.0, 0.7])
        >>> release.select(["x2"])
        <Release part of local of 'local': y ~ x2>
        >>> other = release.select(target="x2")
        >>> other.feature_names, other.xty.tolist(), other.yty.tolist()
        (('x1',), [[2.0], [0.5]], [4.0])
        """
        check_target(target)
        targets = self.target_names if target is None else (self._name_of(target),)
        if features is None:
            chosen = tuple(name for name in self.feature_names if name not in targets)
        else:
            check_list(features, "features")
            chosen = tuple(map(self._name_of, features))
        return self._select(chosen, targets)

    def _name_of(self, asked: "str | Expression") -> str:
        known = (self.selected_from or self).columns
        return name_of(asked, self.expressions, known)

    def _select(self, features: tuple[str, ...], targets: tuple[str, ...]) -> "Release":
        whole = self.selected_from or self
        part = find_part(self, whole, features, targets, self.row_map)
        if (features, targets) == (whole.feature_names, whole.target_names):
            return whole
        before = whole.before_relevel
        return replace(
            whole,
            text=wrap(whole._saved_text, features, targets),
            selected_from=whole,
            changed_from=None,
            changes=(),
            before_relevel=None if before is None else before._select(features, targets),
            **select_statistics(whole, part),
        )

    def rename(
        self, names: Mapping[str, str] | None = None, *, levels: Mapping[str, Mapping[str, str]] | None = None
    ) -> "Release":
        """Return the same release with other names of columns and of levels. It costs nothing.

        The curator's answer stays within: `verify` checks it, and that what is here follows from it. `save` writes
        both. All that is made of a column is renamed with it: terms, targets, levels, interactions.

        Parameters
        ----------
        names : mapping of str to str, optional
            New names by old ones.
        levels : mapping of str to (mapping of str to str), optional
            New levels by old ones, by the old name of their column.

        Returns
        -------
        Release
            With the same numbers.

        Raises
        ------
        ValueError
            When there is no such column or level, or two would have one name.

        Examples
        --------
        >>> from analyst_client import Column
        >>> sex = Column.categorical("geschlecht", ["w", "m"])
        >>> release = Release.from_arrays([[9.0, 4.0], [4.0, 4.0]], [3.0, 2.0], features=[sex])
        >>> release.rename({"geschlecht": "sex"}, levels={"geschlecht": {"w": "F", "m": "M"}}).term_names
        ('(constant)', 'sex[M]')
        """
        listed = {column: dict(renamed) for column, renamed in (levels or {}).items()}
        if not names and not listed:
            return self
        return self._changed(Redeclaration(dict(names or {}), listed))

    def convert(
        self,
        maps: Mapping[str, "float | tuple[float, float]"],
        *,
        units: Mapping[str, str] | None = None,
    ) -> "Release":
        """Return the same release with columns in other units: a·x + b in the place of x. It costs nothing.

        A fit of it is the fit of rows that were converted before: bounds, and what was clipped to them, are the
        curator's. Terms are of scaled values, so their sums and their noise stay as they are.

        Parameters
        ----------
        maps : mapping of str to float, or to (float, float)
            The number a, or a and b, by the name of a numeric feature or target; a is not 0.
        units : mapping of str to str, optional
            The new units, to be shown and compared. A column that is converted has none without it.

        Returns
        -------
        Release
            With the same noise.

        Raises
        ------
        ValueError
            When a column is no number, or something is computed of it that only the curator can convert: a logarithm,
            a sum, a condition, a spline.

        Examples
        --------
        >>> from analyst_client import Column
        >>> column = Column.numeric("creatinine", 0, 3, unit="mg/dL")
        >>> release = Release.from_arrays([[9.0, 1.0], [1.0, 5.0]], [3.0, 2.0], features=[column])
        >>> release.convert({"creatinine": 88.42}, units={"creatinine": "µmol/L"}).features[0].upper
        265.26
        """
        stated = dict(units or {})
        found: dict[str, tuple[float, float, str | None]] = {}
        for name in dict.fromkeys([*maps, *stated]):
            given = maps.get(name, 1.0)
            a, b = (given, 0.0) if isinstance(given, int | float) else given
            found[name] = float(a), float(b), stated.get(name)
        return self._changed(Redeclaration(units=found)) if found else self

    def relevel(self, references: Mapping[str, str]) -> "Release":
        """Return the same release with other reference levels. It costs nothing.

        The indicator of the level that was left out is the constant less those of the others: a linear map, which is
        exact for sums over rows and for their noise. Fits of several releases do it by themselves, for the levels of
        the first one.

        Parameters
        ----------
        references : mapping of str to str
            The level without a term, by the name of a categorical feature.

        Returns
        -------
        Release
            Its `noise` states no deviation for XᵀX and Xᵀy, as entries share draws: see `as_released`.

        Raises
        ------
        ValueError
            When there is no such category or level; without a constant; where rows were divided by their norm, or are
            of combinations; where missing values count as the reference level; and where an interaction stands without
            the features that it is of.

        Examples
        --------
        >>> from analyst_client import Column
        >>> sex = Column.categorical("sex", ["F", "M"])
        >>> release = Release.from_arrays([[9.0, 4.0], [4.0, 4.0]], [3.0, 2.0], features=[sex])
        >>> other = release.relevel({"sex": "M"})
        >>> other.term_names, other.xtx.tolist(), other.xty.ravel().tolist()
        (('(constant)', 'sex[F]'), [[9.0, 5.0], [5.0, 5.0]], [3.0, 1.0])
        """
        return self._changed(Relevelling(dict(references))) if references else self

    def _changed(self, *more: Change) -> "Release":
        """Return the release before all changes, changed by the ones so far and by more."""
        origin = self.changed_from or self
        changes = (*self.changes, *more)
        made = origin
        for change in changes:
            known = made.steps  # of the terms before a relevelling, as their receipts
            steps = tuple(map(change.apply_to_step, known)) if isinstance(change, Redeclaration) else known
            made = replace(made, steps=steps, **change.apply(made))
            if len(set(made.term_names)) < len(made.terms):
                raise ValueError("two terms would have one name")
        others = tuple(change for change in changes if not isinstance(change, Relevelling))
        before = None if len(others) == len(changes) else origin._changed(*others) if others else origin
        listed = [change.to_json() for change in changes]
        return replace(
            made,
            text=wrap_changes(Changed(origin._saved_text, *origin.order), listed, statement_of(made)),
            selected_from=None,
            changed_from=origin,
            changes=changes,
            before_relevel=before,
        )

    def export(
        self, path: "str | os.PathLike[str]", package: "Package | None" = None, *, nearest: bool = False
    ) -> None:
        r"""Write the moments as a program of another statistics package, whole or not at all. It costs nothing.

        The package's standard errors and tests ignore the privacy noise; its coefficients are those of `OLS`. The head
        of the file says so, and what the release is, and maps the terms to names that the package takes.

        Parameters
        ----------
        path : path-like
            Replaced if it exists.
        package : str, optional
            ``"sas"``: a data set of the type SSCP and PROC REG. ``"spss"``: MATRIX DATA and REGRESSION. ``"stata"``:
            summary statistics data and sem. ``"lavaan"``: an R script with sem. Default by the end of the path:
            ``.sas``, ``.sps``, ``.do`` or ``.R``.
        nearest : bool
            Whether to take the nearest covariance matrix where the noisy moments are none. The file says so.

        Raises
        ------
        OSError
            When the file cannot be written.
        ValueError
            When the package is not known, or the release has no moments of one target: no constant, no yᵀy, several
            targets, rows divided by their norm, too few rows, or noise that outweighs the data.

        Notes
        -----
        Moments are in raw units. A product is what a fit's coefficient is of: of raw values where the model has its
        parts, such as age beside ``sex[M]:age``. Functions of a basis are of scaled values, as in a fit.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> release = Release.from_arrays([[9.0, 1.0], [1.0, 5.0]], [3.0, 2.0], 4.0, features=["Age at entry"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "local.do"
        ...     release.export(file)
        ...     print(file.read_text().partition("sem ")[2])
        (y <- ///
            age_at_entry)
        <BLANKLINE>
        """
        chosen = find_package(os.fspath(path), package)
        moments = raw_moments(self, self.row_map, nearest=nearest)
        origin, people = list_origin(self, self, self.caveats), self.weighting is None
        program = write_program(chosen, moments, origin, noisy=not self.is_public, people=people)
        replace_file(Path(path), program.encode("ascii"))

    @classmethod
    def from_text(cls, text: str, answer: str | None = None) -> "Release":
        """Read the text of an answer, or of a saved file.

        Raise `ServiceError` when it is neither, and `ValueError` when what it states does not follow from its answer.

        Parameters
        ----------
        text : str
            Body of a release, or what `save` wrote.
        answer : str, optional
            The header ``Curator-Answer``.
        """
        body = Fields(parse_json(text))
        if (before := unwrap_changes(body)) is not None:
            whole = cls.from_text(before.text, answer).in_order((before.features, before.targets))
            made = whole._changed(*read_changes(body))
            if parse_json(made.text) != body.members:
                raise ValueError("its numbers are not those that its changes give")
            return made
        if (part := unwrap(body)) is not None:
            return cls.from_text(part.text, answer)._select(part.features, part.targets)
        if (found := unwrap_steps(body)) is not None:
            return replace(cls.from_text(found[0], answer), steps=tuple(map(ScoreRelease.from_text, found[1])))
        return super().from_text(text, answer)
