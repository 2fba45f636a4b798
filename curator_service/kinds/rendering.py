"""Terms as answers state them."""

from collections.abc import Mapping
from typing import Any

from curator_service.kinds.features import state_basis
from curator_service.privacy.design import Column, Term, TermKind


def render_term(term: Term, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return a term, or a target, as answers state it, with the declarations of columns that have levels."""
    rendered: dict[str, Any] = {"name": term.name, "kind": term.kind}
    if term.column is not None:
        rendered["column"] = term.column
    if term.kind is TermKind.NUMERIC:
        rendered |= {"center": term.center, "scale": term.scale, "unit": term.unit}
    if term.basis is not None:
        rendered |= {"center": term.center, "scale": term.scale, **state_basis(term.basis), "place": term.place}
    if term.level is not None:
        rendered["level"] = columns[term.column or ""].levels[term.level]
    if term.factors:
        rendered["factors"] = [render_term(factor, columns) for factor in term.factors]
    return rendered
