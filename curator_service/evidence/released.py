"""The part of a page that says what was released: columns, statistics, noise and request, or a list of releases."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from curator_service.evidence import words
from curator_service.evidence.facts import Evidence, ReleaseFacts
from curator_service.evidence.layout import LEVELS_SHOWN, facts_table, join_names, show_time, table
from curator_service.evidence.people import describe_actor
from curator_service.kit.html import Markup, element, escape, fill, join, said
from curator_service.privacy.design import ColumnType
from curator_service.privacy.guessing import number_up


def describe_release(evidence: Evidence, release: ReleaseFacts) -> list[Markup]:
    """Return what a release is."""
    answer = release.answer
    noise = answer["noise"]
    law, times = words.DISTRIBUTIONS[noise["distribution"]]
    facts: list[tuple[str, str]] = [
        ("dataset", title_dataset(release)),
        ("kind", fill("{kind}: {words}", kind=element("code", release.kind), words=words.KINDS.get(release.kind, ""))),
        ("of which rows", _rows(answer["request"])),
        ("released", show_time(release.entry.time)),
        ("asked by", describe_actor(evidence, release.entry.says["actor"])),
        (
            "ledger",
            fill(
                "entry {n} of {population}, epoch {epoch}; rows as of commitment {rows}",
                n=str(release.entry.sequence), population=said(release.entry.population),
                epoch=str(release.entry.says["epoch"]), rows=element("code", release.entry.says["snapshot"][:16]),
            ),
        ),
    ]  # fmt: skip
    if release.source is not None:
        sentence = "{source}: it is a part of that answer, told nothing new and cost nothing. Noise and cost below are "
        source = element("code", release.source.says["release"])
        facts.append(("cut out of", fill(sentence + "those of that answer.", source=source)))
    statistics = [
        (_statistic(answer, name), _shape(part["shape"]), f"{part['numbers']:,}")
        for name, part in answer["statistics"].items()
    ]
    noises = [
        (words.NOISES.get(name) or _statistic(answer, name), number_up(sd), f"± {number_up(times * sd)}")
        for name, sd in noise["sd"].items()
    ]
    asked = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in answer["request"].items())
    return [
        element("h2", "What was released"),
        facts_table(facts),
        _columns(release),
        table("Statistics", ("what", "shape", "numbers"), statistics, figures=(2,)),
        table(f"Noise, discrete {law}", ("of", "standard deviation", "95 of 100 draws"), noises, figures=(1, 2)),
        element(
            "p",
            "To each number a random one was added before it left, drawn once, which no other charged answer shares. "
            "Counts and their noise are in rows. Sums are in scaled units: each column’s public range is −1 to 1.",
        ),
        element("h3", "The request, as the curator read it"),
        element("pre", said(asked)),
    ]


def _rows(request: Mapping[str, Any]) -> Markup:
    parts = []
    for name, words_before in (("where", "those for which "), ("weight", "each weighted by ")):
        if name in request:
            parts.append(fill("{before}{what}", before=words_before, what=_code(request[name])))
    return join(parts) if parts else escape("all that the dataset counts")


def _statistic(answer: Mapping[str, Any], name: str) -> Markup:
    """Return what a statistic is; of kinds that release a list of items, by the columns of its item."""
    for counted in answer.get("tables", ()):
        if counted["name"] == name:
            axes = join([_code(axis["column"]) for axis in counted["axes"]], " × ")
            return fill("rows by {axes}", axes=axes)
    for marginal in answer.get("marginals", ()):
        if marginal["name"] == name:
            return fill(
                "{what} of {columns}", what=marginal["type"], columns=join(list(map(_code, marginal["columns"])))
            )
    return escape(words.STATISTICS.get(name, name))


def _code(what: Any) -> Markup:
    """Return a column's name, or what is computed of columns as JSON."""
    return said(what) if isinstance(what, str) else element("code", said(json.dumps(what, ensure_ascii=False)))


def _columns(release: ReleaseFacts) -> Markup:
    declared = {column.name: column for column in release.dataset.manifest.columns}
    rows = []
    for name in release.columns:
        column = declared[name]
        if column.type is ColumnType.NUMERIC:
            unit = "" if column.unit is None else fill(" {unit}", unit=said(column.unit))
            lower, upper = (str(bound).removesuffix(".0") for bound in (column.lower, column.upper))
            values = fill("from {lower} to {upper}{unit}", lower=lower, upper=upper, unit=unit)
        else:
            shown = [said(level) for level in column.column.levels[:LEVELS_SHOWN]]
            more = len(column.column.levels) - len(shown)
            values = join([*shown, escape(f"and {more} more")] if more > 0 else shown)
        rows.append((said(name), said(column.description) if column.description else "", values))
    caption = "Columns, with their public bounds or levels"
    if any(described for _, described, _ in rows):
        return table(caption, ("column", "what it is", "values"), rows)
    return table(caption, ("column", "values"), [(name, values) for name, _, values in rows])


def list_releases(evidence: Evidence) -> list[Markup]:
    """Return the releases under a permit."""
    rows = []
    for release in evidence.releases:
        amount = evidence.accounts[release.entry.population].view(int(release.entry.says["units"]))
        rows.append(
            (
                element("code", release.id),
                show_time(release.entry.time),
                describe_actor(evidence, release.entry.says["actor"]),
                fill(
                    "{dataset}: {kind} of {columns}",
                    dataset=said(release.dataset.name), kind=release.kind, columns=join_names(release.columns),
                ),
                "free, of a stored answer" if release.source else f"ε = {number_up(amount.epsilon)}",
            )
        )  # fmt: skip
    heads = ("release", "when", "asked by", "what", "cost")
    if not rows:
        return [element("h2", "What was released under it"), element("p", "Nothing yet.")]
    note = ("Columns, noise and request of each are in its own evidence: ", element("code", "curator evidence RELEASE"))
    return [
        element("h2", "What was released under it"),
        table("", heads, rows),
        element("p", *note, ".", class_="quiet"),
    ]


def title_dataset(release: ReleaseFacts) -> Markup:
    """Return what a release's dataset is called."""
    catalogue = release.dataset.manifest.catalogue
    title = None if catalogue is None else catalogue.title
    name = said(release.dataset.name)
    return name if title is None else fill("{title} ({name})", title=said(title), name=name)


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) if shape else "one number"
