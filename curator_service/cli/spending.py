"""The command that lists charges."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from curator_service.cli.common import emit, escape, open_curator, write_document
from curator_service.ledger.schemas import SPENT_NOTE
from curator_service.permits.response_models import SpentAnswer
from curator_service.permits.spending import By, list_spent, write_csv


class Format(StrEnum):
    """The format of a list of charges."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JSONL = "jsonl"


def spending(
    by: Annotated[list[By] | None, typer.Option(help="What is summed by; again for each. All of them if none.")] = None,
    population: Annotated[str | None, typer.Option(help="Of one population.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show charges by analyst, project, dataset, kind and month."""
    groups = list(By) if not by else list(dict.fromkeys(by))
    with open_curator() as curator:
        found, people = list_spent(curator.database, groups, population), curator.identity.people.look()
    answers = [SpentAnswer.of(spent) for spent in found]
    if form is Format.CSV:
        write_document(write_csv(found, groups))
        return
    if form is Format.JSONL:
        write_document("".join(f"{json.dumps(one.model_dump(), ensure_ascii=False)}\n" for one in answers))
        return
    table = Table("population", *groups, "charges", "µ", "ε", "δ", title="Spending", caption=SPENT_NOTE)
    for spent in found:
        amount = spent.population.view(spent.units)
        numbers = (amount.mu, amount.epsilon, amount.delta)
        shown = ("–" if number is None else f"{number:.6g}" for number in numbers)
        grouped = (people.named(spent.group[one]).label if one is By.ANALYST else spent.group[one] for one in groups)
        table.add_row(spent.population.name, *map(escape, grouped), f"{spent.charges:,}", *shown)
    emit(answers, as_json=as_json or form is Format.JSON, table=table)
