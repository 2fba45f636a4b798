"""The OpenAPI document states a schema for every answer: answers fit it to the member, and so does a client of it."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datamodel_code_generator import DataModelType, InputFileType, PythonVersion, generate
from jsonschema import Draft202012Validator
from pydantic import BaseModel, RootModel, TypeAdapter
from recorded_answers import Recorded, read_golden, record_life

from curator_service.app import create_app
from curator_service.entries.recovery import HistoryChargesModel, HistoryModel
from curator_service.kit.problems import Problem
from curator_service.settings import Settings

Document = dict[str, Any]
Schema = dict[str, Any]
_REF = "#/components/schemas/"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Document:
    app = create_app(Settings(data_dir=tmp_path_factory.mktemp("document")))
    app.state.curator.database.dispose()
    served: Document = json.loads(json.dumps(app.openapi()))
    return served


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    return record_life(tmp_path_factory.mktemp("life"))


@pytest.fixture(scope="module")
def answers(life: list[Recorded]) -> list[Recorded]:
    """Return every answer that has a body."""
    return [answer for answer in (*life, *read_golden()) if answer.body]


def responses(document: Document) -> Iterator[tuple[str, str, str, Schema]]:
    """Yield method, path, status and description of each response that is not a problem's."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                if not status.endswith("XX"):
                    yield method, path, status, response


def validator(document: Document, schema: Schema) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator({**schema, "components": document["components"]})


def reached(document: Document, schema: Schema) -> set[str]:
    """Return the names of all schemas that one leads to."""
    found: set[str] = set()
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            name = part.get("$ref", "").removeprefix(_REF)
            if name and name not in found:
                found.add(name)
                pending.append(document["components"]["schemas"][name])
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return found


def find_faults(document: Document, answer: Recorded) -> list[str]:
    """Return what is wrong with an answer, and where."""
    found = validator(document, answer.schema(document)).iter_errors(answer.content)
    return [
        f"{answer.method} {answer.path} {answer.status} {fault.json_path}: {fault.message[:300]}" for fault in found
    ]


def test_every_answer_has_a_schema_of_closed_objects(document: Document) -> None:
    walked = 0
    for method, path, status, response in responses(document):
        if status == "304":
            assert "content" not in response
            continue
        ((_, content),) = response["content"].items()
        assert content["schema"], (method, path, status)
        for name in reached(document, content["schema"]):
            schema = document["components"]["schemas"][name]
            assert schema.get("type") != "object" or schema["additionalProperties"] is False, name
        walked += 1
    assert walked >= 26


def test_every_route_refuses_with_problems(document: Document) -> None:
    for path, item in document["paths"].items():
        for operation in item.values():
            refused = {status: r["content"] for status, r in operation["responses"].items() if status.endswith("XX")}
            assert set(refused) == ({"4XX", "5XX"} if path.startswith("/v1") else set())
            for content in refused.values():
                assert content == {"application/problem+json": {"schema": {"$ref": f"{_REF}Problem"}}}


def test_the_document_names_no_schema_that_it_has_not(document: Document) -> None:
    assert reached(document, document["paths"]) <= set(document["components"]["schemas"])


def test_the_document_has_every_problem_there_is(document: Document) -> None:
    slugs, pending = set(), [Problem]
    while pending:
        subclasses = [
            found for found in pending.pop().__subclasses__() if found.__module__.startswith("curator_service")
        ]
        slugs |= {f"/problems/{problem.slug}" for problem in subclasses}
        pending += subclasses
    assert set(document["components"]["schemas"]["Problem"]["discriminator"]["mapping"]) == slugs


def test_the_life_has_every_answer_that_the_document_has(document: Document, life: list[Recorded]) -> None:
    answered = {(id(answer.operation(document)), str(answer.status)) for answer in life}
    for method, path, status, response in responses(document):
        if "application/zip" in response.get("content", {}):
            continue  # its files are read elsewhere
        assert (id(document["paths"][path][method]), status) in answered, (method, path, status)
    kinds = {entry["kind"] for answer in life if answer.path.startswith("/v1/ledger/") for entry in entries(answer)}
    entry = document["components"]["schemas"]["LedgerAnswer"]["properties"]["entries"]["items"]
    assert kinds == set(entry["discriminator"]["mapping"])
    problems = {answer.content["type"] for answer in life if answer.media_type == "application/problem+json"}
    mapping = document["components"]["schemas"]["Problem"]["discriminator"]["mapping"]
    assert problems >= {slug for slug, model in mapping.items() if model != f"{_REF}PlainProblem"}


def entries(answer: Recorded) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.content.get("entries", [])
    return found


def test_every_answer_fits_its_schema(document: Document, answers: list[Recorded]) -> None:
    assert len(answers) > 150
    assert [fault for answer in answers for fault in find_faults(document, answer)] == []


