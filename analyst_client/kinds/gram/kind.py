"""The kind of release itself."""

from analyst_client.kinds.base import OwnKind
from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.saving import CHANGES, SELECTION, STEPS, unwrap, unwrap_changes, unwrap_steps
from analyst_client.schema.wire import Fields


class Gram(OwnKind):
    """Noisy sufficient statistics; a saved part or change holds the whole, a release of several steps all of them."""

    saved_names = (SELECTION, STEPS, CHANGES)

    def find_wholes(self, body: Fields) -> tuple[str, ...]:
        """Return the whole of a part or of a change, or a release and its steps."""
        if (changed := unwrap_changes(body)) is not None:
            return (changed.text,)
        if (part := unwrap(body)) is not None:
            return (part.text,)
        found = unwrap_steps(body)
        return () if found is None else (found[0], *found[1])


GRAM = Gram(KIND, "ReleaseRequest")
