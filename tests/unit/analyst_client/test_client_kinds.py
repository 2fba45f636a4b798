"""An answer is read by its kind, and one of a kind that this client does not know is refused by name."""

import pytest
from client_examples import RELEASE_TEXT, Curator, ask, released

from analyst_client import Release, ServiceError
from analyst_client.kinds.registry import READERS, read_answer

HISTOGRAM = RELEASE_TEXT.replace('"kind": "gram"', '"kind": "histogram"').replace('"kind":"gram"', '"kind":"histogram"')


def test_an_answer_is_read_by_the_reader_of_its_kind() -> None:
    assert list(READERS) == ["gram"]
    assert read_answer(RELEASE_TEXT) == Release.from_text(RELEASE_TEXT)
    read = []
    known = {"histogram": lambda text, answered: read.append((text, answered))}
    read_answer(HISTOGRAM, "stored", readers=known)  # type: ignore[arg-type]
    assert read == [(HISTOGRAM, "stored")]


def test_an_unknown_kind_is_refused_and_named() -> None:
    with pytest.raises(ServiceError, match="no release of the kind 'histogram': it knows gram"):
        ask(Curator(released(HISTOGRAM)).client())
    with pytest.raises(ServiceError, match="'gram', the kind of this release"):
        Release.from_text(HISTOGRAM)
