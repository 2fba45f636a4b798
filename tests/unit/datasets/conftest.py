"""What tests of datasets share."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from curator_service.datasets import reading
from curator_service.kit.apart import Bounds, Told, Work, WorkRefused


@pytest.fixture(scope="module")
def read_here() -> Any:
    """Read rows in this process, for a module that asks nothing of the one apart: a fork for each file takes longer."""

    def work_here(work: Work, _bounds: Bounds, refusals: type[Exception], hear: Callable[[Any], None]) -> Told:
        try:
            told: Told = json.loads(json.dumps(work(hear)))
        except refusals as error:
            raise WorkRefused(str(error)) from None
        return told

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "work_apart", work_here)
        yield
