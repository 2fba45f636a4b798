"""The client's table of acts, made of the OpenAPI document: `python tests/contract/client_acts.py` writes it anew."""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENT = Path(__file__).parent / "openapi.json"
MODULE = Path(__file__).parents[2] / "analyst_client" / "admin" / "acts.py"
VALUES = {
    "AccountModel": "Account",
    "CallerAnswer": "Identity",
    "DatasetAnswer": "Dataset",
    "EndedPermitAnswer": "EndedPermit",
    "HealthReportAnswer": "Health",
    "HeldJob": "Held",
    "HeldReservation": "Held",
    "HeldSession": "HeldSession",
    "SessionHistory": "SessionHistory",
    "NewTokenAnswer": "NewToken",
    "PermitAnswer": "Permit",
    "PrincipalAnswer": "Person",
    "ProposalAnswer": "Proposal",
    "AskedAnswer": "Question",
    "ProposalDetailAnswer": "Proposal",
    "SealAnswer": "Seal",
    "SurveyAnswer": "Survey",
    "InvitationsAnswer": "Invitations",
    "TokenAnswer": "Token",
}
"""The client's value of each answer."""
BY_HAND = {
    "cancel_job": "an answer that was lost is asked for again",
    "close_reservation": "an answer that was lost is asked for again",
    "close_session": "it is a DELETE with an answer",
    "get_checkpoint": "a checkpoint reads itself as it is signed",
    "list_entries": "entries are read page after page",
    "list_keys": "a key checks itself",
    "list_questions": "a page is asked for by what it is about",
    "list_register": "entries are read page after page",
    "list_spending": "charges are grouped as was asked",
    "rotate_token": "the new token is sent from then on",
}
"""Methods of `CuratorAdmin` that say more than the table."""
PRICE = "#/components/schemas/PriceModel"
HEAD = '''"""Acts of administration, made of the OpenAPI document by ``tests/contract/client_acts.py``."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from analyst_client.admin.sending import Command, Named, Sender, segment
from analyst_client.admin.listing import Listing
from analyst_client.local.surveys import Invitations, Survey
from analyst_client.schema.administration import Account, EndedPermit, Held, NewToken, Person, Question, Seal, Token
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.health import Health
from analyst_client.schema.identity import Identity
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.requests import choose_key
from analyst_client.schema.sessions import HeldSession, SessionHistory


class Acts(Sender):
    """The acts of administration, a method for each."""
'''


class Given(NamedTuple):
    """A parameter of an act."""

    name: str
    schema: Mapping[str, Any]
    place: str
    is_needed: bool
    text: str

    @property
    def annotation(self) -> str:
        """Its type in the client."""
        if self.place == "path":
            return "Named"
        if self.name == "terms":
            return "Mapping[str, Any]"
        if self.schema.get("$ref") == PRICE:
            return "Mapping[str, float]"
        may_be_left = not self.is_needed and "default" not in self.schema
        return self._kind(self.schema) + (" | None" if may_be_left else "")

    def _kind(self, schema: Mapping[str, Any]) -> str:
        if "enum" in schema:
            return f"Literal[{', '.join(map(repr, schema['enum']))}]"
        kinds = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        return f"Sequence[{self._kind(schema['items'])}]" if "items" in schema else kinds[schema.get("type", "string")]

    @property
    def signature(self) -> str:
        """Its place in a signature."""
        return f"{self.name}: {self.annotation}" + ("" if self.is_needed else f" = {self.schema.get('default')!r}")


