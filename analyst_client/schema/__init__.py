"""The wire as frozen values: each reads itself from the members of an answer."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.schema.accounts import Budget as Budget
    from analyst_client.schema.accounts import Reservation as Reservation
    from analyst_client.schema.amounts import Amount as Amount
    from analyst_client.schema.amounts import Cost as Cost
    from analyst_client.schema.columns import Column as Column
    from analyst_client.schema.columns import DerivedColumn as DerivedColumn
    from analyst_client.schema.columns import Term as Term
    from analyst_client.schema.datasets import Dataset as Dataset
    from analyst_client.schema.identity import Identity as Identity
    from analyst_client.schema.jobs import Job as Job
    from analyst_client.schema.permits import Permit as Permit
    from analyst_client.schema.permits import Proposal as Proposal
    from analyst_client.schema.quotes import Offer as Offer
    from analyst_client.schema.quotes import ReleaseSummary as ReleaseSummary
    from analyst_client.schema.receipts import Receipt as Receipt
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
