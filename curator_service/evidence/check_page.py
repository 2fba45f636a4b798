"""The checker's page: what was released, what protects people, who allowed it, and what is left to judge."""

import json
import math
from collections.abc import Sequence

from curator_service.evidence import words
from curator_service.evidence.facts import CURATOR, Entry, Evidence, ReleaseFacts
from curator_service.evidence.people import describe_actor
from curator_service.kit.html import Markup, element, escape, fill, join, page, said
from curator_service.ledger.repository import Population
from curator_service.privacy.design import ColumnType
from curator_service.privacy.guessing import best_guess, number_up, percent_up

_LEVELS_SHOWN = 12
_STYLE = """
@page { size: A4; margin: 15mm; }
:root { color-scheme: light dark; --ink: #1b1b1b; --quiet: #4a5057; --paper: #fff; --line: #c3c9ce; --mark: #0b4f7d;
  --panel: #eef3f7; --judge: #7a4300; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --quiet: #a9b1b8; --paper: #14181c; --line: #3a434b; --mark: #7db8e0; --panel: #1d252c;
    --judge: #f0b866; } }
body { background: var(--paper); color: var(--ink); font: 10.5pt/1.5 "Source Sans 3", "Segoe UI", "Helvetica Neue",
  Arial, "Liberation Sans", sans-serif; margin: 0 auto; max-width: 58em; padding: 1.5em; overflow-wrap: break-word; }
h1 { font-size: 19pt; font-weight: 600; line-height: 1.25; margin: 0 0 .2em; }
h2 { border-top: 2px solid var(--mark); font-size: 13pt; font-weight: 600; margin: 1.9em 0 .5em; padding-top: .5em; }
h3 { font-size: 10.5pt; font-weight: 600; margin: 1.2em 0 .3em; }
p, ul, table, pre { margin: 0 0 .8em; }
ul { padding-left: 1.3em; }
li { margin-bottom: .3em; }
table { border-collapse: collapse; width: 100%; }
caption { caption-side: top; font-weight: 600; padding: .4em 0 .3em; text-align: left; }
th, td { border-top: 1px solid var(--line); font-weight: 400; padding: .3em 1.1em .3em 0; text-align: left;
  vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-top: 0; color: var(--quiet); vertical-align: bottom; }
.facts th { color: var(--quiet); width: 11em; }
.figure { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.quiet { color: var(--quiet); }
.lead { background: var(--panel); border-left: 5px solid var(--mark); padding: .8em 1.1em; }
.lead p { margin: 0; }
.lead p + p { margin-top: .5em; }
.lead strong { color: var(--mark); font-weight: 600; }
.judge { color: var(--judge); font-weight: 600; white-space: nowrap; }
.answered { white-space: nowrap; }
time { white-space: nowrap; }
code, pre { font: .88em/1.45 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .7em .9em; white-space: pre-wrap; }
tr, h2, h3, .lead { break-inside: avoid; }
h2, h3, caption { break-after: avoid; }
thead { display: table-header-group; }
@media print { body { font-size: 9pt; max-width: none; padding: 0; } h2 { margin-top: 1.4em; }
  .lead, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
@media screen and (max-width: 40em) { body { padding: 1em; } h1 { font-size: 16pt; }
  table, tbody, tr, th, td, caption { display: block; width: auto; }
  thead { height: 1px; overflow: hidden; position: absolute; clip-path: inset(50%); }
  tr { border-top: 1px solid var(--line); padding: .45em 0; } th, td { border: 0; padding: .05em 0; }
  .facts th { width: auto; } tbody th { font-weight: 600; } .figure { text-align: left; white-space: normal; }
  td[data-head]::before { color: var(--quiet); content: attr(data-head) ": "; } }
"""
_Rows = Sequence[Sequence[str]]


def render_check_page(evidence: Evidence) -> str:
    """Return the page as HTML."""
    what = "permit" if evidence.is_of_permit else "release"
    title = f"Evidence of a {what}"
    return page(
        f"{title}: {evidence.subject}",
        _STYLE,
        element(
            "main",
            element("h1", title),
            element(
                "p", element("code", evidence.subject), ", as the ledger stood at ", _time(evidence.as_of), ".",
                class_="quiet",
            ),
            *_lead(evidence),
            *(_list_releases(evidence) if evidence.is_of_permit else _describe(evidence, evidence.releases[0])),
            *_people(evidence),
            *_meaning(evidence),
            *_permission(evidence),
            *_checks(),
            *_verification(evidence),
        ),
        language="en",
    )  # fmt: skip