class Act:
    """An act of the document, as the client has it."""

    def __init__(self, document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> None:
        self.document, self.method, self.path = document, method.upper(), path
        self.name, self.about = operation["operationId"], operation["x-act"]
        self.line = re.sub(r" \([a-z ,]+\)$", "", operation["summary"])  # without the roles
        described = operation.get("parameters", [])
        self.has_key = any(one["name"] == "Idempotency-Key" for one in described)
        self.given = [
            Given(one["name"], one["schema"], one["in"], one["in"] == "path", one.get("description", ""))
            for one in described
            if one["in"] in {"path", "query"}
        ]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        self.given += [Given("terms", {}, "body", True, "Its terms, as on the wire.")] if self.about.get("file") else []
        self.given += list(self._members(body)) if body and not self.about.get("file") else []
        status = next(status for status in sorted(operation["responses"]) if status.startswith("2"))
        self.answer = (
            operation["responses"][status]["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
        )

    def _members(self, body: Mapping[str, Any]) -> Iterator[Given]:
        model = self._schema(body["$ref"])
        needed = model.get("required", [])
        rest = sorted(set(model["properties"]) - set(needed))
        for name in (*needed, *rest):
            schema = model["properties"][name]
            is_reference = "$ref" in schema and schema["$ref"] != PRICE
            found = self._schema(schema["$ref"]) if is_reference else schema
            yield Given(name, found, "body", name in needed, schema.get("description", ""))

    def _schema(self, address: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document["components"]["schemas"][address.rpartition("/")[2]]
        return found

    @property
    def value(self) -> str:
        """The class of what it answers, or of each thing that it lists."""
        items = self.about.get("items")
        if items is None:
            return VALUES.get(self.answer, "dict[str, Any]")
        of = self._schema(self.answer)["properties"][items]["items"]
        return VALUES.get(of.get("$ref", "").rpartition("/")[2], "dict[str, Any]")

    def write_method(self) -> str:
        """Return the method of `CuratorAdmin`."""
        of_path = [one for one in self.given if one.place == "path"]
        positional = [one for one in self.given if one.is_needed]
        rest = [one.signature for one in self.given if not one.is_needed]
        rest += ["idempotency_key: str | None = None"] if self.has_key else []
        signature = ", ".join(["self", *(one.signature for one in positional), *(["*", *rest] if rest else [])])
        items = self.about.get("items")
        returned = f"Listing[{self.value}]" if items else self.value
        address = '"' + self.path + '"'
        for one in of_path:
            address = "f" * (not address.startswith("f")) + address.replace(
                f"{{{one.name}}}", f"{{segment({one.name})}}"
            )
        sent = ["terms"] if self.about.get("file") else []
        if self.method == "POST" and not sent:
            members = ", ".join(f'"{one.name}": {self._sent(one)}' for one in self.given if one.place == "body")
            sent = [f"{{{members}}}"]
        key = ["choose_key(idempotency_key)"] if self.has_key else []
        if self.method == "POST":
            done = f"{self.value}.read(self._post({', '.join([address, *sent, *key])}))"
        elif items:
            done = f'self._list("{items.capitalize()}", {address}, "{items}", {self.value}.read)'
        else:
            done = f"{self.value}.read(self._get({address}))"
        text = f"def {self.name}({signature}) -> {returned}:\n" + self._docstring(returned) + f"    return {done}\n"
        return textwrap.indent(text, "    ")

    def _sent(self, one: Given) -> str:
        made = {"Mapping": f"dict({one.name})", "Sequence": f"list({one.name})"}
        return made.get(one.annotation.partition("[")[0], one.name)

    def _docstring(self, returned: str) -> str:
        stated = [(one.name, one.annotation, one.text or one.name.capitalize()) for one in self.given]
        key = "The same for each retry of one request; a new random one if none is given."
        stated += [("idempotency_key", "str | None", key)] if self.has_key else []
        lines = [f'"""{self.line}.']
        if stated:
            lines += ["", "Parameters", "----------"]
            for name, annotation, text in stated:
                lines += [
                    f"{name} : {annotation}",
                    *textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    "),
                ]
            told = textwrap.indent(textwrap.fill(self._schema(self.answer)["description"], 100), "    ")
            lines += ["", "Returns", "-------", returned, told, '"""']
        else:
            lines[-1] += '"""'
        return textwrap.indent("\n".join(lines) + "\n", "    ")

    def write_command(self) -> str:
        """Return its line in the table of commands."""
        stated = [repr(self.name), repr(tuple(self.about.get("positional", ())))]
        stated += [f"{name}={self.about[name]!r}" for name in ("options", "consequence") if name in self.about]
        return f'    "{self.about["command"]}": Command({", ".join(stated)}),\n'


def make_module(document: Mapping[str, Any]) -> str:
    """Return the text of the client's module."""
    acts = [
        Act(document, method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if "x-act" in operation
    ]
    acts.sort(key=lambda act: act.about["command"])
    methods = "\n".join(act.write_method() for act in acts if act.name not in BY_HAND)
    commands = "".join(act.write_command() for act in acts)
    text = f"{HEAD}\n{methods}\n\nCOMMANDS: Mapping[str, Command] = {{\n{commands}}}\n"
    ruff = [str(Path(sys.executable).parent / "ruff")]
    for words in (["check", "--fix-only", "--select", "I,F401", "-"], ["format", "-"]):
        named = [*ruff, *words[:-1], "--stdin-filename", str(MODULE), "-"]
        text = subprocess.run(named, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    MODULE.write_text(make_module(json.loads(DOCUMENT.read_text(encoding="utf-8"))), encoding="utf-8")
