"""The examples: with curl one buys once and keeps the exact answer, and a study takes one decision."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployments import ANALYSTS, Deployment, Server, open_town
from patience import scaled, wait_for
from process_factory import ROOT, ProcessFactory
from proxies import LosingProxy
from support import World, open_population

from analyst_client import Release
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
FLCHAIN = EXAMPLES / "flchain"
POPULATION = "residents"
CURL = ("bash", str(EXAMPLES / "curl" / "release.sh"))
SHIPPED = EXAMPLES / "curl" / "request.json"


@dataclass
class Clinic:
    """A town whose one dataset is the real cohort, and a server of it."""

    town: Deployment
    server: Server
    dataset: str

    def charges(self) -> int:
        """Count what was charged so far; the ledger verifies."""
        return len(self.town.audit(POPULATION).charges)

    def run(self, command: tuple[str, ...], request: Path, release: Path, *more: str, url: str = "") -> Any:
        """Run an example as its README says."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.town.folder),
            "LANG": "C.UTF-8",
            "CURATOR_URL": url or self.server.url,
            "CURATOR_TOKEN": self.town.tokens[ANALYSTS[0]],
        }
        return subprocess.run(
            [*command, self.dataset, str(request), str(release), *more],
            env=environment,
            cwd=release.parent,
            capture_output=True,
            text=True,
            timeout=scaled(120),
            check=False,
        )


@pytest.fixture(scope="module")
def clinic(
    embedded_place: World, process_factory: ProcessFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clinic]:
    """Serve the cohort of examples/flchain."""
    folder = tmp_path_factory.mktemp("clinic")
    with open_town(embedded_place, process_factory, folder) as town:
        curator, population = embedded_place.curator, town.full(POPULATION)
        open_population(curator, population, Price(mu=2.0))
        manifest = folder / "manifest.toml"
        text = (FLCHAIN / "manifest.toml").read_text(encoding="utf-8")
        manifest.write_text(text.replace('"olmsted"', f'"{population}"'), encoding="utf-8")
        registered = curator.datasets.register(manifest, FLCHAIN / "flchain.csv", actor="operator:test")
        curator.permits.grant(town.full(ANALYSTS[0]), registered.name, actor="operator:test")
        curator.database.dispose()
        yield Clinic(town, town.serve(), "flchain")


def need(*commands: str) -> None:
    """Skip where a command is not installed."""
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"An example is NOT tested: {command} is not installed")


@pytest.fixture(scope="module")
def example() -> tuple[str, ...]:
    need("bash", "curl", "jq")
    return CURL


def order(folder: Path, **changes: Any) -> Path:
    """Write the request that the examples ship, changed; its price tells tests apart."""
    members = json.loads(SHIPPED.read_text(encoding="utf-8")) | changes
    path = folder / "request.json"
    path.write_text(json.dumps(members), encoding="utf-8")
    return path


def test_shipped_request_can_be_asked(clinic: Clinic) -> None:
    with clinic.town.call(clinic.server) as caller:
        quoted = caller.post("/v1/datasets/flchain/quotes", json.loads(SHIPPED.read_text(encoding="utf-8")), "unused")
    assert quoted.json()["affordable"] is True


def test_answer_is_bought_once_and_kept_to_the_letter(clinic: Clinic, example: tuple[str, ...], tmp_path: Path) -> None:
    request, saved = order(tmp_path, price={"mu": 0.21}), tmp_path / "release.json"
    before = clinic.charges()
    done = clinic.run(example, request, saved)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "flchain: " in said
    assert "of the budget" in said
    assert "answered as new" in said
    key = httpx.get(
        f"{clinic.server.url}/v1/keys",
        headers={"Authorization": f"Bearer {clinic.town.tokens[ANALYSTS[0]]}"},
        trust_env=False,
    ).json()["keys"][0]["public_key"]
    assert Release.load(saved).verify(key).verdict == "verified"
    text = saved.read_bytes()
    again = clinic.run(example, request, saved)
    assert "answered as replayed" in again.stdout + again.stderr
    assert saved.read_bytes() == text
    assert clinic.charges() == before + 1


def test_curl_shows_that_the_same_key_has_the_same_bytes(
    clinic: Clinic, example: tuple[str, ...], tmp_path: Path
) -> None:
    done = clinic.run(example, order(tmp_path, price={"mu": 0.23}), tmp_path / "release.json")
    assert done.stdout.endswith("again: the same bytes, answered as replayed\n"), done.stderr


def test_lost_answers_are_asked_for_again_with_the_same_key(
    clinic: Clinic, example: tuple[str, ...], tmp_path: Path
) -> None:
    request = order(tmp_path, price={"mu": 0.24}, rows={"map": "box"})
    before = clinic.charges()
    with LosingProxy(clinic.server.port, 2, path="/releases") as proxy:
        done = clinic.run(example, request, tmp_path / "release.json", url=proxy.url)
    assert done.returncode == 0, done.stderr
    assert [b" 201 " in lost.partition(b"\r\n")[0] for lost in proxy.lost] == [True, True]
    assert "answered as replayed" in done.stdout + done.stderr
    assert clinic.charges() == before + 1


