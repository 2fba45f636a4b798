"""Answers on accounts and their chains: amounts, checkpoints, entries, receipts, keys."""

import math
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from curator_service.entries.base import KINDS, Event, KeyId, Place
from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import Answer, Digest, Digits, Moment, left_out
from curator_service.ledger.chain.keys import PublicKey
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import AccountantName, Amount
from curator_service.privacy.adjacency import Adjacency

_Signature = Annotated[str, Field(description="Ed25519, in base64")]


class AmountModel(Answer):
    """An amount of privacy: the account's integer of 10⁻¹², and its views; null where the account says nothing."""

    units: Digits
    mu: float | None
    rho: float | None
    epsilon: Annotated[float | None, Field(description="Null where it would exceed 1000")]
    delta: float

    @classmethod
    def of(cls, amount: Amount) -> "AmountModel":
        """State an amount."""
        return cls.model_construct(
            units=str(amount.units),
            mu=amount.mu,
            rho=amount.rho,
            epsilon=amount.epsilon if math.isfinite(amount.epsilon) else None,
            delta=amount.delta,
        )


class AccountModel(Answer):
    """The account of a population."""

    population: str
    accountant: AccountantName
    adjacency: Adjacency
    delta: float
    limit: AmountModel
    highest_limit: Annotated[AmountModel, Field(description="Bounds what all answers together may ever tell")]
    posted: Annotated[
        AmountModel,
        Field(description="The sum of the charges. It bounds what was learnt so far under `pure` alone"),
    ]
    pending: AmountModel
    remaining: AmountModel
    share_spent: Annotated[float, Field(description="Charges and amounts held, as a share of the limit")]

    @classmethod
    def of(cls, population: Population) -> "AccountModel":
        """State an account."""
        spent = population.posted + population.pending
        return cls.model_construct(
            population=population.name,
            accountant=population.accountant.name,
            adjacency=population.adjacency,
            delta=population.delta,
            limit=AmountModel.of(population.view(population.limit)),
            highest_limit=AmountModel.of(population.view(population.highest_limit)),
            posted=AmountModel.of(population.view(population.posted)),
            pending=AmountModel.of(population.view(population.pending)),
            remaining=AmountModel.of(population.view_left(population.remaining)),
            share_spent=spent / population.limit,
        )


class CheckpointModel(Answer):
    """A signed checkpoint: the head of a chain, and the account there; amounts in units."""

    population: str
    sequence: int
    entry_hash: Digest
    epoch: int
    limit: Digits
    posted: Digits
    pending: Digits
    key_id: KeyId
    signature: _Signature


class CheckpointAnswer(Answer):
    """The checkpoint of a chain's last entry."""

    checkpoint: CheckpointModel


class BudgetAnswer(AccountModel):
    """The account of a dataset's population."""

    dataset: str
    checkpoint: CheckpointModel


class Described:
    """Describes an entry of a chain, as JSON: of some kinds, or of any that was declared by when the document is made.

    Parameters
    ----------
    *kinds : type of Event
        All without any.
    in_register : bool
        Whether of the register, or of a population.
    """

    def __init__(self, *kinds: type[Event], in_register: bool = False) -> None:
        self._kinds, self._in_register = kinds, in_register

    def __get_pydantic_core_schema__(self, *_: Any) -> CoreSchema:
        """Check nothing: an entry is text that was checked before it was written."""
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe it."""
        declared = [kind for kind in KINDS.values() if (kind.in_register if self._in_register else kind.in_populations)]
        models = tuple(_describe(kind) for kind in self._kinds or declared)
        described: Any = Annotated[Union[models], Field(discriminator="kind")] if len(models) > 1 else models[0]  # noqa: UP007
        entries: JsonSchemaValue = handler(TypeAdapter(list[described]).core_schema)  # a list refers to its items
        return dict(entries["items"])


@cache
def _describe(kind: type[Event]) -> type[Answer]:
    """Return the model of an entry of a kind with its place, hash and signature."""
    members: dict[str, Any] = {
        name: (Annotated[field.annotation, field], field)
        for name, field in {**Place.model_fields, **kind.model_fields}.items()
    }
    members |= {"kind": (Literal[kind.kind], ...), "entry_hash": (Digest, ...), "signature": (_Signature, ...)}
    name = "".join(word.capitalize() for word in kind.kind.split("-"))
    return create_model(f"{name}Entry", __base__=Answer, __doc__=kind.__doc__, **members)


class PopulationsAnswer(Answer):
    """Every account, by the name of its population."""

    items: ClassVar[str] = "populations"
    populations: list[AccountModel]


class WordsModel(Answer):
    """What a release asked, in words, by the sequence of its entry."""

    sequence: Digits
    words: str


class LedgerAnswer(AccountModel):
    """An account and a page of its chain."""

    entries: list[Annotated[dict[str, Any], Described()]]
    asked: list[WordsModel] = left_out()


class SealAnswer(Answer):
    """The seal of the curator."""

    sealed: bool
    reason: str
    since: Moment | None


class KeyModel(Answer):
    """A public key (Ed25519), endorsed by the one before."""

    key_id: KeyId
    public_key: Annotated[str, Field(description="32 bytes, in base64")]
    created_at: Moment
    previous: KeyId | None
    endorsement: _Signature | None

    @classmethod
    def of(cls, key: PublicKey) -> "KeyModel":
        """State a public key."""
        return cls.model_construct(
            key_id=key.key_id,
            public_key=key.public_key,
            created_at=key.created_at,
            previous=key.previous or None,
            endorsement=key.endorsement or None,
        )


class KeysAnswer(Answer):
    """Every key that ever signed, the oldest first."""

    items: ClassVar[str] = "keys"
    keys: list[KeyModel]
    active: KeyId | None


class NewKeyAnswer(Answer):
    """The key that signs from now on."""

    key_id: KeyId


class AnchorAnswer(Answer):
    """The folder of an anchor."""

    anchor: str


class PriceLeftModel(Answer):
    """The largest price that would pass, in each notion that the account knows."""

    mu: float | None
    rho: float | None
    epsilon: float | None
    delta: float
    pure_epsilon: float = left_out()


class BudgetExceededProblem(ProblemModel):
    """The cost does not fit into what remains."""

    type: Literal["/problems/budget-exceeded"]
    requested: AmountModel
    remaining: AmountModel
    largest: PriceLeftModel | None
