"""A kind of entries from outside of the package: what an officer says to a population's people, for good."""

from curator_service.entries.base import Event


class Greeting(Event):
    """An officer greeted the people of a population."""

    kind = "greeting"
    meaning = "an officer greeted people"

    words: str
