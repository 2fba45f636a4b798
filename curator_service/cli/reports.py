"""Output of a report on rows for the operator."""

from rich.table import Table

from curator_service.cli.common import escape, out
from curator_service.datasets.report import Report

NOTICE = "For the operator alone: exact counts of the rows, without noise. None of this may be passed to an analyst."


def print_report(report: Report) -> None:
    """Print a report for a person: counts, then warnings, then faults."""
    out.print(NOTICE, style="bold", soft_wrap=True)
    out.print(_count_words(report), highlight=False, soft_wrap=True)
    out.print(_column_table(report))
    for warning in report.warnings:
        out.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False, soft_wrap=True)
    for fault in report.faults:
        out.print(f"[red]fault:[/red] {escape(fault.word(report.place))}", highlight=False, soft_wrap=True)


def _count_words(report: Report) -> str:
    words = f"{report.rows:,} rows of up to {report.row_capacity:,}, of {report.persons:,} persons"
    if report.beyond_share:
        words += f"; {report.beyond_share:,} rows are beyond a person's share, and never count"
    return f"{words}."


def _column_table(report: Report) -> Table:
    table = Table("column", "type", "missing", "below bounds", "above bounds")
    for column in table.columns[2:]:
        column.justify = "right"
    for one in report.columns:
        counts = ["" if count is None else _share(count, report.rows) for count in (one.missing, one.below, one.above)]
        table.add_row(one.name, one.type, *counts)
    return table


def _share(count: int, rows: int) -> str:
    if not count:
        return "0"
    return f"{count:,} ({count / rows:.1%})" if count >= 0.001 * rows else f"{count:,} (<0.1%)"
