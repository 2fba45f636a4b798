"""A saved release is checked against the ledger entry that it carries, the curator's key, and other releases."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from client_examples import (
    FIRST,
    RECEIPT,
    RELEASE_TEXT,
    SECOND,
    STRANGER,
    THIRD,
    Ledger,
    Signer,
    compact,
    key_listing,
    release_body,
    signed,
    with_receipt,
)

from analyst_client import Release
from analyst_client.ledger.verification import compare, read_trusted_keys
from analyst_client.verify import main, verify_text

KEYS = {FIRST.key_id: FIRST.raw}
DERIVED = release_body() | {"derived_from": "rel_0", "cost": release_body()["cost"] | {"units": "0"}}


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def reordered(receipt: dict[str, Any], release: str = RELEASE_TEXT) -> str:
    """Return the text of a release with another receipt in place of its own."""
    return release[: release.rindex(',"receipt":')] + ',"receipt":' + compact(receipt) + "}"


def test_untouched_release_is_verified_with_the_key() -> None:
    outcome = verify_text(RELEASE_TEXT, KEYS)
    assert outcome.verdict == "verified"
    assert outcome
    assert outcome.checked == ("entry_hash", "answer_digest", "release, dataset and cost", "signature")
    assert (outcome.population, outcome.epoch, outcome.sequence) == ("olmsted", 1, 12)
    assert (outcome.entry_hash, outcome.previous_hash) == (RECEIPT["entry_hash"], RECEIPT["previous_hash"])
    assert outcome.key_id == FIRST.key_id


def test_without_a_key_an_untouched_release_is_consistent_and_its_signature_is_not_among_what_was_checked() -> None:
    outcome = verify_text(RELEASE_TEXT)
    assert outcome.verdict == "consistent"
    assert "signature" not in outcome.checked


def test_release_verifies_itself() -> None:
    release = Release.from_text(RELEASE_TEXT)
    assert release.verify() == verify_text(RELEASE_TEXT)
    assert release.verify(FIRST.public_key) == verify_text(RELEASE_TEXT, KEYS)
    with pytest.raises(ValueError, match="no public key"):
        release.verify("nonsense")


def test_receipt_alone_is_verified_however_it_is_laid_out() -> None:
    outcome = verify_text(json.dumps(RECEIPT, indent=2), KEYS)
    assert outcome.verdict == "verified"
    assert outcome.checked == ("entry_hash", "signature")


def test_release_derived_from_another_is_verified() -> None:
    text = with_receipt(DERIVED, kind="derive", units="0", source="rel_0")
    assert verify_text(text, KEYS).verdict == "verified"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"kind": "derive", "source": "rel_9", "units": "0"}, "source: the body states 'rel_0', the receipt 'rel_9'"),
        ({"kind": "derive", "units": "0"}, "source"),
        ({"kind": "derive", "source": "rel_0", "units": "7"}, "cost"),
        ({"kind": "reserve", "source": "rel_0", "units": "0"}, "is the charge of no release"),
        ({"kind": "limit", "source": "rel_0", "units": "0"}, "is the charge of no release"),
    ],
)
def test_entry_that_does_not_pay_for_what_was_derived_is_inconsistent(payload: dict[str, Any], reason: str) -> None:
    outcome = verify_text(with_receipt(DERIVED, **payload))
    assert outcome.verdict == "inconsistent"
    assert any(reason in said for said in outcome.reasons)


def test_derived_release_that_costs_something_is_inconsistent() -> None:
    body = DERIVED | {"cost": release_body()["cost"]}
    outcome = verify_text(with_receipt(body, kind="derive", source="rel_0"))
    assert outcome.reasons == ("cost: what is derived costs nothing, and the receipt states '56000000000'",)


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [*value, "more"]
    return value[:-1] + ("1" if value[-1] != "1" else "2")


@pytest.mark.parametrize("keys", [None, KEYS], ids=["no key", "key"])
@pytest.mark.parametrize("alone", [True, False], ids=["receipt", "release"])
@pytest.mark.parametrize("name", [name for name in RECEIPT if name not in {"format", "signature"}])
def test_every_member_of_a_receipt_that_is_changed_is_found(name: str, alone: bool, keys: Any) -> None:
    receipt = RECEIPT | {name: changed(RECEIPT[name])}
    assert verify_text(compact(receipt) if alone else reordered(receipt), keys).verdict == "inconsistent"


@pytest.mark.parametrize("name", list(RECEIPT))
def test_every_member_of_a_receipt_that_is_missing_is_found(name: str) -> None:
    receipt = {key: value for key, value in RECEIPT.items() if key != name}
    assert not verify_text(reordered(receipt), KEYS)


def test_member_that_is_added_to_a_receipt_is_found() -> None:
    assert verify_text(reordered(RECEIPT | {"note": "x"})).verdict == "inconsistent"


@pytest.mark.parametrize("name", ["population", "sequence", "epoch", "limit", "posted", "pending", "key_id"])
def test_entry_rewritten_with_its_hash_is_found_by_its_signature(name: str) -> None:
    """Whoever rewrites the body, the entry and every hash still lacks the key."""
    entry = {key: value for key, value in RECEIPT.items() if key not in {"entry_hash", "signature"}}
    forged = signed(entry | {name: changed(RECEIPT[name])}, FIRST) | {"signature": RECEIPT["signature"]}
    if name == "key_id":
        forged = signed(entry, SECOND) | {"signature": RECEIPT["signature"]}
    text = reordered(forged)
    assert verify_text(text).verdict == "consistent"
    assert verify_text(text, KEYS | {SECOND.key_id: SECOND.raw}).verdict == "inconsistent"


def test_forgery_by_another_key_under_the_curators_key_id_is_inconsistent() -> None:
    forged = signed({name: RECEIPT[name] for name in RECEIPT if name not in {"entry_hash", "signature"}}, STRANGER)
    assert verify_text(reordered(forged), KEYS).verdict == "unverifiable"
    assert verify_text(reordered(RECEIPT | {"signature": forged["signature"]}), KEYS).verdict == "inconsistent"


@pytest.mark.parametrize("i", range(64))
def test_every_byte_of_a_signature_counts(i: int) -> None:
    raw = bytearray(base64.b64decode(RECEIPT["signature"]))
    raw[i] ^= 1
    outcome = verify_text(compact(RECEIPT | {"signature": base64.b64encode(raw).decode()}), KEYS)
    assert outcome.verdict == "inconsistent"
    assert "signature" in outcome.reasons[0]
    assert outcome.checked == ()


@pytest.mark.parametrize("i", range(88))
def test_every_character_of_a_signature_counts(i: int) -> None:
    """Base64 has spare bits at its end: another way to write the same bytes is refused too."""
    text = RECEIPT["signature"]
    other = "B" if text[i] != "B" else "C"
    forged = RECEIPT | {"signature": text[:i] + other + text[i + 1 :]}
    assert verify_text(compact(forged), KEYS).verdict == "inconsistent"


def test_other_way_to_write_the_same_signature_is_refused() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = RECEIPT["signature"]
    other = text[:85] + alphabet[alphabet.index(text[85]) ^ 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(text)
    assert verify_text(compact(RECEIPT | {"signature": other}), KEYS).verdict == "inconsistent"


@pytest.mark.parametrize("signature", ["", "AAAA", "*" * 88, RECEIPT["signature"] + "\n", RECEIPT["signature"][:-2], 7])
def test_signature_that_is_none_is_inconsistent_even_without_a_key(signature: Any) -> None:
    assert verify_text(compact(RECEIPT | {"signature": signature})).verdict == "inconsistent"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("900.0", "900.5", "answer_digest: the body was changed"),
        ('{"id"', '{ "id"', "answer_digest: the body was changed"),
        ('"sequence":12', '"sequence":13', "entry_hash"),
        ('"sequence":12', '"sequence":12.0', "strings and integers"),
        ('"sequence":12', '"sequence":true', "strings and integers"),
        ('"snapshot":"11"', '"snapshot":null', "strings and integers"),
        ('"copies":1', '"copies":1.0', "strings and integers"),
        ('"copies":1', '"copies":null', "strings and integers"),
        ('"copies":1', '"copies":false', "strings and integers"),
    ],
)
def test_changed_text_is_inconsistent(old: str, new: str, reason: str) -> None:
    assert old in RELEASE_TEXT
    outcome = verify_text(RELEASE_TEXT.replace(old, new, 1), KEYS)
    assert outcome.verdict == "inconsistent"
    assert any(reason in said for said in outcome.reasons)


@pytest.mark.parametrize(
    "payload",
    [
        {"sequence": 0},
        {"epoch": 0},
        {"epoch": "1"},
        {"sequence": "12"},
        {"limit": 5},
        {"posted": "-1"},
        {"pending": "007"},
        {"posted": "1e3"},
        {"population": ""},
        {"previous_hash": "22"},
        {"previous_hash": "Z" * 64},
    ],
    ids=str,
)
def test_signed_entry_without_a_checkpoint_is_inconsistent(payload: dict[str, Any]) -> None:
    entry = {name: RECEIPT[name] for name in RECEIPT if name not in {"entry_hash", "signature"}}
    outcome = verify_text(compact(signed(entry | payload)), KEYS)
    assert outcome.verdict == "inconsistent"
    assert "no entry with a checkpoint" in outcome.reasons[0]


def test_member_after_the_receipt_is_inconsistent() -> None:
    forged = RELEASE_TEXT[:-1] + ',"extra":{"xtx":1}}'
    outcome = verify_text(forged)
    assert outcome.verdict == "inconsistent"
    assert "last member" in outcome.reasons[0]


def test_name_given_twice_cannot_be_checked() -> None:
    forged = RELEASE_TEXT[:-1] + ',"statistics":{}}'
    assert verify_text(forged).verdict == "unverifiable"


def test_receipt_of_another_release_is_inconsistent() -> None:
    outcome = verify_text(with_receipt(release_body() | {"id": "rel_2"}), KEYS)
    assert outcome.verdict == "inconsistent"
    assert outcome.reasons == ("release: the body states 'rel_2', the receipt 'rel_1'",)


def test_receipt_of_another_dataset_or_price_is_inconsistent() -> None:
    body = release_body()
    body["cost"] = body["cost"] | {"units": "1"}
    assert verify_text(with_receipt(body), KEYS).verdict == "inconsistent"
    assert verify_text(with_receipt(release_body(), dataset="other"), KEYS).verdict == "inconsistent"


def test_text_that_mentions_a_receipt_is_not_mistaken_for_one() -> None:
    body = release_body()
    body["features"] = [body["features"][0] | {"description": ',"receipt":{"format":2}'}, body["features"][1]]
    assert verify_text(with_receipt(body), KEYS)


def test_unusual_text_in_an_entry_is_hashed_as_it_is() -> None:
    assert verify_text(compact(Ledger().post(actor='âge\r\n\u2028 "quoted" \\ \x7f ☃')), KEYS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        compact(release_body()),
        RELEASE_TEXT.replace('"format":2', '"format":1'),
        RELEASE_TEXT.replace('"format":2', '"format":3'),
        RELEASE_TEXT.replace('"format":2', '"format":2.0'),
        RELEASE_TEXT.replace('"format":2', '"format":"2"'),
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
        '{"format":2,"entry_hash":"x","a":' + "[" * 900 + "]" * 900 + "}",
    ],
    ids=range(10),
)
def test_text_without_a_known_receipt_cannot_be_checked(text: str) -> None:
    assert not verify_text(text, KEYS)
    assert verify_text(text).verdict in {"unverifiable", "inconsistent"}


@pytest.mark.parametrize("number", [1, 3, 2.0, "2", True, None])
def test_receipts_of_another_format_are_unverifiable(number: Any) -> None:
    outcome = verify_text(compact(RECEIPT | {"format": number}))
    assert (outcome.verdict, outcome.reasons) == ("unverifiable", (f"receipts of format {number!r} are unknown",))


def test_local_release_cannot_be_checked() -> None:
    assert not Release.from_arrays([[1.0]]).verify()


def test_key_that_is_not_among_the_given_ones_is_unverifiable() -> None:
    outcome = verify_text(RELEASE_TEXT, {SECOND.key_id: SECOND.raw})
    assert outcome.verdict == "unverifiable"
    assert FIRST.key_id in outcome.reasons[0]
    assert "signature" not in outcome.checked


def test_changed_body_is_inconsistent_whatever_the_keys() -> None:
    assert verify_text(RELEASE_TEXT.replace("900.0", "901.0"), {}).verdict == "inconsistent"


# Several releases


def outcomes_of(receipts: Sequence[dict[str, Any]], keys: Any = KEYS) -> list[str]:
    return [outcome.verdict for outcome in compare(verify_text(compact(receipt), keys) for receipt in receipts)]


def test_entries_of_one_chain_agree() -> None:
    ledger = Ledger()
    receipts = [ledger.post() for _ in range(4)]
    assert outcomes_of([receipts[2], receipts[0], receipts[1], receipts[3], receipts[0]]) == ["verified"] * 5
    assert outcomes_of(receipts, None) == ["consistent"] * 4


def test_two_entries_at_one_place_are_a_fork() -> None:
    ledger = Ledger()
    other = ledger.copy()
    one, two, after = ledger.post(actor="a"), other.post(actor="b"), ledger.post()
    later = ledger.post()
    assert outcomes_of([one, two]) == ["inconsistent"] * 2
    assert outcomes_of([one, later, two]) == ["inconsistent", "verified", "inconsistent"]
    assert outcomes_of([two, after]) == ["verified", "inconsistent"]
    (first, _) = compare(verify_text(compact(receipt), KEYS) for receipt in (one, two))
    assert first.reasons == ("fork: another file has another entry at the same population, epoch and sequence",)


def test_entry_that_does_not_follow_the_one_before_is_a_fork() -> None:
    first, second = Ledger(11).post(), Ledger(12).post()
    assert (first["sequence"], second["sequence"]) == (12, 13)
    assert outcomes_of([second, first]) == ["inconsistent", "verified"]


@pytest.mark.parametrize("other", [{"population": "town"}, {"epoch": 2}])
def test_places_in_other_populations_and_epochs_are_other_places(other: dict[str, Any]) -> None:
    ledgers = Ledger(), Ledger(**other)
    assert outcomes_of([ledger.post(actor=str(i)) for i, ledger in enumerate(ledgers)]) == ["verified"] * 2


def test_forged_file_does_not_make_a_true_one_inconsistent() -> None:
    true = Ledger().post()
    forged = Ledger(signer=STRANGER).post(actor="forger")
    assert outcomes_of([true, forged]) == ["verified", "unverifiable"]
    assert outcomes_of([true, forged | {"signature": true["signature"], "key_id": FIRST.key_id}]) == [
        "verified",
        "inconsistent",
    ]


# Keys


def test_keys_are_read_from_text_and_from_files(tmp_path: Path) -> None:
    listing = write(tmp_path / "keys.json", json.dumps(key_listing(FIRST, SECOND), indent=1))
    every = {signer.key_id: signer.raw for signer in (FIRST, SECOND)}
    assert read_trusted_keys([FIRST.public_key]) == KEYS
    assert read_trusted_keys([write(tmp_path / "key", f"{FIRST.public_key}\n")]) == KEYS
    assert read_trusted_keys([FIRST.public_key, Path(write(tmp_path / "2", SECOND.public_key))]) == every
    assert read_trusted_keys([listing]) == every
    assert read_trusted_keys([FIRST.key_id, listing]) == every
    assert read_trusted_keys([listing, write(tmp_path / "id", SECOND.key_id)]) == {SECOND.key_id: SECOND.raw}


def test_listing_adds_only_what_the_stated_keys_endorse(tmp_path: Path) -> None:
    listing = write(tmp_path / "keys.json", compact(key_listing(STRANGER, SECOND)))
    assert read_trusted_keys([FIRST.public_key, listing]) == KEYS


@pytest.mark.parametrize("change", ["endorsement", "created_at"])
def test_key_with_a_broken_endorsement_is_not_trusted_and_neither_are_those_after_it(
    change: str, tmp_path: Path
) -> None:
    listing = key_listing(FIRST, SECOND, THIRD)
    listing["keys"][1][change] = {"endorsement": listing["keys"][2]["endorsement"], "created_at": "later"}[change]
    assert read_trusted_keys([write(tmp_path / "keys.json", compact(listing))]) == KEYS


@pytest.mark.parametrize(
    "text", ["", "{}", '{"keys":[]}', '{"keys":[{}]}', "[", FIRST.public_key + "A", compact(key_listing(FIRST))[:-1]]
)
def test_file_without_a_key_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no public key, and no file with one"):
        read_trusted_keys([write(tmp_path / "key", text)])


def test_key_listed_under_the_id_of_another_is_refused(tmp_path: Path) -> None:
    listing = key_listing(FIRST)
    listing["keys"][0]["public_key"] = STRANGER.public_key
    with pytest.raises(ValueError, match="not the id of its public key"):
        read_trusted_keys([write(tmp_path / "key", compact(listing))])


def test_id_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="an id alone"):
        read_trusted_keys([FIRST.key_id])


# The command


def test_command_without_a_key_says_that_nobody_vouches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "good.json", RELEASE_TEXT)
    bad = write(tmp_path / "bad.json", RELEASE_TEXT.replace("900.0", "901.0"))
    assert main([good, bad]) == 1
    said = capsys.readouterr().out
    assert f"{good}: consistent" in said
    assert f"{bad}: inconsistent" in said
    assert "No signature was checked" in said
    assert "nobody vouches" in said


@pytest.mark.parametrize("signer", [FIRST, SECOND])
def test_command_with_keys_verifies(signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing = write(tmp_path / "keys.json", compact(key_listing(FIRST, SECOND)))
    release = write(tmp_path / "release.json", Ledger(signer=signer).release())
    assert main([release, "--key", FIRST.public_key, "--key", listing]) == 0
    said = capsys.readouterr().out
    assert f"{release}: verified" in said
    assert "epoch 1, sequence 12, entry hash" in said
    assert "nobody vouches" not in said


@pytest.mark.parametrize(
    ("texts", "key", "code"),
    [
        ([RELEASE_TEXT], None, 0),
        ([RELEASE_TEXT, "{}"], None, 2),
        (["{}", RELEASE_TEXT.replace("900.0", "901.0")], None, 1),
        ([RELEASE_TEXT], FIRST, 0),
        ([RELEASE_TEXT], STRANGER, 2),
        ([RELEASE_TEXT.replace(RECEIPT["signature"], base64.b64encode(bytes(64)).decode())], FIRST, 1),
        ([RELEASE_TEXT, with_receipt(release_body(), actor="another")], FIRST, 1),
        ([RELEASE_TEXT, with_receipt(release_body(), actor="another")], None, 1),
    ],
)
def test_exit_code_is_that_of_the_worst_file(texts: list[str], key: Signer | None, code: int, tmp_path: Path) -> None:
    files = [write(tmp_path / str(i), text) for i, text in enumerate(texts)]
    assert main([*files, *([] if key is None else ["--key", key.public_key])]) == code


def test_file_that_cannot_be_read_cannot_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert main([str(tmp_path / "absent"), str(tmp_path / "binary")]) == 2
    assert "cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "verdict"), [([], "consistent"), (["--key", FIRST.public_key], "verified")])
def test_json_output_has_an_object_for_each_file(
    options: list[str], verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json", write(tmp_path / "a", RELEASE_TEXT), *options]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["verdict"], line["epoch"], line["sequence"]) == (verdict, 1, 12)


@pytest.mark.parametrize(("arguments", "said"), [([], "FILE"), (["a.json", "--key", "nonsense"], "no public key")])
def test_command_that_makes_no_sense_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err
