"""A backup and its restore take as much memory for a large database as for a small one."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support import fresh_database, open_world

from curator_service.kit.db import Database

pytestmark = pytest.mark.crashes

SIZES = (1_000, 20_000)
ROW_BYTES = 1_500
GROWTH_MAX_BYTES = 8 * 2**20
"""Of 55 MB that one table has more."""

_MEASURE = """
import json, sys
from pathlib import Path
from curator_service.backup import read_backup, write_backup
from curator_service.container import make_curator
from curator_service.settings import Settings

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

data, url, keys, file, act = sys.argv[1:]
curator = make_curator(Settings(data_dir=data, keys_dir=keys, anchor_dir=data + "-anchor", database_url=url or None))
before = peak()
about = {"write": write_backup, "read": read_backup}[act](curator, Path(file))
print(json.dumps([peak() - before, about["rows"]["ledger_entries"]]))
"""


def measure(data: Path, url: str | None, keys: Path, file: Path, act: str) -> tuple[int, int]:
    """Return by how many bytes a process of its own grew at most, and how many entries it wrote or read."""
    arguments = [str(data), url or "", str(keys), str(file), act]
    ended = subprocess.run([sys.executable, "-c", _MEASURE, *arguments], capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    peak, entries = json.loads(ended.stdout)
    return peak, entries


def fill(database: Database, first: int, rows: int) -> None:
    """Add entries without meaning: neither a backup nor a restore reads them."""
    with database.begin() as connection, closing(connection.cursor()) as cursor:
        place = "?, ?, ?, ?, ''" if database.is_sqlite else "%s, %s, %s, %s, ''"
        insert = "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature)"
        entries = [("town", 10**6 + i, f"{i:x}".ljust(ROW_BYTES, "é"), f"{i:064x}") for i in range(first, first + rows)]
        cursor.executemany(f"{insert} VALUES ({place})", entries)


@pytest.mark.slow
def test_a_backup_and_its_restore_take_the_same_memory_for_any_size(
    tmp_path: Path, database_url: str | None, request: pytest.FixtureRequest
) -> None:
    written: list[int] = []
    read: list[int] = []
    with open_world(tmp_path, url=database_url) as world:
        keys, data = world.settings.keys_folder, world.settings.data_dir
        for size in SIZES:
            fill(world.curator.database, size, size)
            file = tmp_path / f"{size}.tar"
            peak, entries = measure(data, database_url, keys, file, "write")
            written.append(peak)
            target = tmp_path / f"restored-{size}"
            if database_url is None:
                peak, restored = measure(target, None, keys, file, "read")
            else:
                with fresh_database(request.getfixturevalue("postgres_server")) as url:
                    peak, restored = measure(target, url, keys, file, "read")
            read.append(peak)
            assert restored == entries >= size
    assert written[1] - written[0] < GROWTH_MAX_BYTES, written
    assert read[1] - read[0] < GROWTH_MAX_BYTES, read
