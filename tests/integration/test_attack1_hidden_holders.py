"""RED: with the service's login nobody hides a stored release, so that what it answers is bought again."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scenes import RELEASES, box
from support import World, open_world, service_url

pytestmark = pytest.mark.postgres


@pytest.fixture
def town(tmp_path: Path, postgres_url: str) -> Iterator[World]:
    with open_world(tmp_path, url=postgres_url) as made:
        yield made


ACTS = (
    "UPDATE column_holders SET bits = '8' || lpad(bits, 2047, '0')",  # grows: the last bit of a chunk
    "UPDATE column_holders SET bits = bits || '0'",  # the trigger looks at 2048 digits, and the curator reads them all
)


def test_digits_beyond_a_chunk_hide_no_release(town: World) -> None:
    api = town.api()
    for number, price in enumerate((0.02, 0.03)):
        assert api.post(RELEASES, json=box(price={"mu": price}, fresh=True), key=f"k{number}").status_code == 201
    assert town.account().posted
    try:
        assert town.settings.database_url is not None
        with psycopg.connect(service_url(town.settings.database_url)) as connection:
            for act in ACTS:
                connection.execute(act)
    except psycopg.Error:
        pass  # refused, as a smaller number is
    spent = town.account().posted
    answer = api.post(RELEASES, json=box(features=["age"], price={"mu": 0.01}), key="k")
    assert answer.headers["curator-answer"] == "derived"
    assert town.account().posted == spent
