"""A rehearsal of a restore signs nothing and keeps nothing; the commands of docs/operations.md run as they stand."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scenes import COHORT, RELEASES, box, checkpoint_of, copy_of, seen
from support import ADMIN, World, open_world
from typer.testing import CliRunner, Result

from curator_service.backup import write_backup
from curator_service.cli.main import app as cli
from curator_service.kit.files import lock
from curator_service.settings import Settings

pytestmark = pytest.mark.crashes

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file under a folder; the database's log changes with each reader."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name != ".rehearsal-lock"}


def run(data: Path, *words: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, list(words), env={"CURATOR_DATA_DIR": str(data), **environment})


def test_a_rehearsal_beside_production_changes_nothing(world: World) -> None:
    buy(world, "k")
    file = world.folder / "backup.tar"
    write_backup(world.curator, file)
    before = contents(world.folder)
    ended = run(world.settings.data_dir, "restore", "--rehearse", str(file), "--json")
    assert ended.exit_code == 0, ended.output
    said = json.loads(ended.stdout)
    assert all(ledger["ok"] for ledger in said["ledgers"])
    assert {ledger["population"] for ledger in said["ledgers"]} >= {"town", "_register"}
    assert said["keys_missing"] == []
    assert contents(world.folder) == before
    buy(world, "later")


def test_a_rehearsal_needs_no_key_and_no_anchor_and_names_the_keys_of_a_restore(world: World, tmp_path: Path) -> None:
    file, elsewhere = world.folder / "backup.tar", tmp_path / "another machine"
    write_backup(world.curator, file)
    ended = run(elsewhere, "restore", "--rehearse", str(file), "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["keys_missing"] == [key.key_id for key in world.curator.keys.list_keys()]
    assert contents(elsewhere) == {}
    assert not elsewhere.with_name("another machine-anchor").exists()


def test_a_rehearsal_of_a_backup_that_does_not_hold_says_where(world: World) -> None:
    buy(world, "k")
    with closing(sqlite3.connect(str(world.curator.database.url.database))) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE releases SET answer = replace(answer, '1', '2')")
    file = world.folder / "backup.tar"
    write_backup(world.curator, file)
    ended = run(world.settings.data_dir, "restore", "--rehearse", str(file))
    assert ended.exit_code == 1
    assert "broken" in ended.stdout
    assert not (world.settings.data_dir / "rehearsal").exists()


def test_a_rehearsal_removes_one_that_was_killed_and_waits_for_none(world: World) -> None:
    file, left = world.folder / "backup.tar", world.settings.data_dir / "rehearsal" / "data"
    write_backup(world.curator, file)
    left.mkdir(parents=True)
    held = lock(world.settings.data_dir / ".rehearsal-lock", os.O_CREAT)
    assert held is not None
    refused = run(world.settings.data_dir, "restore", "--rehearse", str(file))
    assert (refused.exit_code, "another rehearsal" in refused.stderr) == (1, True)
    assert left.is_dir()
    os.close(held)
    assert run(world.settings.data_dir, "restore", "--rehearse", str(file)).exit_code == 0
    assert not left.parent.exists()


@pytest.mark.parametrize("word", ["--reconcile", "--anchor-lost"])
def test_a_rehearsal_reconciles_nothing(world: World, word: str) -> None:
    refused = run(world.settings.data_dir, "restore", "--rehearse", str(world.folder / "backup.tar"), word)
    assert (refused.exit_code, "reconciles nothing" in refused.stderr) == (1, True)


def test_without_an_anchor_the_operator_is_led_to_the_rehearsal(world: World) -> None:
    buy(world, "k")
    shutil.rmtree(world.settings.anchor_folder)
    refused = run(world.settings.data_dir, "restore", "--reconcile")
    assert refused.exit_code == 1
    assert "restore --rehearse FILE" in refused.stderr


def read_blocks(heading: str) -> list[str]:
    """Return the commands that the page prints under a heading."""
    section = (
        PAGE.read_text(encoding="utf-8")
        .partition(f"\n{heading}\n")[2]
        .partition(f"\n{heading.split(maxsplit=1)[0]} ")[0]
    )
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def run_page(script: str, root: Path, settings: Settings, **tokens: str) -> None:
    """Run commands of the page as they stand, but for the folders, in a shell that stops at the first that fails."""
    tools = root / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "systemctl": "exit 0",
        "curator": f'exec "{sys.executable}" -m curator_service.cli.main "$@"',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    places = {
        "/var/lib/curator-anchor": settings.anchor_folder,
        "/var/lib/curator/data": settings.data_dir,
        "/var/backups/curator": root / "backups",
    }
    for place, folder in places.items():
        script = script.replace(place, str(folder))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CURATOR_")} | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CURATOR_DATA_DIR": str(settings.data_dir),
        "CURATOR_KEYS_DIR": str(settings.keys_folder),
        "CURATOR_ANCHOR_DIR": str(settings.anchor_folder),
    }
    ended = subprocess.run(
        ["bash", "-e", "-u", "-c", script], env=environment | tokens, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_page_s_commands_rehearse_restore_and_reconcile(world: World, tmp_path: Path) -> None:
    buy(world, "k")
    root = tmp_path / "root"
    settings = world.settings.model_copy(
        update={
            "data_dir": root / "data",
            "keys_dir": world.settings.keys_folder,
            "anchor_dir": world.settings.anchor_folder,
        }
    )
    (root / "backups").mkdir(parents=True)
    blocks = read_blocks("## Back up and restore")
    assert "--rehearse" in blocks[0]
    assert "--reconcile" in blocks[1]
    (file,) = set(re.findall(r"/var/backups/curator/(\S+)", "".join(blocks)))
    write_backup(world.curator, root / "backups" / file)
    buy(world, "later")
    posted = world.account().posted
    shutil.copytree(world.settings.data_dir, root / "data", ignore=shutil.ignore_patterns("keys"))
    run_page("\n".join(blocks), root, settings)
    with closing(sqlite3.connect(root / "data" / "curator.sqlite3")) as connection:
        assert connection.execute("SELECT posted_units FROM populations WHERE name = 'town'").fetchone() == (posted,)


def test_the_page_s_commands_count_what_a_copy_charged(tmp_path: Path) -> None:
    root, today = tmp_path / "root", datetime.now(UTC).replace(microsecond=0)
    (root / "backups").mkdir(parents=True)
    on_the_copy, here = read_blocks("### A copy was served")
    with open_world(tmp_path / "world", moment=today) as world:
        world.add_token("rita", *ADMIN)
        buy(world, "k")
        common, copy = world.account().posted, copy_of(world)
        buy(world, "here")
        sold = world.account().posted - common
        seen_there = buy(copy, "there")
        world.api().get(f"{COHORT}/budget", headers=seen(checkpoint_of(seen_there["receipt"])))
        run_page(on_the_copy, root, copy.settings)
        copy.close()
        tokens = {"CURATOR_TOKEN": world.tokens["root"], "CURATOR_SECOND_TOKEN": world.tokens["rita"]}
        run_page(here, root, world.settings, **tokens)
        assert world.account().posted == common + sold + int(seen_there["cost"]["units"])
        buy(world, "later")


def buy(world: World, key: str) -> dict[str, Any]:
    answer = world.api().post(RELEASES, json=box(fresh=True, price={"mu": 0.05}), key=key)
    assert answer.status_code == 201, answer.text
    release: dict[str, Any] = answer.json()
    return release
