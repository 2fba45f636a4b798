"""A pack as an entry of the public registry of deployments of differential privacy.

Members and lists are those of `schemas/deployments-schema.yaml` of https://github.com/opendp/deployments-registry-data
as of July 2026. An entry is a draft: a hospital completes it, and decides whether it is published at all. The registry
knows no Gaussian differential privacy, so an account of µ is stated as (ε, δ), with µ in the details.
"""

from collections.abc import Sequence
from typing import Any

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.repository import Dataset
from curator_service.evidence.facts import Evidence
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import PURE, ZCDP
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.guessing import best_guess, number_up, percent_up

_UNKNOWN = "Not declared"
_VARIANTS = {PURE.name: "Pure DP", ZCDP.name: "Zero-concentrated DP"}
_APPROXIMATE = "Approximate DP"
_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "Neighbours differ by the presence of one person's rows. The number of people is private.",
    Adjacency.REPLACE_ONE: "Neighbours differ by the values of one person's rows. The number of people is public.",
}


def render_deployment(evidence: Evidence) -> dict[str, Any]:
    """Return the entry as JSON; what the curator cannot know is left out, or said not to be declared."""
    datasets = evidence.datasets
    parameters, variant, details = _privacy(evidence)
    names = ", ".join(dataset.name for dataset in datasets)
    return {
        "url_slug": f"{evidence.subject.replace('_', '-')}",
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": _first(datasets, "title") or f"Statistics of {names}",
                "data_curators": _curators(datasets),
                "intended_use": _intended_use(evidence),
                "data_product_type": "Summary statistics",
                "data_product_region": _region(datasets),
                "description": _describe(evidence),
                "publication_date": _published(evidence),
                "data_product_sector": "Healthcare",
            },
            "dp_variant": {
                "variant_name": variant,
                "data_domain": "Rows of declared columns, each with public bounds or levels, at most as many as "
                "declared: " + "; ".join(f"{d.name}, {d.manifest.row_capacity} rows" for d in datasets) + ".",
                "unprotected_quantities": "Declarations, which no row decides: columns, bounds, levels, the capacity "
                "and the rows counted of one person."
                + (
                    " The number of people."
                    if any(a.adjacency is Adjacency.REPLACE_ONE for a in evidence.accounts.values())
                    else ""
                ),
            },
            "privacy_loss": {
                "privacy_unit": "One person" if any(d.manifest.subject for d in datasets) else "One row, of one person",
                "privacy_unit_details": _unit(evidence),
                "privacy_parameters": parameters,
                "privacy_parameters_details": details,
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "A trusted curator in the hospital holds the rows and adds the noise.",
                "actors": "The hospital and whoever runs its machine read rows, and are trusted. Analysts get noisy "
                "statistics alone, and are not trusted; nor is whoever reads what they publish.",
                "release_type": "Many releases" if evidence.is_of_permit else "One release",
                "release_type_details": "All answers ever given about a population are charged to one budget, which "
                "does not refill. " + _guarantees(evidence.accounts.values()),
                "data_source_type": "Dynamic" if any(d.version > 1 for d in datasets) else "Static",
                "access_type": "Interactive",
                "access_type_details": "Analysts ask within permits, which may bound a part of the budget. All of them "
                "together are bounded by it, so nothing rests on their not colluding.",
            },
            "accounting": {
                "composition": "Costs add up in the account of the population "
                f"({', '.join(sorted({a.accountant.name for a in evidence.accounts.values()}))}), under full "
                "adaptivity; what does not fit is refused before rows are read.",
                "post_processing": "None by the curator, but that a part of a stored answer is given again.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Values are cut to the declared bounds, and rows of one "
                "person to the declared number. Nothing is tuned on the rows.",
                "mechanisms": "Exact discrete Gaussian or Laplace noise on exact integer sums; no floating point "
                "before the noise. What reads rows answers at a public time.",
            },
            "administrative": {
                "notes": f"Written by the curator from its signed ledger, as of {evidence.as_of}; see check.html "
                "beside it. Nobody has reviewed it.",
                "registry_authors": ["Written by a program"],
            },
        },
    }