def test_answer_of_a_job_is_asked_for_with_the_same_key(
    clinic: Clinic, example: tuple[str, ...], tmp_path: Path
) -> None:
    server = clinic.town.serve(CURATOR_SYNCHRONOUS_S="0")
    price = {"mu": 0.26}
    done = clinic.run(example, order(tmp_path, price=price), tmp_path / "release.json", url=server.url)
    server.terminate()
    assert done.returncode == 0, done.stderr
    assert "answered as replayed" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"price": {"epsilon": 30.0, "delta": 1e-6}},
            ["/problems/budget-exceeded", "The largest price that would pass"],
        ),
        ({"features": ["salary"]}, ["/problems/request-invalid", "/features/0: "]),
    ],
    ids=["budget", "column"],
)
def test_refusal_is_said_and_ends_the_example(
    clinic: Clinic, example: tuple[str, ...], tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    before = clinic.charges()
    done = clinic.run(example, order(tmp_path, **changes), tmp_path / "release.json")
    assert done.returncode == 1
    for word in [*words, "request req_"]:
        assert word in done.stderr
    assert not (tmp_path / "release.json").exists()
    assert clinic.charges() == before


def test_token_does_not_travel_in_clear(clinic: Clinic, example: tuple[str, ...], tmp_path: Path) -> None:
    for url in ("http://curator.example", "http://127.0.0.1.example", "http://127.0.0.1@curator.example"):
        done = clinic.run(example, order(tmp_path), tmp_path / "release.json", url=url)
        assert done.returncode == 1
        assert "must begin with https://" in done.stderr


@contextmanager
def studying(clinic: Clinic, folder: Path, project: str) -> Iterator[tuple[subprocess.Popen[str], Callable[..., Any]]]:
    """Start the study; give it, and what a privacy officer does at her own desk."""
    officer = clinic.town.full("olga")
    token = clinic.town.world.add_token(officer, Role.PRIVACY_OFFICER)
    common = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    analyst = common | {"CURATOR_URL": clinic.server.url, "CURATOR_TOKEN": clinic.town.tokens[ANALYSTS[0]]}
    command = [sys.executable, str(EXAMPLES / "study" / "study.py"), "--project", project]
    study = subprocess.Popen(
        [*command, "--person", clinic.town.full(ANALYSTS[0]), "--out", str(folder / "study")],
        env=analyst,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def decide(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "analyst_client.admin.command", "--json", *words],
            env=common | {"CURATOR_SERVER": clinic.server.url, "CURATOR_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=scaled(60),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    try:
        yield study, decide
    finally:
        study.kill()
        study.communicate()


def wait_for_proposal(decide: Callable[..., Any], project: str) -> Any:
    """Wait until a permit for a project is asked for."""

    def asked() -> list[Any]:
        return [one for one in decide("proposals", "list") if one["terms"] and one["terms"]["project"] == project]

    wait_for(asked, f"a permit for {project} is asked for", 60)
    return asked()[0]


def test_a_study_takes_one_decision(clinic: Clinic, tmp_path: Path) -> None:
    before = clinic.charges()
    with studying(clinic, tmp_path, "kidney") as (study, decide):
        asked = wait_for_proposal(decide, "kidney")
        assert clinic.charges() == before
        decide("proposals", "approve", asked["id"], "--reason", "as the board decided", "--yes")
        out, told = study.communicate(timeout=scaled(120))
    assert study.returncode == 0, told
    taken = json.loads(out.splitlines()[-1])
    assert set(taken) == {"machine_s", "person_s"}
    assert out.count(": verified") >= 4  # the release, the receipt, the answer, and each entry of the permit
    assert {"check.html", "keys.json", "ro-crate-metadata.json"} <= {path.name for path in tmp_path.glob("study/*/*")}
    (charge,) = [entry for entry in clinic.town.audit(POPULATION).charges if entry.get("permit") == asked["label"]]
    assert charge["project"] == "kidney"


def test_a_study_that_is_refused_says_why_and_pays_nothing(clinic: Clinic, tmp_path: Path) -> None:
    before = clinic.charges()
    with studying(clinic, tmp_path, "liver") as (study, decide):
        asked = wait_for_proposal(decide, "liver")
        decide("proposals", "reject", asked["id"], "--reason", "the protocol is missing")
        _, told = study.communicate(timeout=scaled(120))
    assert study.returncode == 1
    assert told.endswith("The permit was rejected: the protocol is missing\n")
    assert clinic.charges() == before
