"""A page for the data-protection officer who answers a person: every figure with where it comes from."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from curator_service.datasets.access import Access, Answer, Exposure
from curator_service.datasets.manifest import ColumnDeclaration
from curator_service.datasets.repository import Dataset
from curator_service.kit.html import Markup, element, escape, fill, join, page, said
from curator_service.ledger.schemas import describe_spent
from curator_service.privacy.accountant import Accountant
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import UNITS_PER_ONE
from curator_service.privacy.design import ColumnType, MissingRule
from curator_service.privacy.guessing import EVEN, Limits, best_guess, number_up, percent_up

KINDS = {
    "gram": "sums for regression models",
    "counts": "tables of counts",
    "marginals": "distributions of single columns",
    "score": "steps of fitting a model",
}
"""Kinds of release in words."""
_PRIORS = (EVEN, Fraction(1, 10), Fraction(1, 100))
_FALSE_ALARMS = 0.05
_LEVELS_SHOWN = 12
_IDENTIFIED = "stored encrypted, beside a keyed pseudonym, under a key that is kept elsewhere"
_NOT_DECLARED = "not declared"
_STYLE = """
@page { size: A4; margin: 15mm; }
:root { color-scheme: light; }
body { background: #fff; color: #1b1b1b; font: 10pt/1.45 "Source Sans 3", "Segoe UI", "Helvetica Neue", Arial,
  "Liberation Sans", sans-serif; margin: 0 auto; max-width: 62em; padding: 1.5em; overflow-wrap: break-word; }
