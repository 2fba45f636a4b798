"""Answers on accounts and their chains: amounts, checkpoints, entries, receipts, keys."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import Answer, Digest, Digits, Moment, left_out
from curator_service.ledger.chain.keys import PublicKey
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import AccountantName, Amount
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution

KeyId = Annotated[str, Field(pattern=r"^key_[0-9a-f]{32}$")]
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


_PermitId = Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
ProposalId = Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$", description="What was proposed; the register has it")]


class Entry(Answer):
    """Members of every entry. Entries of format 1, which no released version wrote, have no model."""

    format: Literal[2]
    population: str
    sequence: int
    previous_hash: Digest
    units: Digits
    actor: str
    time: Moment
    epoch: int
    limit: Digits
    posted: Digits
    pending: Digits
    key_id: KeyId
    entry_hash: Digest
    signature: _Signature


class OpenEntry(Entry):
    """A population was opened, with a limit of `units`."""

    kind: Literal["open"]
    adjacency: Adjacency
    accountant: AccountantName
    delta: str
    approved_by: str = left_out()
    reason: str = left_out()
    proposal: ProposalId = left_out()


class DatasetEntry(Entry):
    """A dataset was registered, has a further version, or has ended."""

    kind: Literal["dataset"]
    dataset: str
    dataset_id: str
    manifest_digest: Digest
    snapshot: Digest
    version: Annotated[Digits, Field(description="From the second on")] = left_out()
    ended: Annotated[Moment, Field(description="Nothing is released from it any more")] = left_out()


class ReserveEntry(Entry):
    """An amount is held: by a job, or for a study."""

    kind: Literal["reserve"]
    reservation: str
    permit: _PermitId = left_out()
    project: str = left_out()
    drawn_from: Annotated[str, Field(alias="from")] = left_out()
    expires_at: Moment = left_out()


class VoidEntry(Entry):
    """The rest of a reservation was given back."""

    kind: Literal["void"]
    reservation: str
    holder: str
    outcome: Literal["voided", "cancelled", "closed", "expired"]
    permit: _PermitId = left_out()
    project: str = left_out()
    to: str = left_out()


class PartModel(Answer):
    """A statistic of a charge: its sensitivity, and the scales of its noise, in lattice units."""

    statistic: str
    distribution: Distribution
    sensitivity: Annotated[str, Field(pattern=r"^[0-9]+(/[0-9]+)?$")]
    norm: Literal["L1", "L2 squared"]
    copies: int
    scales: list[Digits]


class _AnsweredEntry(Entry):
    """Members of an entry of an answer."""

    dataset: str
    release: str
    request_digest: Digest
    answer_digest: Digest
    snapshot: Digest
    permit: _PermitId = left_out()
    project: str = left_out()
    release_kind: str


class ChargeEntry(_AnsweredEntry):
    """A release was charged."""

    kind: Literal["charge"]
    mechanism: list[PartModel]
    curvature: Annotated[str, Field(pattern=r"^[0-9]+(/[0-9]+)?$")] = left_out()
    reservation: str = left_out()


class DeriveEntry(_AnsweredEntry):
    """An answer was cut out of a stored one."""

    kind: Literal["derive"]
    source: str


class LimitEntry(Entry):
    """A limit was set to `units`."""

    kind: Literal["limit"]
    reason: str
    approved_by: str
    proposal: ProposalId = left_out()


class PermitEntry(Entry):
    """A permit's terms from now on; nobody may spend if it was ended."""

    kind: Literal["permit"]
    permit: _PermitId
    version: int
    project: str
    people: Annotated[dict[str, str], Field(description="Names by id")]
    datasets: Annotated[dict[str, str], Field(description="Names by id")]
    purpose: str
    legal_basis: str
    conditions: str
    reason: str
    approved_by: str
    permit_limit: Digits = left_out()
    expires_at: Moment = left_out()
    proposal: ProposalId = left_out()


class KeyEntry(Entry):
    """A key signs from here on."""

    kind: Literal["key"]
    signing_key: KeyId


class RefusalEntry(Entry):
    """Rows that are like another population's were refused."""

    kind: Literal["refusal"]
    dataset: str
    manifest_digest: Digest
    like: str
    proposal: str = left_out()


class ConfirmationEntry(Entry):
    """Two admins say that such rows are of other people."""

    kind: Literal["confirmation"]
    rows: str
    reason: str
    approved_by: str
    proposal: ProposalId = left_out()


class LostModel(Answer):
    """Sequences of an epoch that were lost."""

    epoch: int
    after: Digits
    through: Digits


class HistoryModel(Answer):
    """A second history of which the whole chain was at hand."""

    after: Annotated[Digits, Field(description="The last sequence that both histories have")]
    entries: Annotated[
        list[Digest], Field(description="The hash of each of its own entries that is accounted for here")
    ]


class HistoryChargesModel(Answer):
    """Charges of a second history that are alike, and their units."""

    month: str
    actor: str
    permit: str
    project: str
    dataset: str
    kind: str
    count: Digits
    units: Digits


class ReconcileEntry(Entry):
    """An epoch begins after a restore; `units` were written off, or charged in a second history."""

    kind: Literal["reconcile"]
    kept_through: Digits
    lost: list[LostModel]
    all: Literal["yes", "no"]
    highest_limit: Digits = left_out()
    voided: Annotated[dict[str, Digits], Field(description="What was left of each reservation that was open")]
    set_aside: Digest = left_out()
    history: HistoryModel = left_out()
    charges: list[HistoryChargesModel] = left_out()
    approved_by: str = left_out()
    beside: Annotated[
        Digits, Field(description="What was counted of a history that went on beside this one, if more of it is seen")
    ] = left_out()


EntryModel = Annotated[
    OpenEntry
    | DatasetEntry
    | ReserveEntry
    | ChargeEntry
    | VoidEntry
    | DeriveEntry
    | LimitEntry
    | PermitEntry
    | KeyEntry
    | RefusalEntry
    | ConfirmationEntry
    | ReconcileEntry,
    Field(discriminator="kind"),
]


class PopulationsAnswer(Answer):
    """Every account, by the name of its population."""

    items: ClassVar[str] = "populations"
    populations: list[AccountModel]


class LedgerAnswer(AccountModel):
    """An account and a page of its chain."""

    entries: list[EntryModel]


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
