"""A page for a person who asks what is held of them: one sheet of paper, one number, no word of the field."""

from curator_service.datasets.access import Access, Exposure
from curator_service.datasets.catalogue import Catalogue, Organisation, Period
from curator_service.datasets.exports.patient_words import ENGLISH, LANGUAGES, Words
from curator_service.datasets.repository import Dataset
from curator_service.kit.html import Markup, element, escape, fill, join, page, said
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.guessing import best_guess, percent_up

_COLUMNS_SHOWN = 12
_STYLE = """
@page { size: A4; margin: 17mm 20mm; }
:root { color-scheme: light; }
body { background: #fff; color: #1b1b1b; font: 11.5pt/1.5 "Source Sans 3", "Segoe UI", "Helvetica Neue", Arial,
  "Liberation Sans", sans-serif; margin: 0 auto; max-width: 42em; padding: 2em 1.5em; overflow-wrap: break-word; }
h1 { font-size: 20pt; font-weight: 600; line-height: 1.2; margin: 0 0 .2em; }
h2 { border-top: 1px solid #b9c0c6; font-size: 13pt; font-weight: 600; margin: 1.3em 0 .4em; padding-top: .7em; }
p, ul { margin: 0 0 .6em; }
ul { padding-left: 1.2em; }
li { margin-bottom: .35em; }
h3 { font-size: 11.5pt; font-weight: 600; margin: .8em 0 .2em; }
dl { display: grid; gap: .1em 1.2em; grid-template-columns: 6.5em 1fr; margin: 0 0 .8em; }
dt { color: #4a5057; }
dd { margin: 0; min-width: 0; }
.quiet { color: #4a5057; }
.number { background: #eef3f7; border-left: 5px solid #0b4f7d; margin: .8em 0; padding: .7em 1.1em .8em; }
.number strong { color: #0b4f7d; display: block; font-size: 25pt; font-weight: 600; line-height: 1.25; }
.number p { margin: 0; }
dl, .number, li { break-inside: avoid; }
h2, h3 { break-after: avoid; }
@media print { body { font-size: 10pt; line-height: 1.4; max-width: none; padding: 0; }
  h2 { margin-top: .9em; padding-top: .55em; }
  .number { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def render_patient_page(access: Access, language: str = ENGLISH.tag) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    access : Access
    language : str
        One of `LANGUAGES`.
    """
    words = LANGUAGES[language]
    return page(
        words.title,
        _STYLE,
        element(
            "main",
            element("h1", words.title),
            element("p", words.made.format(date=_date(access.as_of, words)), class_="quiet"),
            *_holding(access, words),
            *_released(access, words),
            *_learnt(access, words),
            *_rights(access, words),
        ),
        language=words.tag,
    )


def _holding(access: Access, words: Words) -> list[Markup]:
    parts = [element("h2", words.holding)]
    if access.held:
        parts += [
            *(part for dataset in access.datasets for part in _describe(dataset, access, words)),
            element("p", words.copy),
        ]
        if any(dataset.id in access.identified for dataset in access.datasets):
            parts.append(element("p", words.identified))
    else:
        parts.append(element("p", words.nothing))
    if gone := dict.fromkeys(erasure.dataset for erasure in access.erasures if erasure.version is not None):
        parts.append(element("p", fill(words.erased, datasets=join([said(name) for name in gone]))))
    if access.unsearched:
        names = join([_title(dataset) for dataset in access.unsearched])
        parts.append(element("p", fill(words.unsearched, datasets=names)))
    return parts


def _describe(dataset: Dataset, access: Access, words: Words) -> list[Markup]:
    manifest, declared = dataset.manifest, dataset.manifest.catalogue or Catalogue()
    due = _date(access.due[dataset.id], words)
    leaves = any(erasure.dataset == dataset.name and erasure.version is None for erasure in access.erasures)
    labels = [said(column.description or column.name) for column in manifest.columns]
    shown = labels[:_COLUMNS_SHOWN]
    if len(labels) > len(shown):
        shown.append(escape(words.more.format(count=len(labels) - len(shown))))
    facts = [
        (words.since, escape(_date(dataset.created_at, words))),
        (words.purpose, _said(declared.purpose)),
        (words.source, _said(declared.provenance)),
        (words.kept, _kept(declared.retention, words)),
        (words.rows, _count(dataset, access, words, due)),
        (words.leaves, escape(due if leaves else "")),
        (words.stored, join(shown, "; ")),
    ]
    lines = [part for name, value in facts if value for part in (element("dt", name), element("dd", value))]
    return [element("h3", _title(dataset)), element("dl", *lines)]


