"""Forms of acts that have no page of their own: each follows from its act's declaration."""

import inspect
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, get_args, get_origin

from fastapi import APIRouter, Response

from curator_service.api.acts import Act, Parameter
from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.dashboard.pages.parts import read_number, read_price
from curator_service.kit.problems import Problem
from curator_service.ledger.schemas import PriceModel


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form.

    Attributes
    ----------
    name, about, kind : str
        Name and description of a parameter, and the kind of field that it is entered in.
    choices : list of str
    is_needed : bool
    """

    name: str
    about: str
    kind: str
    choices: list[str]
    is_needed: bool

    @classmethod
    def of(cls, parameter: Parameter) -> "FormField":
        """Return the field of a parameter."""
        about = parameter.field.description or ""
        return cls(parameter.name, about, _kind(parameter), _choices(parameter), parameter.is_needed)


def add_act(router: APIRouter, act: Act) -> None:
    """Add the page with an act's form, and the one to which it is posted; the form states every parameter."""
    assert act.action is not None
    assert act.of_body == [*act.parameters]
    address = f"/acts/{act.words.replace(' ', '/')}"

    def show(context: PageContext) -> Response:
        return _show(act, context)

    show.__doc__ = act.do.__doc__
    router.get(address)(page(act.action)(show))
    add_form(
        router,
        address,
        act,
        words=act.line,
        read=partial(_read, act),
        done=lambda answer: f"/admin{address}?done={'asked' if getattr(answer, 'state', '') == 'open' else 'done'}",
        again=lambda context, problem: _show(act, context, problem),
    )


def _show(act: Act, context: PageContext, problem: Problem | None = None) -> Response:
    return context.render(
        "act.html",
        200 if problem is None else int(problem.status),
        act=act,
        fields=[FormField.of(one) for one in act.of_body],
        entered=context.entered,
        faults=[] if problem is None else list_faults(problem),
    )


def _read(act: Act, context: PageContext) -> dict[str, Any]:
    """Return what a form states, as the members of a body; a field that is left empty is left out."""
    read = {one.name: _read_field(context, one) for one in act.of_body}
    return {name: value for name, value in read.items() if value not in (None, "", [])}


def _read_field(context: PageContext, parameter: Parameter) -> Any:
    text = context.text(parameter.name)
    match _kind(parameter):
        case "price":
            return read_price(context)
        case "checkbox":
            return bool(text)
        case "list":
            return text.replace(",", " ").split()
        case "numeric":
            return read_number(text, int)
        case "decimal":
            return read_number(text, float)
        case _:
            return text


def _kind(parameter: Parameter) -> str:
    """Return the kind of field that a parameter is entered in."""
    kind = parameter.field.annotation
    if get_origin(kind) is list:
        return "list"
    kinds: dict[Any, str] = {PriceModel: "price", bool: "checkbox", int: "numeric", float: "decimal"}
    return kinds.get(kind, "choice" if _choices(parameter) else "text")


def _choices(parameter: Parameter) -> list[str]:
    kind = parameter.field.annotation
    members = [one.value for one in kind] if inspect.isclass(kind) and issubclass(kind, Enum) else get_args(kind)
    return [one for one in members if isinstance(one, str)]
