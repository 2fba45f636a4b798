"""A database whose digests had no key, and which held counts, is taken over whole; nothing of them stays in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rows_on_disk import write_former
from scenes import RELEASES, another_worker, assert_sound, box, forget_permits
from support import ROWS, World, body, make_rows, open_world

from curator_service.container import Curator, make_curator
from curator_service.datasets import likeness
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.snapshot import Storage
from curator_service.privacy.adjacency import Adjacency

SOURCE = "c0ffee" + "0" * 58


def go_back(world: World) -> dict[str, dict[str, Any]]:
    """Bring a world to what the earlier version left of it; return, by dataset, what its database held in the clear."""
    known = world.curator.datasets.list_all()
    held = {}
    for dataset in known:
        about = world.curator.datasets.storage.about(dataset.id)
        (part,) = about.parts
        held[dataset.id] = {
            "persons": about.persons,
            "lattice": about.lattice_digest,
            "nonce": about.nonce,
            "values": part.values_digest,
            "population": dataset.population,
        }
    BRING_BACK[id(world)] = forget_permits(world)
    world.curator.database.downgrade("0002")
    on_sqlite = world.curator.database.is_sqlite
    drop = ["snapshots_no_update", "snapshots_no_delete"] if on_sqlite else ["snapshots_append_only ON snapshots"]
    (*rules,) = world.sql("SELECT sql FROM sqlite_master WHERE name LIKE 'snapshots_no%'") if on_sqlite else ()
    world.sql(*(f"DROP TRIGGER {trigger}" for trigger in drop), "DELETE FROM snapshots")
    for dataset in known:
        write_former(world.curator.datasets.storage, dataset, note=False)
    for dataset_id, content in held.items():
        world.sql(
            f"UPDATE datasets SET row_count = {content['persons']}, lattice_digest = '{content['lattice']}', "
            f"snapshot_nonce = '{content['nonce']}' WHERE id = '{dataset_id}'",
            f"INSERT INTO snapshots VALUES ('{content['values']}', '{content['population']}')",
        )
    world.sql(f"INSERT INTO snapshots VALUES ('{SOURCE}', 'town')")
    world.sql(
        *(rule for (rule,) in rules)
        if on_sqlite
        else [
            "CREATE TRIGGER snapshots_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON snapshots "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        ]
    )
    return held


def know_few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare sketches without noise, with a threshold that the rows of so few people pass."""
    for name, value in {"EXCESS": -7, "THRESHOLD_SCALE": 1, "QUERY_SCALE": 1}.items():
        monkeypatch.setattr(likeness, name, value)


BRING_BACK: dict[int, Callable[[], None]] = {}


def upgrade(world: World) -> None:
    """Bring the schema up, and back the permits that an older one cannot hold."""
    world.curator.database.upgrade()
    BRING_BACK.pop(id(world))()


def served(world: World) -> Curator:
    """Return the services as a hospital runs them: on PostgreSQL with the rights of the service's group alone."""
    return make_curator(world.served or world.settings, now=world.clock)


TABLES = ("datasets", "snapshots", "sketches", "unkeyed", "ledger_entries", "releases", "reservations")


def holding(world: World, held: dict[str, dict[str, Any]]) -> list[str]:
    """Return the tables that hold one of the old words."""
    words = [SOURCE, *(str(content[name]) for content in held.values() for name in ("lattice", "nonce", "values"))]
    texts = {table: str(world.sql(f"SELECT * FROM {table}")) for table in TABLES}
    return [table for table, text in texts.items() if any(word in text for word in words)]


def test_what_was_in_the_clear_is_taken_over_at_the_first_start(both: World) -> None:
    assert both.api().post(RELEASES, json=box(), key="before").status_code == 201
    held = go_back(both)
    upgrade(both)
    assert holding(both, held) == ["unkeyed"]
    assert len(both.sql("SELECT * FROM unkeyed")) == len(held) * 2 + 1
    curator = served(both)
    assert curator.ledger.guard.start() == ""
    assert curator.datasets.start() == []
    assert both.sql("SELECT * FROM unkeyed") == []
    assert holding(both, held) == []
    for dataset in curator.datasets.list_all():
        about = curator.datasets.storage.about(dataset.id)
        content = held[dataset.id]
        assert (about.persons, about.lattice_digest, about.nonce) == (
            content["persons"], content["lattice"], content["nonce"],
        )  # fmt: skip
        assert about.commitment == dataset.commitment
    assert_sound(both)
    assert both.api().post(RELEASES, json=body(), key="after").status_code == 201
    with pytest.raises(Exception, match="append-only"):
        both.sql("UPDATE snapshots SET population = population")
    with pytest.raises(Exception, match="append-only"):
        both.sql("UPDATE sketches SET sealed = ''")
    curator.close()