def _lead(evidence: Evidence) -> list[Markup]:
    parts = []
    if evidence.is_of_permit:
        count = len(evidence.releases)
        answers = "1 answer was" if count == 1 else f"{count} answers were"
        parts.append(fill("{n} given under this permit. No row was handed out.", n=answers))
    else:
        (release,) = evidence.releases
        count = sum(part["numbers"] for part in release.answer["statistics"].values())
        noisy = element("strong", f"{count:,} {'number' if count == 1 else 'numbers'} with noise")
        sentence = "{n} left the curator, of {dataset}. No row was handed out."
        parts.append(fill(sentence, n=noisy, dataset=_dataset_title(release)))
    for account in evidence.accounts.values():
        share = element("strong", f"{_guess(account, account.highest_limit)} of 100")
        sentence = (
            "Whoever knows everything about everybody but one person, and reads every answer that is ever given about "
            "{population}, is right in at most {share} guesses {what}. Without any answer it is 50."
        )
        what = words.PROTECTED[account.adjacency]
        parts.append(fill(sentence, population=said(account.name), share=share, what=what))
    return [element("div", *(element("p", part) for part in parts), class_="lead")]


# --- What was released


def _describe(evidence: Evidence, release: ReleaseFacts) -> list[Markup]:
    answer = release.answer
    noise = answer["noise"]
    law, times = words.DISTRIBUTIONS[noise["distribution"]]
    facts: list[tuple[str, str]] = [
        ("dataset", _dataset_title(release)),
        ("kind", fill("{kind}: {words}", kind=element("code", release.kind), words=words.KINDS.get(release.kind, ""))),
        ("released", _time(release.entry.time)),
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
        (words.STATISTICS.get(name, name), _shape(part["shape"]), f"{part['numbers']:,}")
        for name, part in answer["statistics"].items()
    ]
    noises = [
        (words.NOISES.get(name, name), number_up(sd), f"± {number_up(times * sd)}") for name, sd in noise["sd"].items()
    ]
    asked = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in answer["request"].items())
    return [
        element("h2", "What was released"),
        _facts(facts),
        _columns(release),
        _table("Statistics", ("what", "shape", "numbers"), statistics, figures=(2,)),
        _table(f"Noise, discrete {law}", ("of", "standard deviation", "95 of 100 draws"), noises, figures=(1, 2)),
        element(
            "p",
            "To each number a random one was added before it left, drawn once, which no other charged answer shares. "
            "Counts and their noise are in rows. Sums are in scaled units: each column’s public range is −1 to 1.",
        ),
        element("h3", "The request, as the curator read it"),
        element("pre", said(asked)),
    ]


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
            shown = [said(level) for level in column.column.levels[:_LEVELS_SHOWN]]
            more = len(column.column.levels) - len(shown)
            values = join([*shown, escape(f"and {more} more")] if more > 0 else shown)
        rows.append((said(name), said(column.description) if column.description else "", values))
    caption = "Columns, with their public bounds or levels"
    if any(described for _, described, _ in rows):
        return _table(caption, ("column", "what it is", "values"), rows)
    return _table(caption, ("column", "values"), [(name, values) for name, _, values in rows])


