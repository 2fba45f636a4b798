"""The kind of release itself. What it reads is imported late: a check of a file needs no arithmetic."""

from analyst_client.kinds.base import Kind
from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.saving import SELECTION, unwrap
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


class Gram(Kind):
    """Noisy sufficient statistics; a saved part of them holds the whole."""

    name = KIND
    saved_names = (SELECTION,)

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read noisy sufficient statistics, or a part of them."""
        from analyst_client.kinds.gram.release import Release  # noqa: PLC0415 -- see above

        return Release.from_text(text, answered)

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read their cost and noise."""
        from analyst_client.kinds.gram.quote import Quote  # noqa: PLC0415 -- see above

        return Quote.read(fields)

    def find_whole(self, body: Fields) -> str | None:
        """Return the whole of a part."""
        part = unwrap(body)
        return None if part is None else part.text


GRAM = Gram()
