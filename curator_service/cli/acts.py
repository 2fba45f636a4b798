"""Commands of acts: each follows from its act's declaration."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from curator_service.api.acts import Act, Acts, Host, Parameter
from curator_service.api.context import RequestContext
from curator_service.approvals.acts import acts as approvals
from curator_service.cli.common import AsJson, actor, fail, open_curator, refusals
from curator_service.cli.tables import show
from curator_service.container import Curator
from curator_service.identity.policy import Objects, Role
from curator_service.identity.repository import Principal
from curator_service.identity.service import Caller
from curator_service.kit.wire import load_json
from curator_service.ledger.acts import acts as ledger
from curator_service.ledger.schemas import PriceModel
from curator_service.permits.acts import acts as permits
from curator_service.questions.acts import acts as questions
from curator_service.register.acts import acts as register

Token = Annotated[
    str, typer.Option(envvar="CURATOR_TOKEN", prompt="Token", hide_input=True, help="Token of the person who acts.")
]
SLICES = (ledger, approvals, permits, register, questions)
"""Those with acts that are done at the machine."""
_EMPTY = inspect.Parameter.empty
_PRICE = {
    "epsilon": "As (epsilon, delta); alone under pure.",
    "delta": "Delta, beside epsilon.",
    "mu": "As mu of Gaussian differential privacy.",
    "rho": "As rho = mu²/2 of zero-concentrated DP.",
}


def make_group(group: str, slices: Iterable[Acts] = SLICES) -> typer.Typer:
    """Return the commands of a group, of the acts that are done at the machine."""
    made = typer.Typer(no_args_is_help=True)
    for act in (one for acts in slices for one in acts):
        words, _, name = act.words.partition(" ")
        if act.host is not None and words == group:
            made.command(name)(make_command(act))
    return made


def make_command(act: Act) -> Callable[..., None]:
    """Return the function of a command, with the signature that typer reads."""

    def command(**given: Any) -> None:
        as_json, token = given.pop("as_json"), given.pop("token", None)
        read = _read(act, given)
        writes = act.is_sealed and act.method != "GET"
        if act.check is not None:
            with refusals():
                act.check(**read)
        with open_curator(to_write=writes, creates=act.makes) as curator:
            answer = act(_enter(curator, act, token), **read)
            show(act, read, answer, curator.identity.people.look, as_json=as_json)

    options = [one for parameter in act.parameters for one in _options(act, parameter)]
    if act.host is Host.HOLDER:
        options.append(_keyword("token", Token))
    options.append(_keyword("as_json", AsJson, False))
    options.sort(key=lambda one: (one.kind, one.default is not _EMPTY))
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in options}
    command.__name__, command.__doc__ = act.name, act.do.__doc__
    return command


def _enter(curator: Curator, act: Act, token: str | None) -> RequestContext:
    """Return the context of the operator at the machine, or of the holder of a token."""
    if act.host is Host.OPERATOR:
        operator = Principal(actor(), actor(), frozenset({Role.OPERATOR}))
        return RequestContext(curator, Caller(operator, ""), Objects.ALL, is_at_host=True)
    assert act.action is not None
    caller = curator.identity.identify(f"Bearer {token or ''}")
    return RequestContext(curator, caller, curator.identity.authorize(caller.principal, act.action))


def _keyword(name: str, annotation: Any, default: Any = _EMPTY) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _options(act: Act, parameter: Parameter) -> list[inspect.Parameter]:
    """Return the arguments and options that a parameter is given by."""
    at_host, name = parameter.at_host(), parameter.name
    if at_host.annotation is None:
        return []
    help_ = parameter.field.description or ""
    if parameter.name == act.whole:
        file = typer.Argument(dir_okay=False, metavar="FILE", help=f"{help_.rstrip('.')}, as JSON.")
        return [_keyword(name, Annotated[Path, file])]
    kind = FieldInfo.from_annotation(at_host.annotation)
    if kind.annotation is PriceModel:
        return [_keyword(one, Annotated[float | None, typer.Option(help=text)], None) for one, text in _PRICE.items()]
    if parameter.is_positional:
        metavar = name.removesuffix("_id").upper()
        return [_keyword(name, Annotated[kind.annotation, typer.Argument(metavar=metavar, help=help_)])]
    bounds = {type(one): one for one in kind.metadata}
    limits = {"min": bounds[Ge].ge, "max": bounds[Le].le} if {Ge, Le} <= set(bounds) else {}
    option = typer.Option(_flag(parameter), help=help_, **limits)
    return [_keyword(name, Annotated[kind.annotation, option], at_host.default)]


def _flag(parameter: Parameter) -> str:
    return parameter.at_host().option or f"--{parameter.name.replace('_', '-')}"


def _read(act: Act, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that options state, held to their limits; a mistake ends the command."""
    read = {}
    for parameter in act.parameters:
        name, at_host = parameter.name, parameter.at_host()
        if at_host.annotation is None:
            read[name] = at_host.default
            continue
        if parameter.is_positional and name != act.whole:
            read[name] = given[name]  # a name, which the service looks up or refuses
            continue
        if name == act.whole:
            stated = read_json(given[name])
        elif FieldInfo.from_annotation(at_host.annotation).annotation is PriceModel:
            stated = {one: given[one] for one in _PRICE if given[one] is not None}
        else:
            stated = given[name]
        try:
            read[name] = TypeAdapter(at_host.annotation).validate_python(stated)
        except ValidationError as error:
            fail(_explain(error, given[name] if name == act.whole else _flag(parameter)))
    return read


def _explain(error: ValidationError, of: object) -> str:
    """Say which option or member is wrong, and why."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    named = f"--{where}" if where in _PRICE else where or of
    return f"{named}: {first['msg'].removeprefix('Value error, ')}"


def read_json(file: Path) -> Any:
    """Read a file as a body is read; one that is none ends the command."""
    try:
        return load_json(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except ValueError:
        fail(f"{file}: it is not JSON, names a member twice, or is nested deeper than any request is")


populations, limits, proposals, permits_group, principals, tokens, keys = map(
    make_group, ("populations", "limits", "proposals", "permits", "principals", "tokens", "keys")
)
