"""A published answer of any kind: its exact text, where it comes from, and how it is saved and checked."""

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from analyst_client.display.model import Block, Inline, View, code, facts, join
from analyst_client.display.terminal import plain
from analyst_client.errors import ReceiptInvalidError, ServiceError
from analyst_client.ledger.files import replace_file
from analyst_client.ledger.verification import Verification, read_trusted_keys, verify_answer
from analyst_client.schema.amounts import Cost, write_cost
from analyst_client.schema.answers import Stated
from analyst_client.schema.quotes import list_request
from analyst_client.schema.reading import read_members
from analyst_client.schema.receipts import Receipt, fold_receipt
from analyst_client.schema.wire import Fields, parse_json

ANSWERS = {
    "new": "new, charged now",
    "replayed": "the one that this idempotency key had before, free",
    "stored": "stored before, free",
    "derived": "cut out of a stored release, free",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PublishedAnswer(Stated):
    """Everything of an answer beside its statistics, whatever its kind; two are equal when their texts are.

    A kind derives its releases from it, with its statistics as fields that are read by their annotations.

    Attributes
    ----------
    text : str
        The exact text of the answer, which `save` writes and `verify` checks.
    id, dataset, created_at : str
    request : dict
        The request with every default filled in.
    cost : Cost or None
    receipt : Receipt or None
        The ledger entry of the charge.
    answer : str or None
        Way of the answer: ``"new"``, ``"replayed"``, ``"stored"`` or ``"derived"``.
    derived_from : str or None

    Examples
    --------
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> release.dataset, release.kind, round(release.cost.epsilon, 2), release.receipt["kind"]
    ('flchain', 'gram', 1.0, 'charge')
    """

    kind: ClassVar[str]
    """Name of the kind on the wire."""
    text: str
    id: str
    dataset: str
    created_at: str | None
    request: dict[str, Any]
    cost: Cost | None
    receipt: Receipt | None
    answer: str | None = None
    derived_from: str | None = None

    def __eq__(self, other: object) -> bool:
        """Compare the exact texts."""
        return self.text == other.text if isinstance(other, PublishedAnswer) else NotImplemented

    def __repr__(self) -> str:
        """Show what was asked, and its cost."""
        cost = "" if self.cost is None else f", epsilon={self.cost.epsilon:.4g}, delta={self.cost.delta:.4g}"
        return plain(f"<{type(self).__name__} {self._name} of {self.dataset!r}: {self._title}{cost}>")

    def __hash__(self) -> int:
        """Hash the exact text."""
        return hash(self.text)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the text and the order: read anew, the arrays are read-only again."""
        return _read_in_order, (type(self), self._saved_text, self.answer, self.order)

    @property
    def _name(self) -> str:
        """Name the release in `repr`."""
        return self.id

    @property
    def _title(self) -> str:
        """Say in a few words what was asked."""
        return self.kind

    def _view(self) -> View:
        """Show what was asked, blocks of the kind's own, and the receipt."""
        stated = [*self._list_origin(), *self._list_costs(), *list_request(self.request)]
        receipt = [] if self.receipt is None else [fold_receipt(self.receipt)]
        return (facts(join("Release ", self._caption()), stated + self._list_choices()), *self._blocks(), *receipt)

    def _list_origin(self) -> list[tuple[Inline, Inline]]:
        """Return where an answer comes from."""
        stated: list[tuple[Inline, Inline]] = [("id", code(self.id))]
        if self.created_at is not None:
            stated.append(("made at", self.created_at))
        if self.answer is not None:
            stated.append(("answer", ANSWERS.get(self.answer, self.answer)))
        if self.derived_from is not None:
            stated.append(("derived from", code(self.derived_from)))
        return stated

    def _list_costs(self) -> list[tuple[Inline, Inline]]:
        return [] if self.cost is None else [("cost", write_cost(self.cost))]

    def _list_choices(self) -> list[tuple[Inline, Inline]]:
        return []

    def _blocks(self) -> Sequence[Block]:
        """Return the tables of the kind's own."""
        return ()

    @property
    def _signed_texts(self) -> tuple[str, ...]:
        """Return the texts that receipts are about."""
        return (self.text,)

    @property
    def _saved_text(self) -> str:
        """Return the text that a file holds."""
        return self.text

    @classmethod
    def from_text(cls, text: str, answer: str | None = None) -> Self:
        """Read the text of an answer.

        Parameters
        ----------
        text : str
            Body of a release.
        answer : str, optional
            The header ``Curator-Answer``.

        Returns
        -------
        Self
            The release, without a look at its receipt.

        Raises
        ------
        ServiceError
            When the text is not a release of this kind: a member, a shape or a number is wrong.
        """
        body = Fields(parse_json(text))
        if body.text("kind") != cls.kind:
            raise body.fault("kind", f"{cls.kind!r}, the kind of this release")
        return cls(**read_members(cls, body, text=text, answer=answer, **cls.read_stated(body)))

    def verify(self, *keys: "str | os.PathLike[str]") -> Verification:
        """Check this release against the ledger entry that it carries; see `analyst_client.verify`.

        Parameters
        ----------
        *keys : str or path-like
            The curator's public keys, as `curator-verify --key` takes them. Without any the signature is not checked.

        Returns
        -------
        Verification
            True in a condition exactly when nothing was found to be wrong.
        """
        trusted = read_trusted_keys(keys) if keys else None
        outcomes = [verify_answer(text, trusted) for text in self._signed_texts]
        return next((outcome for outcome in outcomes if not outcome), outcomes[0])

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the exact text to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            Replaced if it exists.
        """
        replace_file(Path(path), self._saved_text.encode("utf-8"))

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> Self:
        """Read a saved release, and hold it against the digest in its receipt.

        Raises
        ------
        OSError
            When the file cannot be read.
        ReceiptInvalidError
            When it is not what the curator signed: it was damaged, or changed.
        ServiceError
            When it holds no release.

        Warns
        -----
        UserWarning
            When its receipt is of a format that this version cannot check.
        """
        content = Path(path).read_bytes()
        text = content.decode("utf-8", errors="replace")
        try:
            release = cls.from_text(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise ServiceError(
                f"{path} holds no whole release: it is not text in UTF-8.{recovery_hint(text)}"
            ) from None
        except (ServiceError, ValueError) as error:
            said = str(error).removeprefix("malformed answer: ") if content.strip() else "it is empty"
            raise ServiceError(f"{path} holds no whole release: {said}.{recovery_hint(text)}") from None
        release.check_receipt(path)
        return release

    def check_receipt(self, path: "str | os.PathLike[str]") -> None:
        """Hold a release of a file against the digest in its receipt; what was made here of arrays has none.

        Raises
        ------
        ReceiptInvalidError
            When it is not what the curator signed: it was damaged, or changed.

        Warns
        -----
        UserWarning
            When its receipt is of a format that this version cannot check.
        """
        outcome = self.verify()
        if self.receipt is None and self.cost is None:  # made here of arrays: nobody signed it
            return
        if outcome.verdict == "inconsistent" or self.receipt is None:
            reasons = "; ".join(outcome.reasons)
            message = f"{path} is damaged, or was changed: {reasons}.{recovery_hint(self._saved_text)}"
            raise ReceiptInvalidError(message, reasons=outcome.reasons)
        if not outcome:
            warnings.warn(f"{path} was not checked: {'; '.join(outcome.reasons)}", stacklevel=3)


def _read_in_order(of: type[PublishedAnswer], text: str, answer: str | None, order: Any) -> PublishedAnswer:
    return of.from_text(text, answer).in_order(order)


def recovery_hint(text: str) -> str:
    """Return a hint that fetches the release of a damaged file again, with its id if that is readable."""
    found = re.search(r'"id\\?":\\?"(rel_[0-9A-Za-z_]{1,64})\\?"', text)
    release_id = repr(found[1]) if found else "…, the id that client.releases(…) lists"
    return f" client.fetch_release({release_id}) gives the whole again, for nothing"
