"""Origin of exported moments: the release, its cost, and the rule by which it counts rows."""

from collections.abc import Sequence

from analyst_client.kinds.gram.statistics import NoisyStatistics
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.schema.quotes import write_expression


def list_origin(answer: PublishedAnswer, statistics: NoisyStatistics, caveats: Sequence[str]) -> list[str]:
    """Return the paragraphs that a file begins with: of one release, its answer, statistics and caveats."""
    request, cost = answer.request, answer.cost
    made_at = "" if answer.created_at is None else f", made at {answer.created_at}"
    found = [
        f"Moments of the dataset {answer.dataset}, release {answer.id}{made_at}",
        f"{', '.join(statistics.target_names)} by {', '.join(statistics.feature_names)}",
        "Privacy: no cost is stated, as the statistics were made by the analyst"
        if cost is None
        else f"Privacy: epsilon = {cost.epsilon!r} at delta = {cost.delta!r}",
    ]
    rows = request.get("rows")
    if isinstance(rows, dict):
        weighted = " in scaled units: rows that are longer count for less, in N too"
        norm = f", norm {rows['norm']}{weighted}" if "norm" in rows else ""
        found.append(f"Row map: {rows.get('map')}{norm}")
    else:
        found.append("Row map: not stated")
    if "where" in request:
        found.append(f"Rows that count: {write_expression(request['where'])}")
    if "weight" in request:
        found.append(f"Weight of a row: {write_expression(request['weight'])}. N is the sum of weights")
    return [*found, *(f"Note: {caveat}" for caveat in caveats)]
