"""The catalogue block: what it takes, what it refuses, and that manifests without it are what they were."""

import json
from pathlib import Path
from typing import Any

import pytest
from descriptions import CATALOGUE, block, declare, text_of
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.manifest import Manifest, ManifestError, load_catalogue, load_manifest


def write(folder: Path, text: str) -> Path:
    path = folder / "file.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_manifest_without_a_catalogue_has_the_digest_that_ledgers_hold() -> None:
    manifest = load_manifest(Path("examples/flchain/manifest.toml"))
    assert manifest.digest == "1c2be5f5ccbe20df9a6f999abf65e05d902fd8b9b2d9f189af9993b4f7c375be"
    assert "catalogue" not in json.loads(manifest.model_dump_json())


def test_a_stored_manifest_reads_back_as_it_was_written() -> None:
    manifest = declare()
    again = Manifest.model_validate_json(manifest.model_dump_json())
    assert again == manifest
    assert again.digest == manifest.digest
    assert again.catalogue is not None
    assert again.catalogue.temporal is not None


def test_a_catalogue_changes_the_digest_of_a_manifest() -> None:
    assert declare().digest != declare("").digest


def test_a_file_of_its_own_holds_the_same_block(tmp_path: Path) -> None:
    assert load_catalogue(write(tmp_path, CATALOGUE)) == declare().catalogue


def test_a_file_of_its_own_holds_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="population: Extra inputs"):
        load_catalogue(write(tmp_path, text_of()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('titel = "x"', "catalogue, titel: Extra inputs are not permitted"),
        ('identifier = "ftp://x.example"', "catalogue, identifier: this is a web address, such as https://"),
        ('identifier = "https://x.example/#y"', "without a fragment"),
        ('publisher = { name = "A" }', "catalogue, publisher: an organisation needs an email or a url"),
        ('contact = { name = "A", email = "a at b" }', "this is an e-mail address"),
        ('health_categories = ["EHR"]', "Input should be 'EHRS'"),
        ('languages = ["en"]', "catalogue, languages, 0: String should match"),
        ('spatial = ["Belgium"]', "this is a web address"),
        ("temporal = { start = 2003-01-01, end = 1995-01-01 }", "the start of a period must not be after its end"),
        ("retention = {}", "a period needs a start, an end or a comment"),
        ("issued = 2026", "this is a date, such as 2026-03-01"),
        ("themes = []", "at least 1 item"),
        ('title = "a\\nb"', "catalogue, title: String should match"),
        ('purpose = "a\\u0007b"', "catalogue, purpose: U+0007 changes"),
        ('access_rights = "secret"', "Input should be 'non-public', 'restricted' or 'public'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(ManifestError) as error:
        load_manifest(write(tmp_path, text_of(f"[catalogue]\n{change}\n")))
    assert message in str(error.value)


HOSTILE = st.text(st.sampled_from('<>"{}|\\^` \n\t\x00é#'), min_size=1)


@given(HOSTILE)
def test_no_address_holds_what_would_end_it(text: str) -> None:
    for name, value in {
        "identifier": f"https://x.example/{text}",
        "spatial": [f"https://{text}"],
        "contact": {"name": "A", "email": f"a{text}@x.example"},
    }.items():
        with pytest.raises(ValidationError):
            Catalogue.model_validate({name: value})


@pytest.mark.parametrize("name", sorted(block()))
def test_every_field_may_be_left_out(name: str) -> None:
    rest: dict[str, Any] = {key: value for key, value in block().items() if key != name}
    assert Catalogue.model_validate(rest) != Catalogue.model_validate(block())
