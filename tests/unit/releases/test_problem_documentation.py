"""Every problem has a section in docs/problems.md, a title and a status of its own."""

import importlib
import pkgutil
import re
from pathlib import Path

import curator_service
from curator_service.kit.problems import Problem

ROOT = Path(__file__).parents[3]


def problems() -> list[type[Problem]]:
    """Return every problem of the service."""
    for module in pkgutil.walk_packages(curator_service.__path__, "curator_service."):
        if (
            not module.name.endswith(".__main__")
            and "migrations" not in module.name
            and not module.name.endswith("engines.spark")
        ):
            importlib.import_module(module.name)
    found, pending = [], [Problem]
    while pending:
        for problem in pending.pop().__subclasses__():
            pending.append(problem)
            is_of_pages = problem.__module__.startswith("curator_service.dashboard")  # which show no slugs
            if problem.__module__.startswith("curator_service") and not is_of_pages:
                found.append(problem)
    return found


def test_every_problem_has_a_section() -> None:
    headings = set(re.findall(r"^## `?([a-z-]+)`?\s*$", (ROOT / "docs" / "problems.md").read_text(), re.MULTILINE))
    slugs = {problem.slug for problem in problems()}
    assert slugs <= headings, sorted(slugs - headings)


def test_slugs_are_unique() -> None:
    slugs = [problem.slug for problem in problems()]
    assert len(set(slugs)) == len(slugs) >= 13
