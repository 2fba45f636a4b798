"""Names in the environment: a mistyped one is refused, with the likely name and never with its value."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from curator_service.kit.environment import OTHER_VARIABLES, PREFIX, find_unknown
from curator_service.settings import Settings, UnknownVariable, explain

ROOT = Path(__file__).resolve().parents[2]
SECRET = "swordfish-4711"


@pytest.fixture(autouse=True)
def none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{PREFIX}CONFIG", raising=False)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CURATOR_DATBASE_URL", "CURATOR_DATABASE_URL"),
        ("CURATOR_DATADIR", "CURATOR_DATA_DIR"),
        ("curator_anchor_dirs", "CURATOR_ANCHOR_DIR"),
        ("CURATOR_SERVICE_HOSTS", ""),
        ("CURATOR_XYZZY", ""),
    ],
)
def test_a_mistyped_variable_is_refused_with_the_likely_name(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    with pytest.raises(UnknownVariable) as refused:
        Settings()
    assert f"{name} is no setting{f': did you mean {meant}?' if meant else ''}" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CURATOR_PORT", "tcp://10.0.171.239:8000"),
        ("CURATOR_SERVICE_HOST", "10.0.171.239"),
        ("CURATOR_SERVICE_PORT", "8000"),
        ("CURATOR_SERVICE_PORT_HTTP", "8000"),
        ("CURATOR_PORT_8000_TCP", "tcp://10.0.171.239:8000"),
        ("CURATOR_PORT_8000_TCP_PROTO", "tcp"),
        ("CURATOR_PORT_8000_TCP_PORT", "8000"),
        ("CURATOR_PORT_8000_TCP_ADDR", "10.0.171.239"),
        ("CURATOR_DATABASE_PORT", "tcp://10.0.171.240:5432"),
        ("CURATOR_DATABASE_SERVICE_HOST", "10.0.171.240"),
    ],
)
def test_what_kubernetes_injects_for_a_service_of_our_name_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert Settings().port == 8000
    file = tmp_path / "curator.toml"
    file.write_text("port = 9000\n", encoding="utf-8")
    monkeypatch.setenv("CURATOR_CONFIG", str(file))
    assert Settings().port == 9000


def test_every_name_in_what_is_shipped_is_known() -> None:
    shipped = ["analyst_client", "curator_service", "deploy", "docs", "examples", "Dockerfile", "docker-compose.yml"]
    listed = subprocess.run(
        ["git", "grep", "-ohE", rf"{PREFIX}[A-Z0-9_]*[A-Z0-9]", "--", *shipped],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = set(listed.stdout.split()) - {f"{PREFIX}TEST"}  # the beginning of names
    assert {"CURATOR_DATA_DIR", "CURATOR_TOKEN", "CURATOR_BACKUP_FOLDER"} <= named
    unknown = find_unknown(dict.fromkeys(named, ""), Settings.model_fields)
    assert unknown == []
    assert set(OTHER_VARIABLES) <= named


def test_a_fault_in_a_setting_is_said_under_the_name_that_the_operator_wrote_and_without_its_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for field in Settings.model_fields:
        name = f"{PREFIX}{field}".upper()
        with monkeypatch.context() as patched:
            patched.setenv(name, f"{SECRET}://[")
            try:
                Settings()
            except (ValueError, OSError) as error:
                said = explain(error)
                assert any(re.match(rf"{name}\b", line) for line in said), said
                assert SECRET not in json.dumps(said), said
    file = tmp_path / "curator.toml"
    monkeypatch.setenv("CURATOR_CONFIG", str(file))
    for content, expected in (
        ("datbase_url = 1", "setting datbase_url is no setting: did you mean database_url?"),
        ("port = 'x'", "setting port: "),
        (f"port = {SECRET}", "the file that CURATOR_CONFIG names is not TOML"),
    ):
        file.write_text(content, encoding="utf-8")
        with pytest.raises((ValueError, OSError)) as refused:
            Settings()
        said = "; ".join(explain(refused.value))
        assert expected in said
        assert SECRET not in said