def members(content: Any, within: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every object of an answer with the name of each of its members, but of what maps ids or names."""
    if isinstance(content, dict):
        for name, value in content.items():
            if within not in {"voided", "people", "datasets", "limits"}:
                yield content, name
            yield from members(value, name)
    elif isinstance(content, list):
        for item in content:
            yield from members(item)


def thin(content: Any) -> Any:
    """Return an answer with one object of those in a list that have the same members."""
    if isinstance(content, dict):
        return {name: thin(value) for name, value in content.items()}
    if not isinstance(content, list):
        return content
    kept = {
        repr((i if not isinstance(one, dict) else "", shape_of(one))): one for i, one in enumerate(map(thin, content))
    }
    return list(kept.values())


def shape_of(content: Any) -> Any:
    """Return the names of an object's members, and of those within; what tells kinds apart is a part of it."""
    if isinstance(content, dict):
        kinds = [content.get(name) for name in ("kind", "type", "statistic") if isinstance(content.get(name), str)]
        return kinds, [(name, shape_of(value)) for name, value in sorted(content.items())]
    return [shape_of(one) for one in content] if isinstance(content, list) else None


def take_apart(content: Any) -> Iterator[Any]:
    """Yield an answer once for each object of its longest list, with that one alone: schemas are of each by itself."""
    lists = [name for name, value in content.items() if isinstance(value, list)] if isinstance(content, dict) else []
    longest = max(lists, key=lambda name: len(content[name]), default=None)
    if longest is None or not content[longest]:
        yield content
        return
    for item in content[longest]:
        yield content | {longest: [item]}


def test_a_member_that_is_renamed_anywhere_is_found(document: Document, life: list[Recorded]) -> None:
    first = {(answer.method, answer.path, answer.status): answer for answer in life if answer.body}
    for answer in first.values():
        validate = validator(document, answer.schema(document)).is_valid
        tried: set[tuple[str, ...]] = set()
        for part in take_apart(thin(answer.content)):
            assert validate(part), (answer.method, answer.path)
            # Of objects that are alike, such as the terms of a request, one is enough.
            alike = {(*sorted(inside), name): (inside, name) for inside, name in members(part)}
            for inside, name in (alike[key] for key in alike.keys() - tried):
                before = dict(inside)
                inside[f"{name}_renamed"] = inside.pop(name)
                assert not validate(part), (answer.method, answer.path, name)
                inside.clear()
                inside.update(before)
            tried |= alike.keys()


def members_set(value: Any) -> Iterator[tuple[str, str]]:
    """Yield every member that was set in what a generated model has read, with its model's name."""
    if isinstance(value, RootModel):
        yield from members_set(value.root)
    elif isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield type(value).__name__, type(value).model_fields[name].alias or name
            yield from members_set(getattr(value, name))
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from members_set(item)


OF_STRAYS = {("ReconcileEntry", "set_aside")}
"""What only a ledger has into which somebody else wrote: tests/integration/test_stray_entries.py reads it."""
OF_VERSIONS = {("DatasetEntry", "version"), ("DatasetEntry", "ended")}
"""What only a ledger has whose rows were cut: tests/integration/test_versions.py reads it."""
OF_DECLARED = {("DatasetAnswer", "same_people_as")}
"""What only a dataset has that declares it: tests/unit/datasets/test_same_people.py reads it."""
OF_RULES = {(name, "rules") for name in ("PermitEntry", "PermitAnswer", "EndedPermitAnswer", "PermitTerms")}
OF_RULES |= {("PermitRules", "kinds")}
"""What only a permit with rules has: tests/contract/test_foreign_rule.py reads it."""
OF_HISTORIES = {
    *(("ReconcileEntry", member) for member in ("history", "charges", "approved_by", "beside")),
    *(("HistoryModel", member) for member in HistoryModel.model_fields),
    *(("HistoryChargesModel", member) for member in HistoryChargesModel.model_fields),
}
"""What only a ledger has beside which another one went on: tests/integration/test_second_histories.py reads it."""


def test_a_generated_client_reads_every_answer(document: Document, answers: list[Recorded], tmp_path: Path) -> None:
    """Its models are made of the document alone; each answer is read by the one that the document names for it."""
    declared = {
        (name, member)
        for answer in answers
        for name in reached(document, answer.schema(document))
        for member in document["components"]["schemas"][name].get("properties", ())
    }
    found: set[tuple[str, str]] = set()
    source, target = tmp_path / "openapi.json", tmp_path / "generated_answers.py"
    names = {}
    for answer in answers:
        schema = answer.schema(document)
        name = names.setdefault(json.dumps(schema), f"Answered{len(names)}")
        document["components"]["schemas"][name] = schema
    source.write_text(json.dumps(document), encoding="utf-8")
    generate(
        source,
        input_file_type=InputFileType.OpenAPI,
        output=target,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        formatters=[],
    )
    spec = importlib.util.spec_from_file_location(target.stem, target)
    assert spec is not None
    assert spec.loader is not None
    generated = importlib.util.module_from_spec(spec)
    sys.modules[target.stem] = generated
    try:
        spec.loader.exec_module(generated)
        for answer in answers:
            model = TypeAdapter(getattr(generated, names[json.dumps(answer.schema(document))]))
            read = model.validate_json(answer.body)
            assert model.dump_python(read, mode="json", by_alias=True, exclude_unset=True) == answer.content
            found |= {*members_set(read)}
    finally:
        del sys.modules[target.stem]
    unseen = OF_RULES | OF_STRAYS | OF_VERSIONS | OF_DECLARED | OF_HISTORIES
    assert found == declared - unseen  # no more than answers have
