"""Templates of pages: every value is escaped, and no name is left undefined. Only here does text become HTML.

A value is made visible, too, before it is escaped: what turns the direction of text or hides some of it is shown as
JSON writes it, so that nobody approves other words than those that they read.

A page that stands in a file of its own extends ``page.html`` of this package: it holds its style, and fetches nothing.
"""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from curator_service.kit.names import make_visible


def _finalize(value: Any) -> Any:
    """Make visible what is not HTML already; nothing is shown as the word None."""
    if value is None:
        raise ValueError("a template shows a value that is not there")
    return make_visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def make_environment(package: str) -> Environment:
    """Return the environment of a package's templates, which may use those of this one."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
