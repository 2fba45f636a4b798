"""Request noisy sufficient statistics of a curator's data, and fit regressions on them locally.

>>> from analyst_client import AdaSSP, Release
>>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"], targets=["kappa"])
>>> AdaSSP().fit(release).coef_.round(3).tolist()
[0.3]
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from analyst_client.spelling import let_print

__version__ = "0.1.0"  # the same as in curator_service

let_print(sys.stdout)  # print() raises for no value, whatever the terminal's encoding is

if TYPE_CHECKING:
    from analyst_client._public import *  # noqa: F403 -- `_public` is the one list of names
else:

    def __getattr__(name: str) -> Any:
        """Import the public names: what runs a module of this package, as `curator-verify` does, needs none of them."""
        if name == "__all__" or not name.startswith("_"):
            public = import_module("analyst_client._public")
            if name == "__all__" or name in public.__all__:
                return getattr(public, name)
            if name in globals():  # a module, which was imported just now
                return globals()[name]
        raise AttributeError(f"module 'analyst_client' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("analyst_client._public").__all__})
