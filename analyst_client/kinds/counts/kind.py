"""The kind of release itself. What it reads is imported late: a check of a file needs no arithmetic."""

from analyst_client.kinds.base import Kind
from analyst_client.kinds.counts import KIND
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


class Counts(Kind):
    """Noisy joint histograms."""

    name = KIND

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read noisy tables."""
        from analyst_client.kinds.counts.release import CountsRelease  # noqa: PLC0415 -- see above

        return CountsRelease.from_text(text, answered)

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read their cost and noise."""
        from analyst_client.kinds.counts.quote import CountsQuote  # noqa: PLC0415 -- see above

        return CountsQuote.read(fields)


COUNTS = Counts()
