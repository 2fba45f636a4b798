"""The command line of the operator."""

import sys

from curator_service.kit.spelling import UNREADABLE, let_print


def main() -> None:
    """Run ``curator``."""
    from curator_service.cli.main import app  # noqa: PLC0415 -- a module of the same name

    let_print(sys.stdout)
    let_print(sys.stderr, "backslashreplace")
    try:
        app()
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":  # so Python keeps the bytes of a word that it cannot read
            raise
        sys.stderr.write(f"error: {UNREADABLE}\n")
        sys.exit(2)
