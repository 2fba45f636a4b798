"""Acts: each is declared once, and its route, its document, its command and the client's method follow from that."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from annotated_types import Ge, Le
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from curator_service.api.context import RequestContext
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME_PATTERN
from curator_service.kit.problems import RequestInvalid
from curator_service.kit.wire import STRICT

if TYPE_CHECKING:  # commands at the machine load no server
    from curator_service.api.http import Call

After = Annotated[int, Field(ge=0, le=2**62, description="Show what comes after this sequence.")]
PAGE = 100
"""How many are shown where nobody says how many."""


class Host(Enum):
    """Actor of an act that is a command on the curator's machine."""

    OPERATOR = "operator"
    """Whoever is at the machine, as ``operator:USER``: no header and no token can name that."""
    HOLDER = "holder"
    """The holder of a token, as over HTTP."""


class RetryKey(Enum):
    """Need of an idempotency key: with it, a retry after a lost answer does not act twice."""

    OPTIONAL = False
    REQUIRED = True


@dataclass(frozen=True, slots=True)
class AtHost:
    """Part of an annotation: what the parameter is in a command on the machine.

    Attributes
    ----------
    annotation : type or None
        None where a command does not ask for it.
    option : str
        Name of its option; empty where that is the parameter's.
    default : object
    """

    annotation: Any
    option: str = ""
    default: Any = inspect.Parameter.empty


Count = Annotated[
    int, Field(ge=1, le=1000, description="How many to show."), AtHost(Annotated[int, Field(ge=1, le=10_000)])
]
"""How many of a list are shown at once; more at the machine, where nobody else waits."""


