"""docs/first-hour.md: every command of it, in the order of the page, in a Debian as its installer leaves it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bare_debian
import pytest
from bare_debian import BareDebian
from patience import scaled
from process_factory import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.machines]

PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
COMMANDS = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
PACKAGES = re.search(r"^apt-get install (.*)$", COMMANDS, re.MULTILINE)[1]
CARRIED = "cp -R /srv/given/wheelhouse ~/ && cp -R /srv/given/cohort /srv/ && chmod -R a+rX /srv/cohort"
"""What the page says is there before its first command."""
VERDICTS = {
    "ready": "curl --silent --fail --cacert /etc/ssl/certs/curator.pem https://curator.example.org/readyz",
    "failed": "systemctl list-units --state=failed --plain --no-legend 'curator*' nginx* postgresql*",
    "running": "systemctl show --property=ActiveState --property=User --property=NRestarts curator.service",
    "timers": "systemctl list-timers --plain --no-legend 'curator*' | grep -o 'curator-[a-z]*.timer' | sort",
    "doctor": "curator doctor --json",
    "permits": "curator permits list --json",
    "charges": "curator ledger show olmsted --json",
    "backups": "ls /var/backups/curator",
    "open": "curl --silent --cacert /etc/ssl/certs/curator.pem --output /dev/null --write-out '%{http_code}' https://curator.example.org/metrics",
    "clear": "curl --silent --max-time 5 --output /dev/null --write-out '%{http_code}' http://curator.example.org/readyz",
    "secrets": "find /var/lib/curator* /etc/curator /var/backups/curator -perm /o=rwx",
    "owner": "runuser -u curator -- psql --dbname curator --command 'ALTER TABLE ledger_entries DISABLE TRIGGER ALL'",
}


def copy_wheelhouse(folder: Path) -> None:
    """Make the folder that is carried to the machine, as `make wheelhouse` does."""
    options = [f"VENV={sys.prefix}", f"--assume-old={sys.prefix}/.installed", f"WHEELHOUSE={folder}"]
    made = subprocess.run(
        ["make", *options, "wheelhouse"], cwd=ROOT, capture_output=True, text=True, timeout=scaled(300), check=False
    )
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareDebian]:
    if lacking := bare_debian.missing():
        pytest.skip(f"the first hour is NOT tried: {lacking} is missing")
    folder = tmp_path_factory.mktemp("hour")
    given, work = folder / "given", folder / "work"
    work.mkdir()
    shutil.copytree(ROOT / "examples" / "flchain", given / "cohort", ignore=shutil.ignore_patterns("output"))
    copy_wheelhouse(given / "wheelhouse")
    bare_debian.install(folder / "bare")
    with bare_debian.boot(folder / "bare", work, given) as booted:
        fetched = booted.run(f"apt-get update && apt-get install --download-only {PACKAGES}", outside_network=True)
        assert fetched.returncode == 0, fetched.stdout
        yield booted


def test_a_curator_is_there_after_every_command_of_the_page(machine: BareDebian) -> None:
    assert machine.run(CARRIED).returncode == 0
    done = machine.run(f"set -euo pipefail\n{COMMANDS}")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "verified" in done.stdout

    found = {name: machine.run(command).stdout for name, command in VERDICTS.items()}
    assert "ready" in found["ready"], found["ready"]
    assert found["failed"] == ""
    assert set(found["running"].split()) == {"ActiveState=active", "User=curator", "NRestarts=0"}
    assert found["timers"].split() == ["curator-backup.timer", "curator-verify.timer"]
    assert [(permit["project"], permit["ended_at"]) for permit in json.loads(found["permits"])] == [("kidney", None)]
    assert [entry["kind"] for entry in json.loads(found["charges"])["entries"]].count(
        "charge"
    ) == 2  # the lengths of rows, and the release
    cares = [line["what"] for line in json.loads(found["doctor"]) if line["state"] != "well"]
    assert cares == ["disk of the anchor"]  # on the disk of the rows, as the page says
    assert len(found["backups"].split()) == 1
    assert found["open"] == "404"  # metrics are for inside alone
    assert found["clear"] in {"000", "404", "403"}  # nothing is served without TLS
    assert found["secrets"] == ""
    assert "must be owner" in found["owner"]
