"""The kind of release itself. What it reads is imported late: a check of a file needs no arithmetic."""

from analyst_client.kinds.base import Kind
from analyst_client.kinds.marginals import KIND
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


class Marginals(Kind):
    """Trees of counts, flat histograms and moments of single columns."""

    name = KIND

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read noisy marginals."""
        from analyst_client.kinds.marginals.release import MarginalsRelease  # noqa: PLC0415 -- see above

        return MarginalsRelease.from_text(text, answered)

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read their cost and noise."""
        from analyst_client.kinds.marginals.quote import MarginalsQuote  # noqa: PLC0415 -- see above

        return MarginalsQuote.read(fields)


MARGINALS = Marginals()
