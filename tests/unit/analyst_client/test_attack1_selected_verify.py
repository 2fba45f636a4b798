"""RED: a saved part is verified only if all that the file states was checked, or cut out of what was."""

import json

import pytest
from client_examples import FIRST, RECEIPT, RELEASE_TEXT, compact

from analyst_client import Release
from analyst_client.verify import verify_text

KEYS = {FIRST.key_id: FIRST.raw}
PART = json.loads(Release.from_text(RELEASE_TEXT).select(["sex"]).text)
INVENTED = {"id": "rel_0", "statistics": {"xtx": {"values": [1.0]}}, "noise": {"sd": {"xtx_diagonal": 0.0}}}


@pytest.mark.parametrize(
    "text",
    [
        compact(PART | INVENTED),
        compact(PART | {"receipt": RECEIPT} | INVENTED),
        compact(PART | {"of": compact(RECEIPT)}),
        compact(PART | {"features": ["nothing"]}),
        compact({**json.loads(RELEASE_TEXT), **INVENTED, **PART}),
    ],
    ids=["numbers beside it", "numbers and a receipt", "a receipt alone", "no such column", "a whole release beside it"],
)
def test_a_part_that_states_more_or_nothing_is_not_verified(text: str) -> None:
    """`Release` reads the signed whole, or nothing at all: whoever reads the file otherwise reads unsigned numbers."""
    assert verify_text(text, KEYS).verdict != "verified"
