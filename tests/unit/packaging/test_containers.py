"""The image and the compose file: three folders that must not be lost together, two roles, no secret of their own."""

import re
from pathlib import Path

from curator_service.api.connections import STOP_S
from curator_service.readiness import ANSWER_S
from curator_service.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")

SERVICES = re.findall(r"^  (\w+):$", COMPOSE.partition("\nservices:\n")[2].partition("\nsecrets:\n")[0], re.MULTILINE)


def folders() -> dict[str, str]:
    """Return the folders that the image's settings name."""
    return dict(re.findall(r"CURATOR_(\w+)=(/\w+)", IMAGE))


def service(name: str) -> str:
    found = re.search(rf"^  {name}:\n(.*?)(?=^  \S|^\S|\Z)", COMPOSE, re.MULTILINE | re.DOTALL)
    return found[1]


def listed(name: str, member: str) -> set[str]:
    found = re.search(rf"^    {member}:\n((?:      - .*\n)+)", service(name), re.MULTILINE)
    return set() if found is None else set(re.findall(r"- (\S+)", found[1]))


def test_data_keys_and_anchor_are_folders_of_their_own_that_the_service_alone_enters() -> None:
    named = folders()
    assert {"DATA_DIR", "KEYS_DIR", "ANCHOR_DIR"} <= set(named)
    assert {name.lower() for name in named} <= set(Settings.model_fields)
    assert len(set(named.values())) == len(named)
    made = re.search(r"install --directory --mode 0700 --owner curator --group curator (.*)", IMAGE)
    volumes = re.search(r"^VOLUME \[(.*)\]", IMAGE, re.MULTILINE)
    assert set(made[1].split()) == set(re.findall(r'"(.*?)"', volumes[1])) == set(named.values())
    assert "USER 10001:10001" in IMAGE


def test_each_folder_is_a_volume_of_its_own() -> None:
    mounted = dict(re.findall(r"^      - (\w+):(/\w+)$", service("curator"), re.MULTILINE))
    declared = re.findall(r"^  (\w+):$", COMPOSE.partition("\nvolumes:\n")[2].partition("\nnetworks:")[0], re.MULTILINE)
    assert set(mounted.values()) == set(folders().values())
    assert set(mounted) < set(declared)


def test_the_service_is_not_the_owner_of_the_tables() -> None:
    owner, curator = (
        re.search(r"postgresql://(\w+)@database:5432/curator", service(name)) for name in ("upgrade", "curator")
    )
    assert owner[1] != curator[1]
    assert f"GRANT curator_service TO {curator[1]};" in service("roles")


def test_passwords_are_files_and_the_server_never_has_the_owner_s() -> None:
    """Nothing secret is in the environment, which `docker inspect` and every child process shows."""
    assert re.search(r"PASSWORD\w*: *\$", COMPOSE) is None
    named = re.findall(r"(\w*PASSWORD_FILE): (\S+)", COMPOSE)
    assert {file for _, file in named} == {"/run/secrets/owner", "/run/secrets/service"}
    for name, _file in named:
        setting = name.removeprefix("CURATOR_").lower()
        assert setting in Settings.model_fields or name == "POSTGRES_PASSWORD_FILE"
    given = {name: listed(name, "secrets") for name in SERVICES}
    assert given == {
        "database": {"owner"},
        "upgrade": {"owner"},
        "roles": {"owner", "service"},
        "curator": {"service"},
        "backup": {"service"},
        "prometheus": set(),
        "proxy": set(),
    }
    for name in SERVICES:
        assert {Path(file).name for file in re.findall(r"/run/secrets/\w+", service(name))} == given[name]


def test_every_container_is_confined() -> None:
    """No root file system that can be written, no capability, no more of the host than is said."""
    shared = COMPOSE.partition("x-confined: &confined\n")[2].partition("\nx-curator")[0]
    for line in (
        "read_only: true",
        "cap_drop:\n    - ALL",
        "no-new-privileges:true",
        "pids_limit:",
        "mem_limit:",
        "cpus:",
        "nofile:",
    ):
        assert line in shared
    assert "x-curator: &curator\n  <<: *confined\n" in COMPOSE
    for name in SERVICES:
        text = service(name)
        assert re.search(r"^    <<: \*(confined|curator)$", text, re.MULTILINE), name
        assert (
            re.search(r"privileged|read_only: false|cap_drop|security_opt|pid:|network_mode|docker.sock", text) is None
        ), name
    added = {name: listed(name, "cap_add") for name in SERVICES}
    assert {name: caps for name, caps in added.items() if caps} == {"proxy": {"NET_BIND_SERVICE"}}


def test_what_is_written_on_is_a_volume_or_of_memory() -> None:
    assert listed("database", "tmpfs") >= {"/run/postgresql", "/tmp"}
    assert "user: postgres" in service("database")
    assert "PATH=/opt/curator/bin" in IMAGE


def test_only_the_proxy_reaches_out_and_is_reached() -> None:
    declared = COMPOSE.rpartition("\nnetworks:\n")[2]
    internal = set(re.findall(r"^  (\w+):\n    internal: true", declared, re.MULTILINE))
    assert internal == {"inside", "front", "watch"}
    joined = {name: listed(name, "networks") for name in SERVICES}
    assert joined == {
        "database": {"inside"},
        "upgrade": {"inside"},
        "roles": {"inside"},
        "curator": {"inside", "front", "watch"},
        "backup": {"inside"},
        "prometheus": {"watch"},
        "proxy": {"front", "outside"},
    }
    assert [name for name in SERVICES if "    ports:\n" in service(name)] == ["proxy"]
    assert "./deploy/Caddyfile:/etc/caddy/Caddyfile:ro" in service("proxy")
    assert (ROOT / "deploy" / "Caddyfile").is_file()


def test_whoever_serves_is_given_time_to_end() -> None:
    for name in ("database", "curator", "proxy"):
        grace = re.search(r"stop_grace_period: (\d+)s", service(name))
        assert int(grace[1]) > STOP_S or name == "proxy"
    ready = re.search(r"readyz', timeout=(\d+)", service("curator"))
    assert int(ready[1]) > ANSWER_S