def _list_releases(evidence: Evidence) -> list[Markup]:
    rows = []
    for release in evidence.releases:
        amount = evidence.accounts[release.entry.population].view(int(release.entry.says["units"]))
        rows.append(
            (
                element("code", release.id),
                _time(release.entry.time),
                describe_actor(evidence, release.entry.says["actor"]),
                fill(
                    "{dataset}: {kind} of {columns}",
                    dataset=said(release.dataset.name), kind=release.kind, columns=_names(release.columns),
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
        _table("", heads, rows),
        element("p", *note, ".", class_="quiet"),
    ]


# --- What protects people


def _people(evidence: Evidence) -> list[Markup]:
    rows = []
    for dataset in evidence.datasets:
        manifest = dataset.manifest
        person = (
            "each row is declared to be another person's"
            if manifest.subject is None
            else f"at most {manifest.rows_per_person:,} of each person count"
        )
        counted = words.COUNTED[dataset.adjacency]
        rows.append((said(dataset.name), f"{manifest.row_capacity:,}", person, counted))
    return [
        element("h2", "How many people, at most"),
        _table("", ("dataset", "rows it may hold", "rows of a person", "how many there are"), rows, figures=(1,)),
    ]


def _meaning(evidence: Evidence) -> list[Markup]:
    parts = [
        element("h2", "What the noise means"),
        element(
            "p",
            "ε, δ, µ and ρ are views of one number, that of the account. The last column is what they mean for one "
            "person: the share of right guesses of somebody who knows all the rest and has read what the line names. "
            "50% is a coin. All of it is rounded up.",
        ),
    ]
    for account in evidence.accounts.values():
        rows = [(what, *_amount(account, units)) for what, units in _spent(evidence, account)]
        heads = ("of", "ε", "δ", "µ", "ρ", "right guesses")
        caption = fill("Population {name}, accountant {how}", name=said(account.name), how=account.accountant.name)
        parts.append(_table(caption, heads, rows, figures=range(1, 6)))
    parts.append(
        element(
            "p",
            "The guarantee is that of the highest limit that the population ever had. It holds for everybody in it, "
            "whoever asks, and however answers are combined.",
        )
    )
    return parts


def _spent(evidence: Evidence, account: Population) -> list[tuple[str, int]]:
    found = []
    if not evidence.is_of_permit:
        (release,) = evidence.releases
        found.append(("this release" if release.source is None else "the answer that it was cut out of", release.units))
    if evidence.permit is not None and account.name in evidence.permit.limits:
        limit = evidence.permit.limits[account.name]
        found.append(("all under this permit so far", evidence.permit.spent.get(account.name, 0)))
        if limit is not None:
            found.append(("the permit’s limit", limit))
    found.append(("all answers about the population so far", account.posted + account.pending))
    found.append(("the population’s guarantee", account.highest_limit))
    return found


def _amount(account: Population, units: int) -> tuple[str, ...]:
    amount = account.view(units)
    numbers = (amount.epsilon, amount.delta, amount.mu, amount.rho)
    shown = ("–" if number is None else "no bound" if number == math.inf else number_up(number) for number in numbers)
    return (*shown, f"{_guess(account, units)}%")


def _guess(account: Population, units: int) -> str:
    return percent_up(best_guess([(account.accountant, units)]), 1)


# --- Who allowed it


def _permission(evidence: Evidence) -> list[Markup]:
    parts = [element("h2", "Who allowed it, and for what")]
    if evidence.permit is None:
        return [*parts, element("p", words.WITHHELD if evidence.is_withheld else words.NO_PERMIT)]
    release = None if evidence.is_of_permit else evidence.releases[0]
    terms = evidence.terms(release)
    assert terms is not None
    permit, says = evidence.permit, terms.says
    facts: list[tuple[str, str]] = [
        ("permit", element("code", permit.id)),
        ("project", said(says["project"]) if says["project"] else "none: a plain grant to one analyst"),
        ("people", join([said(name) for name in sorted(says["people"].values())])),
        ("datasets", join([said(name) for name in sorted(_datasets_named(evidence, terms))])),
        *((label, _declared(says[name])) for label, name in _TEXTS),
        ("limit", join([_limit(evidence, name) for name in permit.limits], "; ")),
        ("expires", _time(says["expires_at"]) if says.get("expires_at") else "no end is set"),
        *([("ended before its time", _time(permit.ended_at))] if permit.ended_at else []),
    ]
    rows = [
        (
            fill("{population}, entry {n}", population=said(entry.population), n=str(entry.sequence)),
            _time(entry.time),
            _act(entry),
            describe_actor(evidence, entry.says["actor"]),
            describe_actor(evidence, entry.says["approved_by"]),
            said(entry.says["reason"]),
        )
        for entry in permit.entries
    ]
    at = "when this was released" if release else "as they are, or last were"
    return [
        *parts,
        element("p", f"The terms {at}:"),
        _facts(facts),
        _table("Its entries in the ledger", ("entry", "when", "what", "asked by", "approved by", "reason"), rows),
        element("p", _alone(permit.entries), class_="quiet"),
    ]


_TEXTS = (("purpose", "purpose"), ("legal basis", "legal_basis"), ("conditions", "conditions"))


def _datasets_named(evidence: Evidence, terms: Entry) -> set[str]:
    """Return the datasets of a permit's terms: an entry of one population names only those of its own."""
    assert evidence.permit is not None
    if not evidence.is_of_permit:
        return set(terms.says["datasets"].values())
    entries = (evidence.permit.in_force(population) for population in evidence.permit.limits)
    return {name for entry in entries if entry is not None for name in entry.says["datasets"].values()}


def _act(entry: Entry) -> str:
    if not entry.says["people"]:
        return "ended"
    if "adopts" in entry.says:
        return "taken over from an earlier version"
    return "granted" if entry.says["version"] == 1 else f"changed to version {entry.says['version']}"


def _alone(entries: Sequence[Entry]) -> str:
    if any(entry.says["approved_by"] == CURATOR for entry in entries):
        return "What an earlier version of the curator had granted was taken over at an upgrade, and nobody was asked."
    if all(entry.says["actor"] == entry.says["approved_by"] for entry in entries):
        return "One person alone did this, at the machine or as a privacy officer who only restricted it."
    return "Whatever lets anybody do more was approved by a second person, who does not gain by it."


def _limit(evidence: Evidence, population: str) -> Markup:
    assert evidence.permit is not None
    limit, account = evidence.permit.limits[population], evidence.accounts[population]
    if limit is None:
        return fill("of {population} whatever its budget allows", population=said(population))
    amount = account.view(limit)
    delta = f", δ = {amount.delta:g}" if amount.delta else ""
    return fill("of {p} ε = {e}{d}", p=said(population), e=number_up(amount.epsilon), d=delta)


# --- What is left to do


_CLASSES = {words.ANSWERED: "answered", words.JUDGED: "judge"}


def _checks() -> list[Markup]:
    rows = [
        (check.name, element("span", check.verdict, class_=_CLASSES[check.verdict]), check.why)
        for check in words.CHECKS
    ]
    return [
        element("h2", "Checks of statistical disclosure control"),
        _table("", ("check", "by differential privacy", "why"), rows),
        element("h2", "What a checker still must judge"),
        element("ul", *(element("li", text) for text in words.TO_JUDGE)),
    ]


def _verification(evidence: Evidence) -> list[Markup]:
    commands = "\n".join(["sha256sum --check SHA256SUMS", verify_command(evidence)])
    install = element("code", "pip install dp-curator")
    return [
        element("h2", "How to check this without the curator"),
        element("p", "In the folder of this page. ", install, " has the second command."),
        element("pre", commands),
        element(
            "p",
            "The first finds a file that was changed since the pack was made. The second finds whether the curator "
            "signed each entry, and whether an answer is the one that its entry states. It trusts the first key in ",
            element("code", "keys.json"),
            ": hold its id against what the hospital has published.",
        ),
        _facts([("first key", element("code", evidence.keys[0].key_id)), *_signatures(evidence)]),
        element(
            "p",
            "Receipts, and answers with theirs, are signed. This page, the record of processing, the research object "
            "and the registry’s entry are written from them and from declarations, and are not signed: whoever doubts "
            "one compares it with the receipts, or asks the hospital for the same pack, which is the same to the byte "
            "while the ledger stands where it stood.",
        ),
    ]


def verify_command(evidence: Evidence) -> str:
    """Return the command that verifies every signed file of a pack."""
    permit = " permit/*.json" if evidence.permit is not None else ""
    if evidence.is_of_permit:
        return f"curator-verify --key keys.json{permit}{' releases/*/*.json' if evidence.releases else ''}"
    source = " source/receipt.json" if evidence.releases[0].source else ""
    answer = " answer.json" if evidence.has_answers else ""
    return f"curator-verify --key keys.json receipt.json{answer}{source}{permit}"


def _signatures(evidence: Evidence) -> list[tuple[str, str]]:
    if evidence.is_of_permit:
        return []
    (release,) = evidence.releases
    receipt = release.entry.receipt
    return [
        ("entry hash", element("code", receipt.entry_hash)),
        ("answer digest", element("code", release.entry.says["answer_digest"])),
        ("signed by", element("code", release.entry.says["key_id"])),
    ]


# --- Parts


def _dataset_title(release: ReleaseFacts) -> Markup:
    catalogue = release.dataset.manifest.catalogue
    title = None if catalogue is None else catalogue.title
    name = said(release.dataset.name)
    return name if title is None else fill("{title} ({name})", title=said(title), name=name)


def _names(names: Sequence[str]) -> Markup:
    shown = [said(name) for name in names[:_LEVELS_SHOWN]]
    more = len(names) - len(shown)
    return join([*shown, escape(f"and {more} more")] if more > 0 else shown)


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) if shape else "one number"


def _time(moment: str) -> Markup:
    return element("time", moment.replace("T", " ").replace("Z", " UTC"), datetime=moment)


def _declared(text: str) -> Markup:
    return said(text) if text else element("span", words.UNDECLARED, class_="quiet")


def _facts(rows: Sequence[tuple[str, str]]) -> Markup:
    lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("tbody", *lines), class_="facts")


def _table(caption: str, heads: Sequence[str], rows: _Rows, *, figures: Sequence[int] = ()) -> Markup:
    kinds = [{"class_": "figure"} if i in figures else {} for i in range(len(heads))]
    head = [element("th", name, scope="col", **kind) for name, kind in zip(heads, kinds, strict=True)]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(
                element("td", cell, **kind, **{"data-head": name})
                for cell, name, kind in zip(row[1:], heads[1:], kinds[1:], strict=True)
            ),
        )
        for row in rows
    ]
    title = [element("caption", caption)] if caption else []
    return element("table", *title, element("thead", element("tr", *head)), element("tbody", *lines))
