"""The kind of release itself. What it reads is imported late: a check of a file needs no arithmetic."""

from analyst_client.kinds.base import Kind
from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.saving import SELECTION, STEPS, unwrap, unwrap_steps
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


class Gram(Kind):
    """Noisy sufficient statistics; a saved part holds the whole, and a release of several steps all of them."""

    name = KIND
    saved_names = (SELECTION, STEPS)

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read noisy sufficient statistics, or a part of them."""
        from analyst_client.kinds.gram.release import Release  # noqa: PLC0415 -- see above

        return Release.from_text(text, answered)

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read their cost and noise."""
        from analyst_client.kinds.gram.quote import Quote  # noqa: PLC0415 -- see above

        return Quote.read(fields)

    def find_wholes(self, body: Fields) -> tuple[str, ...]:
        """Return the whole of a part, or a release and its steps."""
        if (part := unwrap(body)) is not None:
            return (part.text,)
        found = unwrap_steps(body)
        return () if found is None else (found[0], *found[1])


GRAM = Gram()
