"""Saved releases: a part is saved as the whole answer, and a release of several steps as the answers of all.

A changed release is saved as the whole answer too, beside the changes and what came out of them.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from analyst_client.error_base import ServiceError
from analyst_client.schema.wire import Fields

SELECTION = "selection"
"""Kind of a file that holds a part; no curator answers so."""
STEPS = "steps"
"""Kind of a file that holds a release and the answers of the steps beside it; no curator answers so."""
CHANGES = "changes"
"""Kind of a file that holds a release in other words, units or reference levels; no curator answers so."""


class Selection(NamedTuple):
    """A saved part: the text of the whole answer, and what was selected. Its numbers are cut out anew."""

    text: str
    features: tuple[str, ...]
    targets: tuple[str, ...]


def wrap(text: str, features: Sequence[str], targets: Sequence[str]) -> str:
    """Write a part as the whole answer, character by character, beside what was selected."""
    members = {"kind": SELECTION, "features": list(features), "targets": list(targets), "of": text}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)


def unwrap(body: Fields) -> Selection | None:
    """Read what `wrap` wrote; None for any other text.

    Raise `ServiceError` when it says more or less than `wrap` writes: nobody signed what stands beside the whole.
    """
    if body.members.get("kind") != SELECTION:
        return None
    if body.members.keys() != {"kind", *Selection._fields[1:], "of"}:
        raise ServiceError("malformed answer: a part states its features, its targets and its whole, and nothing else")
    return Selection(body.text("of"), body.texts("features"), body.texts("targets"))


def wrap_steps(text: str, steps: Sequence[str]) -> str:
    """Write a release and the answers of its other steps, character by character."""
    return json.dumps({"kind": STEPS, "steps": list(steps), "of": text}, separators=(",", ":"), ensure_ascii=False)


def unwrap_steps(body: Fields) -> tuple[str, tuple[str, ...]] | None:
    """Read what `wrap_steps` wrote: the release and its steps; None for any other text. More or less is refused."""
    if body.members.get("kind") != STEPS:
        return None
    if body.members.keys() != {"kind", "steps", "of"}:
        raise ServiceError("malformed answer: a release of several steps states them and itself, and nothing else")
    return body.text("of"), body.texts("steps")


class Changed(NamedTuple):
    """A saved change: the text of the release before, and the order that its columns stood in."""

    text: str
    features: tuple[str, ...]
    targets: tuple[str, ...]


def wrap_changes(before: Changed, changes: Sequence[dict[str, Any]], result: dict[str, Any]) -> str:
    """Write a release that was changed, character by character, with the changes and what came out of them."""
    members = {"kind": CHANGES, "features": before.features, "targets": before.targets, "changes": list(changes)}
    return json.dumps(members | {"result": result, "of": before.text}, separators=(",", ":"), ensure_ascii=False)


def unwrap_changes(body: Fields) -> Changed | None:
    """Read the release that was changed; None for any other text. More or less is refused."""
    if body.members.get("kind") != CHANGES:
        return None
    if body.members.keys() != {"kind", "features", "targets", "changes", "result", "of"}:
        raise ServiceError(
            "malformed answer: a changed release states its columns, its changes, their result and its whole, and "
            "nothing else"
        )
    return Changed(body.text("of"), body.texts("features"), body.texts("targets"))
