"""The image and the compose file: three folders that must not be lost together, two roles, no secret of their own."""

import re
from pathlib import Path

from curator_service.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def folders() -> dict[str, str]:
    """Return the folders that the image's settings name."""
    return dict(re.findall(r"CURATOR_(\w+)=(/\w+)", IMAGE))


def service(name: str) -> str:
    """Return the text of one service."""
    found = re.search(rf"^  {name}:\n(.*?)(?=^  \S|^\S|\Z)", COMPOSE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_data_keys_and_anchor_are_folders_of_their_own_that_the_service_alone_enters() -> None:
    named = folders()
    assert {"DATA_DIR", "KEYS_DIR", "ANCHOR_DIR"} <= set(named)
    assert {name.lower() for name in named} <= set(Settings.model_fields)
    assert len(set(named.values())) == len(named)
    made = re.search(r"install --directory --mode 0700 --owner curator --group curator (.*)", IMAGE)
    volumes = re.search(r"^VOLUME \[(.*)\]", IMAGE, re.MULTILINE)
    assert made is not None
    assert volumes is not None
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
    assert owner is not None
    assert curator is not None
    assert owner[1] != curator[1]
    assert f"GRANT curator_service TO {curator[1]};" in service("roles")
    assert "OWNER_PASSWORD" not in service("curator")


def test_every_password_is_asked_for() -> None:
    passwords = re.findall(r"PASSWORD: (.*)", COMPOSE)
    assert len(passwords) == 5
    assert all(re.fullmatch(r"\$\{(\w+):\?set \1\}", password) for password in passwords)
