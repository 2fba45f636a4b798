"""A page for a person who asks about data held of them: one sheet of paper, one number, no word of the field."""

from functools import cache, partial

from jinja2 import Environment

from curator_service.datasets.access import Access
from curator_service.datasets.exports.patient_words import ENGLISH, LANGUAGES, Words
from curator_service.datasets.repository import Dataset
from curator_service.kit.rendering import make_environment
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.guessing import best_guess, percent_up


@cache
def _environment() -> Environment:
    return make_environment(__package__)


def render_patient_page(access: Access, language: str = ENGLISH.tag) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    language : str
        One of `LANGUAGES`.
    """
    words = LANGUAGES[language]
    return (
        _environment()
        .get_template("patient.html")
        .render(
            access=access,
            words=words,
            date=partial(_date, words=words),
            count_rows=partial(_count, access=access, words=words),
            contacts=_list_contacts(access),
            labels_of=_labels,
            is_identified=any(dataset.id in access.identified for dataset in access.datasets),
            is_replaced=any(one.population.adjacency is Adjacency.REPLACE_ONE for one in access.exposures),
            erased=list(dict.fromkeys(erasure.dataset for erasure in access.erasures if erasure.version is not None)),
            times=sorted(a.time for exposure in access.exposures for a in exposure.answers if a.concerns),
            most=percent_up(best_guess(access.ever)),
        )
    )


def _labels(dataset: Dataset) -> list[str]:
    return [column.description or column.name for column in dataset.manifest.columns]


def _count(dataset: Dataset, due: str, *, access: Access, words: Words) -> str:
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
    return ", ".join(told)


def _list_contacts(access: Access) -> list[tuple[str, ...]]:
    """Return how each controller can be reached, each once."""
    catalogues = [dataset.manifest.catalogue for dataset in access.datasets]
    found = [one.controller for one in catalogues if one is not None and one.controller is not None]
    return list(dict.fromkeys(tuple(filter(None, (one.name, one.email, one.url))) for one in found))


def _date(moment: str, words: Words) -> str:
    year, month, day = moment[:10].split("-")
    return words.date.format(day=int(day), month=words.months[int(month) - 1], year=year)
