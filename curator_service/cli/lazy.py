"""A group of commands, each imported when it is called: a list of them loads neither database nor arithmetic."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup


class Place(NamedTuple):
    """The module of a command or a group of commands, and its line in a list of commands."""

    module: str
    name: str
    help: str


class LazyGroup(TyperGroup):
    """Group of commands that imports the module of a command when it is called."""

    places: ClassVar[Mapping[str, Place]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: as_command(name, _unloaded, place.help) for name, place in self.places.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, imported."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None else self.load(str(name)), rest

    @classmethod
    def load(cls, name: str) -> Any:
        """Import a command. Its own docstring, where it has one, says more than the list."""
        place = cls.places[name]
        return as_command(name, getattr(import_module(place.module), place.name), place.help)


def as_command(name: str, found: Any, text: str) -> Any:
    """Return a group of commands, or a function, as typer's command."""
    if isinstance(found, typer.Typer):
        found.info.name, found.info.help = name, text
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=None if found.__doc__ else text)(found)
    return typer.main.get_command(alone)


def _unloaded() -> None:
    pass  # a docstring would be shown in place of the help
