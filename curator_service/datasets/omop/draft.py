"""The manifest of a declaration, for a person to complete: bounds are empty, whatever the rows are."""

from curator_service.datasets.drafting import TO_FILL, draft_head, quote
from curator_service.datasets.omop.declaration import AGE, PERSON, SEX, Declaration, Feature, Measurement

_CONCEPTS_SHOWN = 20
_VALUES = {
    "any": "Whether there is a record of",
    "count": "How many records there are of",
    "first": "First value of",
    "last": "Last value of",
    "mean": "Mean value of",
}


def draft_manifest(declaration: Declaration) -> str:
    """Return TOML with the columns of the query."""
    lines = [
        "# A draft, from a declaration of a cohort in an OMOP CDM, and from no row. Fill in what is empty, delete",
        "# columns that nobody will ask for, then run `curator manifest check` with the query beside it.",
        "",
        *draft_head(declaration.name, declaration.population, declaration.row_capacity),
        f"subject = {quote(PERSON)}   # it is read, never stored, never released",
        "rows_per_subject = 1",
        *_draft_number(
            AGE, "years", f"Completed years at the index date, the {declaration.cohort.index_date} of a person"
        ),
        *_draft_column(
            SEX, "categorical", f"Concepts {', '.join(map(str, declaration.sex.values()))}; others are missing"
        ),
        f"levels = [{', '.join(map(quote, declaration.sex))}]",
    ]
    for kind, feature in declaration.features:
        lines += _draft_feature(kind, feature)
    return "\n".join(lines) + "\n"


def _draft_feature(kind: str, feature: Feature) -> list[str]:
    description = feature.description or _describe(kind, feature)
    if isinstance(feature, Measurement):
        return _draft_number(feature.name, feature.unit, description)
    if feature.value == "any":
        return [*_draft_column(feature.name, "boolean", description), 'missing = "complete"']
    return [
        *_draft_column(feature.name, "numeric", description),
        'missing = "complete"',
        "lower = 0",
        f"# upper ={TO_FILL}",
    ]


def _describe(kind: str, feature: Feature) -> str:
    concepts = ", ".join(map(str, feature.concept_ids[:_CONCEPTS_SHOWN]))
    if (more := len(feature.concept_ids) - _CONCEPTS_SHOWN) > 0:
        concepts += f" and {more} more"
    below = " and their descendants" if feature.descendants else ""
    first, last = feature.window_days
    window = f"from day {first} to day {last}, the index date being 0"
    return f"{_VALUES[feature.value]} {kind} concepts {concepts}{below}, {window}"


def _draft_number(name: str, unit: str | None, description: str) -> list[str]:
    units = [f"unit = {quote(unit)}"] if unit else []
    return [*_draft_column(name, "numeric", description), *units, f"# lower ={TO_FILL}", "# upper ="]


def _draft_column(name: str, kind: str, description: str) -> list[str]:
    return ["", "[[columns]]", f"name = {quote(name)}", f"type = {quote(kind)}", f"description = {quote(description)}"]
