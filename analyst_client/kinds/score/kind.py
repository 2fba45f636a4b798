"""The kind of release itself. What it reads is imported late: a check of a file needs no arithmetic."""

from analyst_client.kinds.base import Kind
from analyst_client.kinds.score import KIND
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


class Score(Kind):
    """Clipped gradients of a loss."""

    name = KIND

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read a noisy score."""
        from analyst_client.kinds.score.release import ScoreRelease  # noqa: PLC0415 -- see above

        return ScoreRelease.from_text(text, answered)

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read its cost and noise."""
        from analyst_client.kinds.score.quote import ScoreQuote  # noqa: PLC0415 -- see above

        return ScoreQuote.read(fields)


SCORE = Score()
