"""Answers of several kinds are one union in the OpenAPI document, which `kind` tells apart."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, TypeAdapter

from curator_service.kinds.gram.response_models import GRAM, GramAnswer
from curator_service.releases.response_models import ByKind


class OtherAnswer(BaseModel):
    kind: Literal["other"]


def schema_of(*models: type[BaseModel]) -> dict[str, Any]:
    return TypeAdapter(Annotated[Any, ByKind(*models)]).json_schema(ref_template="{model}")


def test_several_kinds_are_told_apart_by_their_name() -> None:
    union = schema_of(GramAnswer, OtherAnswer)
    assert union["discriminator"] == {
        "propertyName": "kind",
        "mapping": {"gram": "GramAnswer", "other": "OtherAnswer"},
    }
    assert union["oneOf"] == [{"$ref": "GramAnswer"}, {"$ref": "OtherAnswer"}]


def test_one_kind_is_its_own_model() -> None:
    assert schema_of(GramAnswer)["title"] == "GramAnswer"


def test_a_kind_names_itself_alike_in_request_quote_and_answer() -> None:
    for model in (GRAM.request, GRAM.quote, GRAM.answer):
        assert model.model_json_schema()["properties"]["kind"]["const"] == "gram"
