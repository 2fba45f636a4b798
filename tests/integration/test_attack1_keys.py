"""RED: an idempotency key stands for one request; another request under it is refused, not answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scenes import QUOTES, RELEASES
from support import World, ZeroNoise, body, open_world, problem

from curator_service.privacy.accountant import Price

OPEN = body(price={"mu": 2.0})
STATED = body(price={"mu": 2.0}, rows={"map": "ball"})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, limit=Price(mu=4.0), noise=ZeroNoise()) as made:
        yield made


def test_a_key_of_open_rows_is_not_a_key_of_the_small_ball(world: World) -> None:
    api = world.api()
    wide, small = (api.post(QUOTES, json=asked).json()["request"]["rows"] for asked in (OPEN, STATED))
    assert wide != small  # the curator means two row maps by these two requests
    assert api.post(RELEASES, json=OPEN, key="k").json()["request"]["rows"] == wide
    answer = api.post(RELEASES, json=STATED, key="k")
    if answer.status_code in {200, 201}:
        assert answer.json()["request"]["rows"] == small, "an answer of other rows than the ones that were asked"
    else:
        problem(answer, "idempotency-key-reused", 422)


def test_a_key_of_an_expected_number_is_not_a_key_of_open_rows(world: World) -> None:
    api, few = world.api(), OPEN | {"expected_rows": 1}
    small, wide = (api.post(QUOTES, json=asked).json()["request"]["rows"] for asked in (few, OPEN))
    assert wide != small
    assert api.post(RELEASES, json=few, key="k").json()["request"]["rows"] == small
    answer = api.post(RELEASES, json=OPEN, key="k")
    if answer.status_code in {200, 201}:
        assert answer.json()["request"]["rows"] == wide, "an answer of other rows than the ones that are meant"
    else:
        problem(answer, "idempotency-key-reused", 422)
