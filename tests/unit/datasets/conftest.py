"""What tests of datasets share."""

from collections.abc import Iterator

import pytest
from support import reading_here


@pytest.fixture(scope="module")
def read_here() -> Iterator[None]:
    """Read rows in this process, for a module that asks nothing of the one apart."""
    with reading_here():
        yield