def _privacy(evidence: Evidence) -> tuple[dict[str, float], str, str]:
    """Return the parameters, their notion, and what else there is to say: of what this pack is of."""
    stated = [(account, _units(evidence, account)) for account in evidence.accounts.values()]
    variants = {_VARIANTS.get(account.accountant.name, _APPROXIMATE) for account, _ in stated}
    variant = variants.pop() if len(variants) == 1 else _APPROXIMATE
    amounts = [account.view(units) for account, units in stated]
    if variant == _VARIANTS[ZCDP.name]:
        parameters = {"rho": max(amount.rho or 0.0 for amount in amounts)}
    else:
        parameters = {"epsilon": max(amount.epsilon for amount in amounts)}
        if variant == _APPROXIMATE:
            parameters["delta"] = max(amount.delta for amount in amounts)
    what = "all answers under this permit" if evidence.is_of_permit else "this answer alone"
    told = " ".join(_tell(account, units) for account, units in stated)
    return parameters, variant, f"Of {what}, if what was asked did not follow from other answers: {told}"


def _units(evidence: Evidence, account: Population) -> int:
    """Return what a pack is of may tell, in units: a release its cost, a permit its highest limit, or the guarantee."""
    if not evidence.is_of_permit:
        return evidence.releases[0].units
    limit = None if evidence.permit is None else evidence.permit.highest_limits.get(account.name)
    return account.highest_limit if limit is None else limit


def _tell(account: Population, units: int) -> str:
    amount = account.view(units)
    mu = "" if amount.mu is None else f", µ = {number_up(amount.mu)} (Gaussian differential privacy)"
    rho = "" if amount.rho is None else f", ρ = {number_up(amount.rho)}"
    guess = percent_up(best_guess([(account.accountant, units)]), 1)
    delta = f" at δ = {amount.delta:g}" if amount.delta else ""
    return (
        f"Population {account.name}: ε = {number_up(amount.epsilon)}{delta}{mu}{rho}; whoever knows all the rest is "
        f"right in at most {guess}% of guesses about one person, and in 50% without it."
    )


def _guarantees(populations: Any) -> str:
    return " ".join(
        f"Of all answers together that may ever be given under the highest limit so far: "
        f"{_tell(account, account.highest_limit)}"
        for account in populations
    )


def _unit(evidence: Evidence) -> str:
    parts = [_NEIGHBOURS[account.adjacency] for account in evidence.accounts.values()]
    for dataset in evidence.datasets:
        rows = dataset.manifest.rows_per_person
        parts.append(
            f"{dataset.name}: each row is declared to be another person's."
            if dataset.manifest.subject is None
            else f"{dataset.name}: at most {rows} rows of one person count."
        )
    return " ".join(dict.fromkeys(parts))


def _describe(evidence: Evidence) -> str:
    if evidence.is_of_permit:
        count = len(evidence.sessions)
        sessions = f" {count} threshold sessions, of questions answered with yes or no." if count else ""
        return f"{len(evidence.releases)} answers under one permit, each of noisy sums over rows.{sessions}"
    (release,) = evidence.releases
    return f"One answer of the kind {release.kind}, about {', '.join(release.columns)}."


def _intended_use(evidence: Evidence) -> str:
    terms = evidence.terms(None if evidence.is_of_permit else evidence.releases[0])
    purpose = "" if terms is None else str(terms.says["purpose"])
    return purpose or _first(evidence.datasets, "purpose") or _UNKNOWN


def _published(evidence: Evidence) -> str:
    """Return the day of the first release or session; of a permit without one, when it was granted."""
    released = [release.entry for release in evidence.releases] + [one.opened for one in evidence.sessions]
    entries = released or list(evidence.permit.entries if evidence.permit else ())
    return min(entry.time for entry in entries)[:10]


def _curators(datasets: Sequence[Dataset]) -> list[str]:
    declared = [dataset.manifest.catalogue or Catalogue() for dataset in datasets]
    found = [one.controller or one.publisher for one in declared]
    return list(dict.fromkeys(one.name for one in found if one is not None)) or [_UNKNOWN]


def _region(datasets: Sequence[Dataset]) -> str:
    places = [place for dataset in datasets for place in (dataset.manifest.catalogue or Catalogue()).spatial]
    return ", ".join(dict.fromkeys(places)) or _UNKNOWN


def _first(datasets: Sequence[Dataset], member: str) -> str | None:
    found = (getattr(dataset.manifest.catalogue or Catalogue(), member) for dataset in datasets)
    return next((text for text in found if text), None)
