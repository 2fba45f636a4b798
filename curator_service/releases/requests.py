"""Reading of the body of a request for a release, by the kind that it names."""

from typing import Any

from curator_service.api.http import read_json, read_model
from curator_service.kinds.registry import KindRegistry
from curator_service.kinds.request import ReleaseRequest
from curator_service.kit.problems import RequestInvalid


def read_request(text: bytes, kinds: KindRegistry) -> ReleaseRequest:
    """Read the request of a release by its kind; one that names none is of the first.

    Raises
    ------
    BodyMalformed, RequestInvalid
    """
    content = read_json(text)
    name = content.get("kind", kinds.first.name) if isinstance(content, dict) else kinds.first.name
    if not isinstance(name, str) or name not in kinds:
        raise RequestInvalid.at("/kind", f"there is no such kind of release here; there is {', '.join(kinds.names)}")
    request: ReleaseRequest = read_model(content, kinds[name].request_model)
    return request


def describe_requests(kinds: KindRegistry) -> dict[str, Any]:
    """Return the schema of a request of any kind, for the OpenAPI document."""
    models = {kind.name: f"#/components/schemas/{kind.request_model.__name__}" for kind in kinds}
    return {
        "oneOf": [{"$ref": place} for place in models.values()],
        "discriminator": {"propertyName": "kind", "mapping": models},
    }
