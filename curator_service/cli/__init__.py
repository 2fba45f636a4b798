"""The command line of the operator."""

import sys

from curator_service.kit.spelling import UNREADABLE, let_print


def main() -> None:
    """Run ``curator``, or say what is missing where only the analyst's library is installed."""
    try:
        from curator_service.cli.main import app  # noqa: PLC0415 -- the base install lacks what it needs
    except ModuleNotFoundError as error:
        sys.exit(f"curator needs the server's libraries ({error.name} is missing): pip install 'dp-curator[server]'")
    let_print(sys.stdout)
    let_print(sys.stderr, "backslashreplace")
    try:
        app()
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":  # so Python keeps the bytes of a word that it cannot read
            raise
        sys.stderr.write(f"error: {UNREADABLE}\n")
        sys.exit(2)