h1 { font-size: 18pt; font-weight: 600; margin: 0 0 .2em; }
h2 { border-top: 2px solid #0b4f7d; font-size: 13pt; font-weight: 600; margin: 1.8em 0 .5em; padding-top: .5em; }
p, ul, table { margin: 0 0 .8em; }
ul { padding-left: 1.3em; }
table { border-collapse: collapse; width: 100%; }
caption { caption-side: top; font-weight: 600; padding: 0 0 .3em; text-align: left; }
th, td { border-top: 1px solid #c3c9ce; font-weight: 400; padding: .25em 1em .25em 0; text-align: left;
  vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-top: 0; color: #4a5057; vertical-align: bottom; }
tbody th { color: #33383d; }
.facts th { width: 13em; }
.figure { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.total > * { border-top: 2px solid #1b1b1b; font-weight: 600; }
.quiet { color: #4a5057; }
time { white-space: nowrap; }
code { font: .88em/1.4 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
tr, h2 { break-inside: avoid; }
h2, caption { break-after: avoid; }
thead { display: table-header-group; }
@media print { body { font-size: 9pt; max-width: none; padding: 0; } }
"""
_PROTECTED = {
    Adjacency.ADD_REMOVE: "whether one person's data are there or not; how many people there are is private",
    Adjacency.REPLACE_ONE: "whether one person's data are theirs or another's; how many people there are is public",
}
_FORMULAS = {
    "gdp": "µ² is the sum of the charges (µ-Gaussian differential privacy); best guess Φ(µ/2), for the best test of "
    "N(0, 1) against N(µ, 1) has both errors Φ(−µ/2). Dong, Roth and Su, JRSS B 84 (2022)",
    "zcdp": "ρ is the sum of the charges (zero-concentrated differential privacy); best guess (1 + δ(0; ρ))/2, with "
    "δ(ε; ρ) of Canonne, Kamath and Steinke, NeurIPS 2020, corollary 13: the tightest conversion that this curator "
    "has, and above the truth",
    "pure": "ε is the sum of the charges (pure differential privacy); best guess e^ε/(1 + e^ε), that of randomised "
    "response. Kairouz, Oh and Viswanath, ICML 2015",
}
_MISSING = {
    MissingRule.COMPLETE: "never missing",
    MissingRule.OMIT: "rows without it are left out of answers that ask for it",
    MissingRule.MIDPOINT: "a missing value counts as the middle of the range",
    MissingRule.INDICATOR: "that it is missing is counted as a value of its own",
}
_RIGHTS = (
    ("15(1)(a)", "purposes: with each dataset"),
    ("15(1)(b)", "categories of data: the columns of each dataset"),
    ("15(1)(c)", "recipients: of released statistics, with each dataset; of rows, none but who runs this curator"),
    ("15(1)(d)", "retention: with each dataset"),
    ("15(1)(e)", "rectification, erasure, restriction and objection may be asked of the controller"),
    ("15(1)(f)", "a complaint may be lodged with a supervisory authority (Article 77)"),
    ("15(1)(g)", "where the data come from: with each dataset, as provenance"),
    ("15(1)(h)", "no decision about the person is made by this curator, and no profile"),
    ("15(2)", "transfers: this curator opens no connection; statistics go to those who are granted a dataset"),
    ("15(3)", "a copy of the rows: `curator subjects export`, whose output goes to the person alone"),
    ("15(4)", "nothing here is about anybody else: no value, no count and no released number"),
)
_LIMITS = (
    "Rows were searched for the identifier that was given, whatever its case and spaces. Rows of the same person under "
    "another identifier are not found, and are not counted.",
    "Where a manifest names no subject, a row is taken for a person. Somebody with k such rows is protected k times as "
    "weakly: k µ, k ε, or k² ρ.",
    "Rows of a person beyond those that count are stored, and are in no answer.",
    "Several populations add up, as the last line does. So do curators elsewhere, of which nothing is known here.",
    "Whoever administers the machine, its disks or its backups can read rows: this bound is about answers alone.",
    "Amounts that are held for running work or for a study count as charged, and so does all that was ever written off "
    "after a restore. Charges since the first entry below count whatever dataset they were for.",
    "A limit that is raised above the highest so far changes the bound. It takes two people, and an entry in the "
    "ledger.",
)


def render_officer_page(access: Access, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    access : Access
    records : mapping of str to mapping
        What the record of processing says of each dataset that holds the person, by name.
    """
    return page(
        "Answer to a request for access",
        _STYLE,
        element(
            "main",
            element("h1", "Answer to a request for access"),
            element(
                "p",
                f"Regulation (EU) 2016/679, Article 15. As of {access.as_of}. For the data-protection officer; there "
                "is another page for the person. The identifier is not repeated here.",
                class_="quiet",
            ),
            *_summary(access),
            *_bound(access),
            *(part for dataset in access.datasets for part in _dataset(dataset, access, records)),
            *(part for exposure in access.exposures for part in _population(exposure)),
            element("h2", "What the bound does not cover"),
            element("ul", *(element("li", limit) for limit in _LIMITS)),
            element("h2", "What Article 15 asks for, and where it is"),
            _table("", ("paragraph", "answer"), [(article, text) for article, text in _RIGHTS]),
        ),
        language="en",
    )


def _summary(access: Access) -> list[Markup]:
    names = [said(dataset.name) for dataset in access.datasets]
    found = fill("Rows of the person are in {names}.", names=join(names)) if names else "No row of theirs is stored."
    parts = [
        element("h2", "Found"),
        element("p", found, f" Datasets that were searched, by keyed pseudonyms of their subjects: {access.searched}."),
    ]
    if access.unsearched:
        unsearched = join([said(dataset.name) for dataset in access.unsearched])
        sentence = "Not searched, for nobody kept whose their rows are: {names}. The bound counts them as if they held "
        parts.append(element("p", fill(sentence + "the person.", names=unsearched)))
    if access.erasures:
        parts.append(
            _table(
                "Erasures that were asked for",
                ("dataset", "asked", "carried out"),
                [
                    (said(e.dataset), element("time", e.asked_at), f"with version {e.version}" if e.version else e.due)
                    for e in access.erasures
                ],
            )
        )
    if not access.held:
        parts.append(
            element(
                "p",
                "Rows may have been there and have been removed. So the bound counts everything since the first entry. "
                "It holds for whoever was in these data at any time, and for whoever never was.",
            )
        )
    return parts


def _dataset(dataset: Dataset, access: Access, records: Mapping[str, Mapping[str, Any]]) -> list[Markup]:
    manifest, record = dataset.manifest, records[dataset.name]
    own = [presence for presence in access.held if presence.dataset.id == dataset.id]
    answers = [
        answer
        for exposure in access.exposures
        for answer in exposure.answers
        if exposure.population.name == dataset.population and answer.dataset == dataset.name
    ]
    catalogue = manifest.catalogue
    facts: list[tuple[str, str]] = [
        ("title", _declared(record["title"])),
        ("description", _declared(record["description"])),
        ("population", said(dataset.population)),
        ("registered", f"{dataset.created_at}, entry {access.registered[dataset.id]} of the population's ledger"),
        ("manifest", element("code", dataset.manifest_digest)),
        ("commitment to the rows", element("code", dataset.commitment)),
        ("controller", _organisation(record["controller"])),
        ("purpose", _declared(record["purpose"])),
        ("legal basis", _declared(record["legal_basis"])),
        ("data subjects", _declared(record["data_subjects"])),
        ("provenance", _declared(None if catalogue is None else catalogue.provenance)),
        ("retention", _period(record["retention"])),
        ("told apart by", said(", ".join(manifest.subject_columns) or "None")),
        ("identifier", _IDENTIFIED if dataset.id in access.identified else "not stored, but for a keyed pseudonym"),
        ("version", f"{dataset.version}, since {dataset.cut_at or 'a restore'}; the next one {access.due[dataset.id]}"),
        *(
            (
                "rows that wait for it" if presence.waits else "rows of the person",
                f"{len(presence.counted)}; counted in answers: {int(presence.counted.sum())}",
            )
            for presence in own
        ),
        *(("same people as", f"{name}: the budgets of both add up for them") for name in manifest.same_people_as),
        ("rows that count", f"at most {manifest.rows_per_person} of each person"),
        ("answers read by", "every analyst granted" if manifest.library == "shared" else "whoever asked for them"),
    ]
    recipients = [(said(r["name"]), ", ".join(r["roles"]), r["sees"]) for r in record["recipients"]]
    return [
        element("h2", "Dataset ", said(dataset.name)),
        _facts(facts),
        _table(
            "What is stored of each row; a number beyond its bounds is stored as the bound",
            ("column", "values", "when missing", "what it is"),
            [
                (said(column.name), _values(column), _MISSING[column.missing], said(column.description))
                for column in manifest.columns
            ],
        ),
        _table("Who is granted it", ("name", "roles", "sees"), recipients),
        _table(
            "Answers since it was registered, from the ledger",
            ("kind", "charged", "cut out of earlier ones, free", "first", "last", "entries"),
            [
                (_kind(kind), *_count(of_kind))
                for kind, of_kind in groupby(sorted(answers, key=_by_kind), lambda answer: answer.kind)
            ],
        ),
    ]


def _by_kind(answer: Answer) -> tuple[str, int]:
    return answer.kind, answer.sequence


def _kind(kind: str) -> str:
    return KINDS.get(kind, kind)


def _count(answers: Iterable[Answer]) -> tuple[str, ...]:
    found = list(answers)
    charged = sum(not answer.is_free for answer in found)
    sequences = write_ranges([answer.sequence for answer in found])
    first, last = (element("time", answer.time) for answer in (found[0], found[-1]))
    return str(charged), str(len(found) - charged), first, last, sequences


def write_ranges(numbers: Sequence[int]) -> str:
    """Write increasing whole numbers, those that follow each other as a range.

    Examples
    --------
    >>> write_ranges([3, 4, 5, 9])
    '3–5, 9'
    """
    runs = [
        [number for _, number in run] for _, run in groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    ]
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _values(column: ColumnDeclaration) -> Markup:
    if column.type is ColumnType.NUMERIC:
        lower, upper = (str(bound).removesuffix(".0") for bound in (column.lower, column.upper))
        unit = column.column.unit
        measured = "" if unit is None else fill(" {unit}", unit=said(unit))
        return fill("a number from {lower} to {upper}{unit}", lower=lower, upper=upper, unit=measured)
    levels = column.column.levels
    shown = [said(level) for level in levels[:_LEVELS_SHOWN]]
    if len(levels) > len(shown):
        shown.append(escape(f"or {len(levels) - len(shown)} more"))
    return fill("one of {levels}", levels=join(shown))


def _bound(access: Access) -> list[Markup]:
    lines = [
        (
            said(exposure.population.name),
            _account(exposure.population.accountant, exposure.ever),
            *_guesses(access.ever[i : i + 1]),
        )
        for i, exposure in enumerate(access.exposures)
    ]
    total = ("all together", "", *_guesses(access.ever))
    heads = ("population", "may ever be charged", "1 to 1", "1 to 9", "1 to 99")
    caption = f"Share of right guesses, at most, over all that may ever be answered under the limits of {access.as_of}"
    return [
        element("h2", "What anybody can learn"),
        element(
            "p",
            "Somebody knows everything but this person's rows, and reads every answer, also those that may still be "
            "given. They guess which of two stories is true: the person is in the data or not, or, under replace_one, "
            "has one set of values or another. Before any answer, the odds of the stories are those at the head of a "
            "column. With all answers the guess is right in at most this share of cases; without any, in 50%, 90% and "
            "99%. Everything is rounded up.",
        ),
        _table(caption, heads, [*lines, total], figures=range(2, 5), total=True),
        element(
            "p",
            "With a probability p ≤ 1/2 of the rarer story before: (1 − p) + p δ(ln((1 − p)/p)), δ(ε) that of the "
            "account. Accounts add up in µ² where each is gdp or pure, or in ε where all are pure and that is less, "
            "and in ρ where one is zcdp (µ²/2 and ε²/2).",
        ),
    ]


def _guesses(limits: Limits) -> tuple[str, ...]:
    return tuple(f"{percent_up(best_guess(limits, prior), 1)}%" for prior in _PRIORS)


def _population(exposure: Exposure) -> list[Markup]:
    population = exposure.population
    most = population.view(exposure.ever)
    began = f"entry {exposure.since} of {exposure.since_time}, the first about rows that may have held the person"
    odds = math.exp(most.epsilon) + most.delta / _FALSE_ALARMS if most.epsilon < 700 else math.inf
    told = f"{number_up(odds)} times what they were" if odds < math.inf else "without a bound"
    facts: list[tuple[str, str]] = [
        ("adjacency", f"{population.adjacency}: {_PROTECTED[population.adjacency]}"),
        ("accountant", f"{population.accountant.name}: {_FORMULAS[population.accountant.name]}"),
        ("ledger", fill("as of entry {n}, {head}", n=str(population.sequence), head=element("code", population.head))),
        ("counted from", began if exposure.since else "nothing but what was written off"),
        ("charged and held since", _account(population.accountant, exposure.spent)),
        ("of it held", _account(population.accountant, exposure.held)),
        ("of it written off before", _account(population.accountant, exposure.written_off)),
        ("what these sums say", describe_spent(population.accountant)),
        ("charged and held in all", _account(population.accountant, population.posted + population.pending)),
        ("limit", _account(population.accountant, population.limit)),
        ("highest limit ever", f"{_account(population.accountant, population.highest_limit)}: that of the guarantee"),
        ("may ever be charged since", f"{_account(population.accountant, exposure.ever)}, up to the highest limit"),
        ("that, as (ε, δ)", f"ε = {number_up(most.epsilon)}, δ = {most.delta:g}"),
        (
            "odds",
            f"where a rule says “in” wrongly of {_FALSE_ALARMS:.0%} or more of those who are not, and has said it of "
            f"the person, the odds are at most {told} before: e^ε + δ/{_FALSE_ALARMS:g}",
        ),
    ]
    datasets = [
        (said(name), "yes" if concerned else "no", *_count(found))
        for (name, concerned), found in groupby(
            sorted(exposure.answers, key=lambda a: (a.dataset, not a.concerns, a.sequence)),
            lambda a: (a.dataset, a.concerns),
        )
    ]
    heads = ("dataset", "holds, or may have held, the person", "charged", "free", "first", "last", "entries")
    return [
        element("h2", "Population ", said(population.name)),
        _facts(facts),
        _table("Answers since then, from the ledger", heads, datasets),
    ]


def _account(accountant: Accountant, units: int) -> str:
    """Return an amount in the account's own number, exactly, and µ beside µ²."""
    whole, rest = divmod(units, UNITS_PER_ONE)
    exactly = f"{whole}.{rest:012}".rstrip("0").rstrip(".")
    beside = f" (µ = {number_up(math.sqrt(units / UNITS_PER_ONE))})" if accountant.notion == "mu" else ""
    return f"{accountant.symbol} = {exactly}{beside}"


def _declared(text: str | None) -> Markup:
    return element("span", _NOT_DECLARED, class_="quiet") if text is None else said(text)


def _organisation(organisation: Mapping[str, str] | None) -> Markup:
    if organisation is None:
        return _declared(None)
    return join([said(organisation[name]) for name in ("name", "email", "url") if name in organisation])


def _period(period: Mapping[str, str] | None) -> Markup:
    if period is None:
        return _declared(None)
    words = {"start": "from ", "end": "until ", "comment": ""}
    said_of = [fill(word + "{what}", what=said(period[name])) for name, word in words.items() if name in period]
    return join(said_of, "; ")


def _facts(rows: Sequence[tuple[str, str]]) -> Markup:
    lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("tbody", *lines), class_="facts")


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    figures: Iterable[int] = (),
    total: bool = False,
) -> Markup:
    if not rows:
        return element("p", f"{caption}: none.")
    right = [{"class_": "figure"} if i in set(figures) else {} for i in range(len(heads))]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, **kind) for cell, kind in zip(row[1:], right[1:], strict=True)),
            **({"class_": "total"} if total and i == len(rows) - 1 else {}),
        )
        for i, row in enumerate(rows)
    ]
    head = [element("th", name, scope="col", **kind) for name, kind in zip(heads, right, strict=True)]
    title = [element("caption", caption)] if caption else []
    return element("table", *title, element("thead", element("tr", *head)), element("tbody", *lines))
