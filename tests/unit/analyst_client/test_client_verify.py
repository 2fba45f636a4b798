"""A saved release is checked against the ledger entry that it carries."""

import json
from pathlib import Path

import pytest
from client_examples import RELEASE_TEXT, compact, release_body, with_receipt

from analyst_client import Release
from analyst_client.verify import main, verify_text

RECEIPT = json.loads(RELEASE_TEXT)["receipt"]


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def test_untouched_release_is_consistent() -> None:
    outcome = verify_text(RELEASE_TEXT)
    assert outcome
    assert (outcome.population, outcome.sequence, outcome.entry_hash) == ("olmsted", 12, RECEIPT["entry_hash"])


def test_release_verifies_itself() -> None:
    assert Release.from_text(RELEASE_TEXT).verify() == verify_text(RELEASE_TEXT)


def test_receipt_alone_is_consistent() -> None:
    outcome = verify_text(json.dumps(RECEIPT, indent=2))
    assert outcome
    assert outcome.checked == ("entry_hash",)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("900.0", "900.5", "answer_digest: the body was changed"),
        ('{"id"', '{ "id"', "answer_digest: the body was changed"),
        ('"sequence":12', '"sequence":13', "entry_hash"),
        ('"units":"56000000000","actor"', '"units":"1","actor"', "entry_hash"),
        ('"sequence":12', '"sequence":12.0', "not an integer"),
        ('"previous_hash":"22"', '"previous_hash":"23"', "entry_hash"),
    ],
)
def test_changed_text_is_inconsistent(old: str, new: str, reason: str) -> None:
    assert old in RELEASE_TEXT
    outcome = verify_text(RELEASE_TEXT.replace(old, new, 1))
    assert outcome.verdict == "inconsistent"
    assert any(reason in said for said in outcome.reasons)


def test_member_after_the_receipt_is_inconsistent() -> None:
    forged = RELEASE_TEXT[:-1] + ',"extra":{"xtx":1}}'
    outcome = verify_text(forged)
    assert outcome.verdict == "inconsistent"
    assert "last member" in outcome.reasons[0]


def test_name_given_twice_cannot_be_checked() -> None:
    forged = RELEASE_TEXT[:-1] + ',"statistics":{}}'
    assert verify_text(forged).verdict == "unverifiable"


def test_receipt_of_another_release_is_inconsistent() -> None:
    outcome = verify_text(with_receipt(release_body() | {"id": "rel_2"}))
    assert outcome.verdict == "inconsistent"
    assert outcome.reasons == ("release: the body states 'rel_2', the receipt 'rel_1'",)


def test_receipt_of_another_price_is_inconsistent() -> None:
    body = release_body()
    body["cost"] = body["cost"] | {"units": "1"}
    assert verify_text(with_receipt(body)).verdict == "inconsistent"


def test_text_that_mentions_a_receipt_is_not_mistaken_for_one() -> None:
    body = release_body()
    body["features"] = [body["features"][0] | {"description": ',"receipt":{"format":1}'}, body["features"][1]]
    assert verify_text(with_receipt(body))


@pytest.mark.parametrize(
    "text", ["", "[]", "3", compact(release_body()), RELEASE_TEXT.replace('"format":1', '"format":2')]
)
def test_text_without_a_known_receipt_cannot_be_checked(text: str) -> None:
    assert verify_text(text).verdict == "unverifiable"


def test_local_release_cannot_be_checked() -> None:
    assert not Release.from_arrays([[1.0]]).verify()


def test_command_says_each_verdict_and_what_it_does_not_prove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path / "good.json", RELEASE_TEXT)
    bad = write(tmp_path / "bad.json", RELEASE_TEXT.replace("900.0", "901.0"))
    assert main([good, bad]) == 1
    said = capsys.readouterr().out
    assert f"{good}: consistent" in said
    assert f"{bad}: inconsistent" in said
    assert "not signed yet" in said


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ([RELEASE_TEXT], 0),
        ([RELEASE_TEXT, "{}"], 2),
        (["{}", RELEASE_TEXT.replace("900.0", "901.0")], 1),
    ],
)
def test_exit_code_is_that_of_the_worst_file(texts: list[str], code: int, tmp_path: Path) -> None:
    assert main([write(tmp_path / str(i), text) for i, text in enumerate(texts)]) == code


def test_file_that_cannot_be_read_cannot_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert main([str(tmp_path / "absent"), str(tmp_path / "binary")]) == 2
    assert "cannot be read" in capsys.readouterr().out


def test_json_output_has_an_object_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", write(tmp_path / "a", RELEASE_TEXT)]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["verdict"], line["sequence"]) == ("consistent", 12)


def test_command_without_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "FILE" in capsys.readouterr().err
