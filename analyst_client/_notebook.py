"""What is shown of each value, in a notebook and in a terminal: the share of a budget first, (ε, δ) beside it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyst_client._notebook_receipts import fold_receipt, ratio, write_json
from analyst_client._view import (
    Bar,
    Inline,
    Note,
    Table,
    View,
    aligned,
    bar,
    code,
    facts,
    folded,
    join,
    listing,
    number,
    percent,
    quiet,
    said,
    strong,
    swatch,
    table,
)

if TYPE_CHECKING:
    from analyst_client.columns import Column, Term
    from analyst_client.jobs import Job
    from analyst_client.release import Release
    from analyst_client.values import Amount, Budget, Cost, Dataset, Noise, Quote, Reservation

LEVELS_MAX = 12
_MANY_ANSWERS = 10
"""Where there is space for so many, a quote does not speak of it."""
CLASS_OF_PART = {"spent": "spent", "drawn": "spent", "held": "held", "left": "left"}
ANSWERS = {
    "new": "new, charged now",
    "replayed": "the one that this idempotency key had before, free",
    "stored": "stored before, free",
    "derived": "cut out of a stored release, free",
}


# Datasets


def show_dataset(dataset: "Dataset") -> View:
    """Show what is public of a dataset, and its columns."""
    rows = f"at most {dataset.row_capacity:,}"
    if dataset.rows is not None:
        rows = f"{dataset.rows:,}, {rows}"
    if dataset.rows_per_person != 1:
        rows += f"; of one person at most {dataset.rows_per_person:,} count"
    stated: list[tuple[Inline, Inline]] = [
        ("population", dataset.population),
        ("account", join(said(dataset.accountant), quiet(", neighbours by "), said(dataset.adjacency))),
        ("rows", rows),
        ("noise", write_words(dataset.mechanisms)),
        ("row maps", write_words(dataset.row_maps)),
    ]
    if dataset.description:
        stated.insert(0, ("description", dataset.description))
    heads = ("column", "type", "values", "unit", "missing", "description")
    columns = [
        (column.name, column.type, write_values(column), column.unit or "", column.missing, column.description)
        for column in dataset.columns
    ]
    return (
        facts(join("Dataset ", said(dataset.name)), stated),
        table(f"Columns ({len(columns):,})", heads, columns),
    )


def write_values(column: "Column") -> Inline:
    """Say which values a column takes."""
    if column.type != "numeric":
        return write_words(column.levels)
    if column.lower is None or column.upper is None:
        return "any"
    return f"{column.lower:g} to {column.upper:g}"


def write_words(words: Sequence[str]) -> Inline:
    """Write some words of a server in one line."""
    shown = [said(word) for word in words[:LEVELS_MAX]]
    if len(words) > LEVELS_MAX:
        shown.append(quiet(f"and {len(words) - LEVELS_MAX:,} more"))
    return join(*shown, by=", ")


# Amounts


def show_budget(budget: "Budget") -> View:
    """Show a budget as shares of its limit, and as a bar."""
    parts = [("spent", budget.posted), ("held", budget.pending), ("left", budget.remaining)]
    notes: list[Inline] = [
        "Shared by all its datasets and analysts.",
        join("Counted in ", said(budget.accountant), ", neighbours by ", said(budget.adjacency), "."),
        f"Ledger at epoch {budget.checkpoint.epoch:,}, sequence {budget.checkpoint.sequence:,}.",
    ]
    if budget.accountant != "pure":
        notes.insert(0, "Shares add up; ε does not.")
    highest = budget.highest_limit
    if highest is not None and highest != budget.limit:
        views = f"ε = {number(highest.epsilon)} at δ = {number(highest.delta)}"
        notes.append(f"The guarantee is that of the highest limit there ever was: {views}.")
    caption = join("Budget of ", said(budget.population))
    return (
        *show_amounts(caption, parts, ("limit", budget.limit), share_used=budget.share_spent),
        Note(quiet(join(*notes, by=" "))),
    )


def show_reservation(reservation: "Reservation") -> View:
    """Show what is held for a study, and what was drawn of it."""
    stated: list[tuple[Inline, Inline]] = [
        ("state", reservation.state),
        ("dataset", join(said(reservation.dataset), quiet(" of "), said(reservation.population))),
        ("made at", reservation.created_at),
        ("its time ends", reservation.expires_at),
    ]
    if reservation.project is not None:
        stated.append(("project", reservation.project))
    parts = [("drawn", reservation.drawn), ("left", reservation.remaining)]
    return (
        facts(join("Reservation ", code(reservation.id)), stated),
        *show_amounts("What it holds", parts, ("reserved", reservation.reserved)),
        fold_receipt(reservation.receipt),
    )


def show_amounts(
    caption: Inline,
    parts: Sequence[tuple[str, "Amount"]],
    whole: tuple[str, "Amount"],
    *,
    share_used: float | None = None,
) -> tuple[Table, Bar]:
    """Return the table and the bar of an amount and its parts; `share_used` serves where units are not stated."""
    named = [*parts, whole]
    shares = [ratio(amount.units, whole[1].units) for _, amount in named]
    rows = [
        (
            join(swatch(CLASS_OF_PART.get(name, "none")), name),
            percent(share),
            number(amount.epsilon),
            number(amount.delta),
        )
        for (name, amount), share in zip(named, shares, strict=True)
    ]
    known = [(name, share) for (name, _), share in zip(parts, shares, strict=False) if share is not None]
    if len(known) < len(parts) and share_used is not None:
        known = [("spent", share_used), ("left", 1.0 - share_used)]
    label = ", ".join(f"{name} {percent(share)}" for name, share in known)
    return (
        table(caption, ("amount", "share", "ε", "at δ"), rows, numeric=(1, 2, 3), total=len(parts)),
        bar([(CLASS_OF_PART[name], share) for name, share in known], label),
    )


def write_cost(cost: "Cost") -> Inline:
    """Say what something costs, the share first."""
    views = f"ε = {number(cost.epsilon)} at δ = {number(cost.delta)}"
    if cost.mu is not None:
        views += f", µ = {number(cost.mu)}"
    elif cost.rho is not None:
        views += f", ρ = {number(cost.rho)}"
    if cost.pure_epsilon is not None:
        views += f"; by itself ε = {number(cost.pure_epsilon)} at δ = 0"
    return join(strong(percent(cost.share_of_budget)), " of the budget ", quiet(f"({views})"))


# Requests


def show_quote(quote: "Quote") -> View:
    """Show price and noise, and whether the request is answered for nothing."""
    stated: list[tuple[Inline, Inline]] = []
    if quote.stored_release is not None:
        stated.append(("stored release", join(code(quote.stored_release), " answers this very request: free")))
    if quote.derivable_from is not None:
        stated.append(("derivable from", join(code(quote.derivable_from), ", of which the request is a part: free")))
    stated += [
        ("price", write_cost(quote.cost)),
        ("affordable", "yes" if quote.affordable else strong("no")),
        ("answer shows", write_duration(quote.duration_s)),
        ("pass over rows", "yes" if quote.pass_over_rows else "no"),
        *list_request(quote.request),
    ]
    if quote.answer_bytes_left < _MANY_ANSWERS * quote.answer_bytes:
        stated.append(("space for answers", write_space(quote.answer_bytes, quote.answer_bytes_left)))
    if quote.offers:
        offers = [join(code(offer.release_id), quiet(": ", said(offer.difference))) for offer in quote.offers]
        stated.append(("offers", listing(offers)))
    names = [column.name for column in quote.features]
    return (
        facts(join("Quote for ", write_formula(quote.dataset, names, quote.targets)), stated),
        list_noise(quote.noise, len(quote.terms), len(quote.targets)),
    )


def write_space(size: int, left: int) -> Inline:
    """Say what an answer takes of the space that is left."""
    return join(f"{size:,} bytes of the {left:,} that are left", strong(": too few") if size > left else "")


def write_duration(duration_s: float) -> str:
    """Say when an answer shows."""
    if duration_s == 0.0:
        return "at once"
    minutes = f" ({duration_s / 60:.1f} min)" if duration_s >= 120.0 else ""
    return f"after {number(duration_s)} s{minutes}, whatever the rows are"


def write_formula(dataset: str, features: Sequence[str], targets: "Sequence[Term]") -> Inline:
    """Write a request as a formula."""
    explained = [write_words([term.name for term in targets]), " ~ "] if targets else []
    return join(*explained, write_words(features), quiet(" of "), said(dataset))


def list_request(request: Mapping[str, Any]) -> list[tuple[Inline, Inline]]:
    """Return what else of a request decides what is released."""
    stated: list[tuple[Inline, Inline]] = []
    rows = request.get("rows")
    if isinstance(rows, dict):
        norm = rows.get("norm")
        radius = f", norm {number(norm)}" if isinstance(norm, float) else ""
        stated.append(("row map", join(said(write_json(rows.get("map"))), radius)))
    stated += [(name, write_json(request[name])) for name in ("mechanism", "calibration") if name in request]
    return stated


def list_noise(noise: "Noise", terms: int, targets: int) -> Table:
    """Return the table of the noise of each statistic."""
    named = {
        "XᵀX, diagonal": (noise.xtx_diagonal, terms),
        "XᵀX, off-diagonal": (noise.xtx_offdiagonal, terms * (terms - 1) // 2),
        "Xᵀy": (noise.xty, terms * targets),
        "yᵀy": (noise.yty, targets),
        "λ_min": (noise.lambda_min, 1),
    }
    stated = [(name, count, sd) for name, (sd, count) in named.items() if sd is not None]
    deviations = aligned([sd for _, _, sd in stated])
    rows = [(name, f"{count:,}", sd) for (name, count, _), sd in zip(stated, deviations, strict=True)]
    caption = join("Noise ", quiet("(", said(noise.distribution), ", in scaled units)"))
    return table(caption, ("statistic", "entries", "standard deviation"), rows, numeric=(1, 2))


# Releases


def show_release(release: "Release") -> View:
    """Show what was released, its price and its noise; terms and receipt on demand."""
    stated: list[tuple[Inline, Inline]] = [("id", code(release.id))]
    if release.created_at is not None:
        stated.append(("made at", release.created_at))
    if release.answer is not None:
        stated.append(("answer", ANSWERS.get(release.answer, release.answer)))
    if release.derived_from is not None:
        stated.append(("derived from", code(release.derived_from)))
    if release.selected_from is not None:
        whole = release.selected_from
        stated.append(("part of", write_formula(whole.dataset, whole.feature_names, whole.targets)))
    if release.cost is not None:
        stated.append(("price", write_cost(release.cost)))
    stated += list_request(release.request)
    heads = ("term", "kind", "column", "center", "scale", "unit")
    terms = [
        (term.name, term.kind, term.column or "", number(term.center), number(term.scale), term.unit or "")
        for term in (*release.terms, *release.targets)
    ]
    title = f"Terms ({len(release.terms):,}) and targets ({len(release.targets):,})"
    caption = quiet("A raw value x stands in the statistics as (x − center) / scale")
    return (
        facts(join("Release ", write_formula(release.dataset, release.feature_names, release.targets)), stated),
        list_noise(release.noise, len(release.terms), len(release.targets)),
        *map(Note, release.caveats),
        folded(title, table(caption, heads, terms, numeric=(3, 4))),
        *([] if release.receipt is None else [fold_receipt(release.receipt)]),
    )


def show_job(job: "Job") -> View:
    """Show how a job stands."""
    stated: list[tuple[Inline, Inline]] = [("state", job.state)]
    if job.is_running:
        stated.append(("time passed", f"{job.progress:.0%}"))
    if job.created_at is not None:
        stated.append(("made at", job.created_at))
    if job.release_id is not None:
        stated.append(("release", code(job.release_id)))
    if job.reason is not None:
        stated.append(("reason", job.reason))
    name = quiet("that was not needed") if job.id is None else code(job.id)
    return (facts(join("Job ", name, quiet(" on "), said(job.dataset)), stated),)
