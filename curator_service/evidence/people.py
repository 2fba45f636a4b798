"""Who acted, in words."""

from curator_service.evidence.facts import CURATOR, Evidence
from curator_service.kit.html import Markup, escape, fill, said

_OPERATOR = "operator:"


def describe_actor(evidence: Evidence, actor: str) -> Markup:
    """Return who did something: a principal's name, an operator at the machine, or the curator itself."""
    if actor == CURATOR:
        return escape("the curator, at an upgrade")
    if actor.startswith(_OPERATOR):
        return fill("{who}, operator at the machine", who=said(actor.removeprefix(_OPERATOR)))
    return said(evidence.name_of(actor))


def name_actor(evidence: Evidence, actor: str) -> str:
    """Return who did something, for a file of a program."""
    return f"{actor.removeprefix(_OPERATOR)} (operator)" if actor.startswith(_OPERATOR) else evidence.name_of(actor)