@dataclass(frozen=True)
class Parameter:
    """Something that is given to an act.

    Attributes
    ----------
    name : str
    annotation : type
        With what limits it.
    default : object
        `inspect.Parameter.empty` where it must be given.
    place : str
        The part of a request that it is in.
    """

    name: str
    annotation: Any
    default: Any
    place: Literal["path", "query", "body"]

    @property
    def is_needed(self) -> bool:
        """True if the parameter must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def is_positional(self) -> bool:
        """True if a command takes it by its place: it names an object."""
        is_name = any(getattr(one, "pattern", None) == NAME_PATTERN for one in self.field.metadata)
        return self.place == "path" or (self.is_needed and (is_name or self.name.endswith("_id")))

    @functools.cached_property
    def field(self) -> FieldInfo:
        """Its type, description and limits."""
        return FieldInfo.from_annotation(self.annotation)

    def at_host(self) -> AtHost:
        """Return what it is in a command on the machine."""
        own = [one for one in self.field.metadata if isinstance(one, AtHost)] or [AtHost(self.annotation)]
        is_stated = own[0].default is not inspect.Parameter.empty
        return own[0] if is_stated else replace(own[0], default=self.default)

    def read(self, call: "Call") -> Any:
        """Read it from the query of a call.

        Raises
        ------
        RequestInvalid
        """
        text = call.query.get(self.name)
        if text is None and not self.is_needed:
            return self.default
        kind = self.field.annotation
        if kind is int:
            limits = {type(one): one for one in self.field.metadata}
            return call.count(self.name, limits[Ge].ge, limits[Le].le)
        if kind is bool:
            if text not in {"false", "true"}:
                raise RequestInvalid.at(f"?{self.name}", f"the query's {self.name} must be true or false")
            return text == "true"
        try:
            return TypeAdapter(self.annotation).validate_python(text)
        except ValidationError as error:
            raise RequestInvalid.at(f"?{self.name}", f"the query's {self.name}: {error.errors()[0]['msg']}") from None

    def describe(self) -> dict[str, Any]:
        """Describe it for the OpenAPI document."""
        schema = TypeAdapter(self.annotation).json_schema()
        description = schema.pop("description", "")
        if schema.get("anyOf", [])[1:] == [{"type": "null"}]:  # left out, and never null
            schema = schema["anyOf"][0]
        elif not self.is_needed:
            schema["default"] = self.default
        needed = {"required": True} if self.is_needed else {}
        return {"name": self.name, "in": self.place, "schema": schema, "description": description} | needed


@dataclass(frozen=True)
class Act:
    """Act that a caller may do.

    Attributes
    ----------
    do : callable
        Takes a `RequestContext` and the parameters. Its docstring begins with the act's line of help.
    words : str
        Its command, such as ``permits end``; empty where the analyst's client alone has a use for it.
    action : Action or None
        What the caller must be allowed to do; None of an act that has no route.
    method, path : str
        Its address over HTTP; empty of an act that has no route.
    host : Host or None
        Who acts in a command on the machine; None where there is no such command.
    consequence : str
        What cannot be undone: a command from afar asks first.
    key : RetryKey or None
    status : int
        Of an answer.
    waits : str
        When an answer waits for another person, and has the status 202.
    answer : type or None
        The model of an answer, where the function returns it as a mapping.
    responses : dict
        Of the OpenAPI document, where answers have several models.
    asks : type or str
        Model of a body that the function reads itself, or the name of a schema of the document; empty for no body.
    example : dict
        Of a body.
    headers : tuple of dict
        Of a request, for the OpenAPI document.
    has_page : bool
        Whether the dashboard makes a page with its form; an act without it may have a page of its own there.
    in_file : bool
        Whether commands take the body as a file of JSON.
    is_sealed : bool
        Whether a command that writes is refused under a seal.
    makes : bool
        Whether a command makes an embedded database where there is none.
    check : callable or None
        Takes the parameters of a command, and refuses what no curator would take, before one is opened or made.
    wrap : callable or None
        Goes around the route's endpoint.
    """

    do: Callable[..., Any]
    words: str = ""
    action: Action | None = None
    method: str = ""
    path: str = ""
    host: Host | None = None
    consequence: str = ""
    key: RetryKey | None = None
    status: int = 200
    waits: str = ""
    answer: Any = None
    responses: Mapping[int | str, dict[str, Any]] = field(default_factory=dict)
    asks: type[BaseModel] | str = ""
    example: Mapping[str, Any] | None = None
    headers: tuple[Mapping[str, Any], ...] = ()
    has_page: bool = False
    in_file: bool = False
    is_sealed: bool = True
    makes: bool = False
    check: Callable[..., object] | None = None
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None

    def __call__(self, context: RequestContext, **given: Any) -> Any:
        """Do it."""
        return self.do(context, **given)

    @property
    def name(self) -> str:
        """The name of its function, and of the client's method."""
        return self.do.__name__

    @property
    def line(self) -> str:
        """Summary of the act, in one line without a period."""
        return inspect.cleandoc(self.do.__doc__ or "").partition("\n")[0].rstrip(".")

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the act."""
        hints = typing.get_type_hints(self.do, include_extras=True)
        _, *own = inspect.signature(self.do).parameters.values()
        places = {True: "path", False: "query" if self.method in {"GET", "DELETE"} else "body"}
        return tuple(
            Parameter(one.name, hints[one.name], one.default, places[f"{{{one.name}}}" in self.path])  # type: ignore[arg-type]
            for one in own
        )

    @property
    def of_body(self) -> list[Parameter]:
        """Parameters that stand in the body."""
        return [one for one in self.parameters if one.place == "body"]

    @functools.cached_property
    def whole(self) -> str:
        """The parameter that is the whole body; empty where the body has a member for each parameter."""
        kinds = {one.name: one.field.annotation for one in self.of_body}
        models = [name for name, kind in kinds.items() if inspect.isclass(kind) and issubclass(kind, BaseModel)]
        return models[0] if models and len(kinds) == 1 else ""

    @functools.cached_property
    def body(self) -> type[BaseModel] | None:
        """The model of its body."""
        if self.whole:
            return cast(type[BaseModel], self.of_body[0].field.annotation)
        return self.make_model(self.of_body) if self.of_body else None

    def make_model(self, members: Iterable[Parameter]) -> type[BaseModel]:
        """Make a model with a member for each parameter."""
        fields: dict[str, Any] = {one.name: (one.annotation, ... if one.is_needed else one.default) for one in members}
        title = "".join(map(str.capitalize, self.name.split("_"))) + "Request"
        return create_model(title, __config__=STRICT, __doc__=f"{self.line}.", **fields)

    @property
    def about(self) -> str:
        """Description of the act after its summary."""
        return inspect.cleandoc(self.do.__doc__ or "").partition("\n")[2].strip().replace("\n", " ")

    def read(self, call: "Call") -> dict[str, Any]:
        """Return the parameters that stand in the query or the body of a call.

        Raises
        ------
        MediaTypeUnsupported, BodyMalformed, RequestInvalid
        """
        of_query = {one.name: one.read(call) for one in self.parameters if one.place == "query"}
        if self.body is None:
            return of_query
        is_absent = not call.body and not any(one.is_needed for one in self.of_body)
        return self.take(self.body() if is_absent else call.parse(self.body))

    def take(self, body: BaseModel) -> dict[str, Any]:
        """Return the parameters that a body states."""
        return {self.whole: body} if self.whole else {one: getattr(body, one) for one in type(body).model_fields}


class Acts:
    """The acts of a slice.

    Parameters
    ----------
    tag : str
        Their heading in the OpenAPI document.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._acts: list[Act] = []

    def __iter__(self) -> Iterator[Act]:
        """Return the acts, as they were declared."""
        return iter(self._acts)

    def route(self, action: Action, address: str, words: str = "", **how: Any) -> Callable[[Callable[..., Any]], Act]:
        """Declare an act that has a route.

        Parameters
        ----------
        action : Action
            What the caller must be allowed to do.
        address : str
            Method and path, such as ``GET /v1/permits``.
        words : str
            Its command, where it has one.
        **how
            Further attributes of `Act`.
        """
        method, _, path = address.partition(" ")
        return self._declare(words=words, action=action, method=method, path=path, **how)

    def command(self, words: str, **how: Any) -> Callable[[Callable[..., Any]], Act]:
        """Declare an act of the operator at the machine, which has no route.

        Parameters
        ----------
        words : str
            Its command.
        **how
            Further attributes of `Act`.
        """
        return self._declare(words=words, host=Host.OPERATOR, **how)

    def _declare(self, **attributes: Any) -> Callable[[Callable[..., Any]], Act]:
        def declare(do: Callable[..., Any]) -> Act:
            self._acts.append(Act(do, **attributes))
            return self._acts[-1]

        return declare
