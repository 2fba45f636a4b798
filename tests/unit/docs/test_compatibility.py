"""Demands and promises of docs/compatibility.md hold for the client of this repository."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from analyst_client import CuratorClient
from analyst_client.errors import ReceiptInvalidError
from analyst_client.tutorial import ADDRESS, REQUEST, Recorded, curator_key

ASKED = REQUEST | {"epsilon": 1.0}


def with_more(value: Any) -> Any:
    """Return JSON in which every object has a member more, of a later version."""
    if isinstance(value, dict):
        return {"of_a_later_version": {"n": [1]}, **{name: with_more(member) for name, member in value.items()}}
    return [with_more(item) for item in value] if isinstance(value, list) else value


class Later(Recorded):
    """Answers as the recorded curator, with more members."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        return httpx.Response(answer.status_code, json=with_more(json.loads(answer.read())))


def client(transport: httpx.BaseTransport) -> CuratorClient:
    return CuratorClient(ADDRESS, "a-token", key=curator_key(), memory=None, max_attempts=1, transport=transport)


def test_members_of_a_later_version_are_ignored() -> None:
    later, present = client(Later()), client(Recorded())
    assert later.dataset("flchain") == present.dataset("flchain")
    assert later.budget("flchain") == present.budget("flchain")
    quotes = [asked.quote("flchain", **ASKED) for asked in (later, present)]
    quotes = [replace(quote, request={}) for quote in quotes]  # which is kept as it was answered
    assert quotes[0] == quotes[1]


def test_what_is_signed_has_no_member_more() -> None:
    with pytest.raises(ReceiptInvalidError):
        client(Later()).release("flchain", **ASKED)
