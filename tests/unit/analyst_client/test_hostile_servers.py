"""A hostile server against ``curator-admin``: its text commands no terminal and no spreadsheet, nor passes as done."""

import argparse
import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_client.admin import CuratorAdmin
from analyst_client.admin import command as admin_command
from analyst_client.admin.listing import write_csv
from analyst_client.schema.administration import Spent
from analyst_client.schema.amounts import Amount

EVIL = "a\x1b[2J\x1b]0;x\x07\u202eb\u200f\x9bc\u2028d\r"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
AMOUNT = {"epsilon": 0.1, "delta": 1e-6, "mu": 0.5, "rho": 0.005, "units": "10"}
SPENT, MONTH = {"population": EVIL, "charges": 1, "spent": AMOUNT}, {"month": EVIL}
TOKEN = {
    "id": EVIL, "name": EVIL, "roles": [EVIL], "read_only": False, "created_at": EVIL, "expires_at": EVIL,
    "last_used_at": None, "revoked_at": None, "replaced_by": None,
}  # fmt: skip
PERMIT = {
    "id": EVIL, "version": 1, "project": EVIL, "people": [EVIL], "datasets": [EVIL], "purpose": EVIL,
    "legal_basis": EVIL, "conditions": EVIL, "limits": {EVIL: None}, "granted_at": EVIL, "expires_at": EVIL,
    "ended_at": EVIL,
}  # fmt: skip
OTHER = {"analyst": EVIL, "dataset": EVIL, "permit": EVIL, "project": EVIL, "expires_at": EVIL}
SECRET = f"cur_{'0' * 16}_{'A' * 43}"
WHY = ("--reason", "why", "--yes")


def run(monkeypatch: pytest.MonkeyPatch, answer: Any, *words: str, status: int = 200) -> tuple[int, str, str]:
    """Run the command against a server that answers so; return its status, and what it wrote."""
    sent = answer if isinstance(answer, httpx.Response) else httpx.Response(status, json=answer)
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        assert request.url.host == "127.0.0.1"
        return sent

    def enter(options: argparse.Namespace) -> CuratorAdmin:
        return CuratorAdmin(options.server, SECRET, transport=httpx.MockTransport(respond))

    monkeypatch.setattr(admin_command, "_enter", enter)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = admin_command.main(["--server", "http://127.0.0.1:1", *words])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"sealed": True, "reason": EVIL, "since": EVIL}, ("ledger", "status")),
        (PERMIT | {"still_usable": [OTHER]}, ("permits", "end", "prm_x", *WHY)),
        ({"permits": [PERMIT]}, ("permits", "list")),
        (TOKEN | {"token": SECRET}, ("tokens", "create", "x", "--role", "analyst")),
        ({"tokens": [TOKEN]}, ("tokens", "list")),
        ({"spending": [SPENT]}, ("spending", "--format", "csv")),
        ({"spending": [SPENT | MONTH]}, ("spending", "--format", "csv", "--by", "month")),
        ({"spending": [SPENT | MONTH]}, ("spending", "--format", "jsonl", "--by", "month")),
        ({"entries": [{"sequence": 1, EVIL: EVIL}]}, ("ledger", "register")),
        ({"entries": [{"sequence": 1, EVIL: EVIL}]}, ("ledger", "register", "--all")),
        ({EVIL: EVIL, "state": EVIL}, ("jobs", "cancel", "job_x", "--yes")),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
def test_what_it_says_commands_no_terminal(
    monkeypatch: pytest.MonkeyPatch, answer: Any, words: tuple[str, ...], as_json: bool
) -> None:
    _, out, err = run(monkeypatch, answer, *words, *(["--json"] if as_json else []))
    assert out or err
    assert OBEYED.findall(out.replace("\r\n", "\n")) == []
    assert OBEYED.findall(err) == []


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "/problems/permit-ended", "title": EVIL, "detail": EVIL, "status": 409},
        {"type": "/problems/request-invalid", "title": EVIL, "errors": [{"pointer": EVIL, "detail": EVIL}]},
        {"type": EVIL},
    ],
)
def test_nor_does_a_refusal(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    status, out, err = run(monkeypatch, answer, "permits", "list", status=409)
    assert (status, out) == (3 if answer == {"type": EVIL} else 1, "")  # of a type that no curator has: not reached
    assert OBEYED.findall(err) == []
    assert err.count("\n") == 1


@pytest.mark.parametrize("sent", [EVIL, f"{SECRET}\n", "", "x" * 100, f"{SECRET}\r\nX-Evil: 1"])
@pytest.mark.parametrize("words", [("tokens", "create", "x", "--role", "analyst"), ("tokens", "rotate", "--yes")])
def test_what_is_no_token_is_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch, sent: str, words: tuple[str, ...]
) -> None:
    status, out, err = run(monkeypatch, TOKEN | {"token": sent}, *words)
    assert (status, out) == (1, "")
    assert "malformed answer" in err


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(307, headers={"Location": "http://evil.example/"}), 3),
        (httpx.Response(200, text="[" * 100_000), 1),
        (httpx.Response(200, text='{"permits": [' + "9" * 5000 + "]}"), 1),
        (httpx.Response(200, text='{"permits": [], "permits": []}'), 1),
        (httpx.Response(200, content=b"\xff\xfe"), 1),
        (httpx.Response(204), 3),
        (httpx.Response(200, json={"permits": {"a": 1}}), 1),
    ],
)
def test_what_is_no_answer_is_an_error(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, code: int) -> None:
    status, out, err = run(monkeypatch, answer, "permits", "list")
    assert (status, out) == (code, "")
    assert err.startswith("error: ")


def test_text_that_no_file_can_hold_is_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate is JSON, and no UTF-8: what was done is said to be done."""
    answer = httpx.Response(200, text=json.dumps(PERMIT | {"purpose": "\ud800", "still_usable": []}))
    code, out, _ = run(monkeypatch, answer, "permits", "end", "prm_x", *WHY)
    assert code == 0
    out.encode()
    code, out, _ = run(monkeypatch, answer, "permits", "end", "prm_x", *WHY, "--json")
    assert code == 0
    out.encode()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_is_a_formula_in_any_spreadsheet(start: str) -> None:
    amount = Amount(0.1, 0.005, 0.5, 1e-6, 10)
    text = write_csv([Spent(f"{start}1", {"analyst": "x"}, 1, amount)], ["analyst"])
    assert f"'{start}1" in text


@pytest.mark.parametrize("word", ["--y", "--ye"])
def test_a_confirmation_is_skipped_by_its_whole_word_alone(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, PERMIT, "permits", "end", "prm_x", "--reason", "why", word)
    assert left.value.code == 2


@pytest.mark.parametrize(
    "text",
    ["[1]", "null", "1", '"x"', "{", "[" * 100_000, '{"reason": NaN}', '{"people": ["ada"], "people": ["ben"]}', ""],
)
def test_a_file_that_is_no_permit_s_terms_is_a_wrong_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "terms.json"
    file.write_text(text)
    for words in (("permits", "ask"), ("permits", "change", "prm_x")):
        status, out, err = run(monkeypatch, {}, *words, str(file))
        assert (status, out) == (2, "")
        assert err.startswith(f"error: {file}: ")


@pytest.mark.parametrize("subject", ["rel_/../../x", "rel_x/../..", "prm_\x00", "rel_..\\x"])
def test_evidence_is_of_an_id_and_its_file_lies_here(monkeypatch: pytest.MonkeyPatch, subject: str) -> None:
    status, _, err = run(monkeypatch, {}, "evidence", subject)
    assert status == 2, err
