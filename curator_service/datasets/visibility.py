"""Right to read an answer: one rule for releases, jobs and the library; an unknown policy gives no right."""

from curator_service.datasets.repository import Dataset
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.repository import Principal


def may_read(principal: Principal, dataset: Dataset, owner_id: str) -> bool:
    """Return True if a principal may read an answer of a dataset; the right to see the dataset is checked before.

    Parameters
    ----------
    owner_id : str
        Id of the principal who asked for the answer.

    Returns
    -------
    bool
        True for whoever asked, for roles that read every answer, and where the dataset's answers are for all.
    """
    return may_read_all(principal, dataset) or principal.id == owner_id


def may_read_all(principal: Principal, dataset: Dataset) -> bool:
    """Return True if a principal may read every answer of a dataset; the right to see it is checked before."""
    return _is_shared(dataset) or allowed_objects(principal.roles, Action.READ_RELEASE) is Objects.ALL


def collection_of(dataset: Dataset, principal_id: str) -> str:
    """Return the name of the answers that a principal's requests are served from: the dataset's, or their own."""
    return dataset.id if _is_shared(dataset) else f"{dataset.id}/{principal_id}"


def _is_shared(dataset: Dataset) -> bool:
    return dataset.manifest.library == "shared"
