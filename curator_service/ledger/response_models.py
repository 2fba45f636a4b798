"""What is answered of accounts and their chains: amounts, checkpoints, entries, receipts, keys."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import STRICT, Digest, Digits, Moment, left_out
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution

AccountantName = Literal["gdp", "zcdp", "pure"]
KeyId = Annotated[str, Field(pattern=r"^key_[0-9a-f]{32}$")]
_Signature = Annotated[str, Field(description="Ed25519, in base64")]


class AmountModel(BaseModel):
    """An amount of privacy: the account's integer of 10⁻¹², and its views; null where the account says nothing."""

    model_config = STRICT

    units: Digits
    mu: float | None
    rho: float | None
    epsilon: Annotated[float | None, Field(description="Null where it would exceed 1000")]
    delta: float


class AccountModel(BaseModel):
    """The account of a population."""

    model_config = STRICT

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


class CheckpointModel(BaseModel):
    """Where a chain stands, and the account there, signed; amounts in units."""

    model_config = STRICT

    population: str
    sequence: int
    entry_hash: Digest
    epoch: int
    limit: Digits
    posted: Digits
    pending: Digits
    key_id: KeyId
    signature: _Signature


class CheckpointAnswer(BaseModel):
    """The checkpoint of a chain's last entry."""

    model_config = STRICT

    checkpoint: CheckpointModel


class BudgetAnswer(AccountModel):
    """The account of a dataset's population."""

    dataset: str
    checkpoint: CheckpointModel


_PermitId = Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
ProposalId = Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$", description="What was proposed; the register has it")]


class Entry(BaseModel):
    """What every entry says. Those of format 1, which no released version wrote, say other things and have no model."""

    model_config = STRICT

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
    """What was left of a reservation was given back."""

    kind: Literal["void"]
    reservation: str
    holder: str
    outcome: Literal["voided", "cancelled", "closed", "expired"]
    permit: _PermitId = left_out()
    project: str = left_out()
    to: str = left_out()


class PartModel(BaseModel):
    """A statistic of a charge: its sensitivity, and the scales of its noise, in lattice units."""

    model_config = STRICT

    statistic: str
    distribution: Distribution
    sensitivity: Annotated[str, Field(pattern=r"^[0-9]+(/[0-9]+)?$")]
    norm: Literal["L1", "L2 squared"]
    copies: int
    scales: list[Digits]


class _AnsweredEntry(Entry):
    """What an entry of an answer says."""

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
    """Who may spend under a permit from now on; nobody, where it was ended."""

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


class LostModel(BaseModel):
    """Sequences of an epoch that were lost."""

    model_config = STRICT

    epoch: int
    after: Digits
    through: Digits


class HistoryModel(BaseModel):
    """A second history of which the whole chain was at hand."""

    model_config = STRICT

    after: Annotated[Digits, Field(description="The last sequence that both histories have")]
    entries: Annotated[
        list[Digest], Field(description="The hash of each of its own entries that is accounted for here")
    ]


class HistoryChargesModel(BaseModel):
    """Charges of a second history that are alike, and their units."""

    model_config = STRICT

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


class PopulationsAnswer(BaseModel):
    """Every account, by the name of its population."""

    model_config = STRICT

    populations: list[AccountModel]


class LedgerAnswer(AccountModel):
    """An account and a page of its chain."""

    entries: list[EntryModel]


class SealAnswer(BaseModel):
    """Whether the curator is sealed."""

    model_config = STRICT

    sealed: bool
    reason: str
    since: Moment | None


class KeyModel(BaseModel):
    """A public key (Ed25519), endorsed by the one before."""

    model_config = STRICT

    key_id: KeyId
    public_key: Annotated[str, Field(description="32 bytes, in base64")]
    created_at: Moment
    previous: KeyId | None
    endorsement: _Signature | None


class KeysAnswer(BaseModel):
    """Every key that ever signed, the oldest first."""

    model_config = STRICT

    keys: list[KeyModel]
    active: KeyId | None


class PriceLeftModel(BaseModel):
    """The largest price that would pass, in each notion that the account knows."""

    model_config = STRICT

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