def test_the_guard_knows_the_old_rows_afterwards(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their keyed digest, the old file's too, and by a sketch of the lattice where they come in disguise."""
    know_few_people(monkeypatch)
    go_back(both)
    upgrade(both)
    curator = served(both)
    assert curator.ledger.guard.start() == ""
    curator.datasets.start()
    service = curator.datasets.likeness
    key_id = curator.keys.list_keys()[-1].key_id
    assert both.sql(f"SELECT population FROM snapshots WHERE digest = '{service.key_digest(key_id, SOURCE)}'") == [
        ("town",)
    ]
    for rows in (ROWS, ROWS[::-1], ROWS[1:]):
        with pytest.raises(RegistrationError, match="under the population 'town'"):
            both.register("again", "valley", rows)
    both.register("other", "valley", make_rows(70, seed=71))
    curator.close()


def test_a_start_that_was_interrupted_is_finished_by_the_next(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    held = go_back(both)
    upgrade(both)
    away = both.settings.data_dir / "datasets" / min(held)
    away.rename(away.with_name("away"))
    curator = served(both)
    assert curator.ledger.guard.start() == ""
    assert len(curator.datasets.start()) == 1
    assert [name for (name,) in both.sql("SELECT id FROM unkeyed")] == [min(held)]
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "has_files", lambda *_: True)
        with pytest.raises(Exception, match="no sketch to compare"):
            both.register(
                "unknown", "valley" if held[min(held)]["population"] == "town" else "town", make_rows(50, seed=5)
            )
    away.with_name("away").rename(away)
    assert curator.datasets.start() == []
    assert both.sql("SELECT * FROM unkeyed") == []
    assert curator.datasets.start() == []
    curator.close()


def test_nothing_of_it_is_left_in_the_files_of_the_embedded_database(world: World) -> None:
    held = go_back(world)
    path = world.settings.data_dir / "curator.sqlite3"

    words = {SOURCE} | {str(content[name]) for content in held.values() for name in ("lattice", "nonce", "values")}

    def found() -> set[str]:
        content = b"".join(p.read_bytes() for p in (path, path.with_name(path.name + "-wal")) if p.exists())
        return {word for word in words if word.encode() in content}

    assert found() == words
    upgrade(world)
    curator = another_worker(world)
    curator.ledger.guard.start()
    curator.datasets.start()
    assert found() == set()
    curator.database.dispose()


@pytest.mark.postgres
def test_nothing_of_it_is_left_in_the_files_of_postgresql(tmp_path: Path, postgres_url: str) -> None:
    with open_world(tmp_path, url=postgres_url) as world:
        go_back(world)
        files = dict(world.sql("SELECT relname, relfilenode FROM pg_class WHERE relname IN ('datasets', 'snapshots')"))
        upgrade(world)
        curator = served(world)
        curator.ledger.guard.start()
        curator.datasets.start()
        now = dict(world.sql("SELECT relname, relfilenode FROM pg_class WHERE relname IN ('datasets', 'snapshots')"))
        assert all(files[name] != now[name] for name in files)
        assert world.sql("SELECT pg_relation_size('unkeyed')") == [(0,)]
        curator.close()


def test_public_counts_stay_public(tmp_path: Path, database_url: str | None) -> None:
    with open_world(tmp_path, url=database_url, adjacency=Adjacency.REPLACE_ONE) as world:
        api = world.api()
        assert api.get("/v1/datasets/cohort").json()["rows"] == len(ROWS)
        go_back(world)
        upgrade(world)
        curator = served(world)
        curator.ledger.guard.start()
        curator.datasets.start()
        assert world.api().get("/v1/datasets/cohort").json()["rows"] == len(ROWS)
        curator.close()


def test_the_schema_goes_back_and_up_again(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    know_few_people(monkeypatch)
    BRING_BACK[id(both)] = forget_permits(both)
    both.curator.database.downgrade("0002")
    upgrade(both)
    curator = served(both)
    assert curator.ledger.guard.start() == ""
    assert curator.datasets.start() == []
    assert_sound(both)
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        both.register("again", "valley", ROWS[1:])
    curator.close()