def _count(dataset: Dataset, access: Access, words: Words, due: str) -> Markup:
    """Return how many rows there are, of how many answers may be made, and how many will come."""
    rows, counted, waiting = (
        sum(size for presence, size in sizes if presence.dataset.id == dataset.id)
        for sizes in (
            [(presence, 0 if presence.waits else len(presence.counted)) for presence in access.held],
            [(presence, 0 if presence.waits else int(presence.counted.sum())) for presence in access.held],
            [(presence, len(presence.counted) if presence.waits else 0) for presence in access.held],
        )
    )
    told = [words.rows_one if rows == 1 else words.rows_many.format(count=rows)]
    if counted < rows:
        told.append(words.rows_used.format(counted=counted) if counted else words.rows_unused)
    if waiting:
        told.append(words.rows_waiting.format(count=waiting, date=due))
    return escape(", ".join(told))


def _said(text: str | None) -> Markup:
    return Markup("") if text is None else said(text)


def _kept(period: Period | None, words: Words) -> Markup:
    if period is None:
        return Markup("")
    until = [] if period.end is None else [escape(words.until.format(date=_date(period.end.isoformat(), words)))]
    return join([*until, *([] if period.comment is None else [said(period.comment)])], "; ")


def _released(access: Access, words: Words) -> list[Markup]:
    parts = [element("h2", words.released), element("p", words.never)]
    if access.held:
        times = sorted(a.time for exposure in access.exposures for a in exposure.answers if a.concerns)
        sentence = {0: words.answers_none, 1: words.answers_one}.get(len(times), words.answers)
        first, last = (_date(time, words) for time in (times[0], times[-1])) if times else ("", "")
        parts.append(element("p", sentence.format(count=len(times), first=first, last=last)))
    return parts


def _learnt(access: Access, words: Words) -> list[Markup]:
    most = percent_up(best_guess(access.ever))
    is_replaced = any(_is_replaced(exposure) for exposure in access.exposures)
    comparison = {"50": words.useless, "100": words.no_promise}.get(most, words.coin)
    beside = [words.ever.format(date=_date(access.as_of, words))]
    if is_replaced:
        beside.append(words.public_count)
    if not access.held:
        beside.append(words.removed)
    return [
        element("h2", words.learnt),
        element("p", words.guess_values if is_replaced else words.guess_presence),
        element("div", element("strong", words.number.format(percent=most)), element("p", comparison), class_="number"),
        element("p", " ".join(beside)),
    ]


def _is_replaced(exposure: Exposure) -> bool:
    return exposure.population.adjacency is Adjacency.REPLACE_ONE


def _rights(access: Access, words: Words) -> list[Markup]:
    declared = [dataset.manifest.catalogue for dataset in access.datasets]
    contacts: dict[Markup, None] = {}
    for catalogue in declared:
        if catalogue is not None and (organisation := catalogue.controller) is not None:
            contacts[_reached(organisation)] = None
    written = fill(words.contact, contacts=join(list(contacts), "; ")) if contacts else words.contact_none
    return [
        element("h2", words.rights),
        element("p", words.rights_intro),
        element("ul", *(element("li", right) for right in words.rights_list)),
        element("p", written, " ", words.complaint),
    ]


def _reached(organisation: Organisation) -> Markup:
    return join([said(text) for text in (organisation.name, organisation.email, organisation.url) if text is not None])


def _title(dataset: Dataset) -> Markup:
    catalogue = dataset.manifest.catalogue
    return said(dataset.name if catalogue is None or catalogue.title is None else catalogue.title)


def _date(moment: str, words: Words) -> str:
    year, month, day = moment[:10].split("-")
    return words.date.format(day=int(day), month=words.months[int(month) - 1], year=year)
