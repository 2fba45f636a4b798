"""The command line of the operator."""

import sys

from curator_service.kit.spelling import let_print


def main() -> None:
    """Run ``curator``, or say what is missing where only the analyst's library is installed."""
    try:
        from curator_service.cli.main import app  # noqa: PLC0415 -- the base install lacks what it needs
    except ModuleNotFoundError as error:
        sys.exit(f"curator needs the server's libraries ({error.name} is missing): pip install 'dp-curator[server]'")
    let_print(sys.stdout)
    let_print(sys.stderr, "backslashreplace")
    app()
