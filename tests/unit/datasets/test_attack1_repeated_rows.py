"""RED: docs/privacy.md, "what is seen through: … rows repeated": rows repeated unevenly are not seen through."""

from typing import Any

import pytest
from support import World, csv_text, make_rows, manifest_text

from curator_service.datasets.service import RegistrationError

PEOPLE = make_rows(900, seed=99)


def register(world: World, name: str, population: str, rows: list[dict[str, str]]) -> Any:
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(manifest_text(name, population, row_capacity=50_000), encoding="utf-8")
    data.write_text(csv_text(rows), encoding="utf-8")
    return world.curator.datasets.register(manifest, data, actor="operator:test")


@pytest.mark.parametrize("most", [2, 8, 30])
def test_people_whose_rows_are_repeated_unevenly_are_recognised(world: World, most: int) -> None:
    """Every row of the first table is there, whole and unchanged, from once to `most` times."""
    register(world, "first", "town", PEOPLE)
    rows = [row for i, row in enumerate(PEOPLE) for _ in range(1 + i % most)]
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        register(world, "again", "valley", rows)
