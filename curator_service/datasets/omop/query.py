"""The query of a declaration: one row for each person, the same rows on PostgreSQL, SQLite and DuckDB.

Databases have no arithmetic of dates in common, so that days are counted in integers, once for all records. Divisions
leave no remainder: some databases cut one off, and others do not. Days are `YYYY-MM-DD`, or begin so.
"""

from collections.abc import Iterable, Iterator
from textwrap import indent

from curator_service.datasets.omop.declaration import AGE, SEX, Declaration, Feature, Measurement

MADE = "-- Made by `curator manifest omop`: change the declaration, and make it again."
"""The first line: a file that begins otherwise is somebody's own."""
_RECORDS = {
    "measurement": ("measurement", "measurement"),
    "condition": ("condition_occurrence", "condition_start"),
    "drug": ("drug_exposure", "drug_exposure_start"),
    "procedure": ("procedure_occurrence", "procedure"),
    "observation": ("observation", "observation"),
    "visit": ("visit_occurrence", "visit_start"),
}
"""The table of a kind of record, and what its day and its time begin with; its concept begins with the kind."""
_INDEX, _BEGINS, _ENDS = "'(index)'", "'(begins)'", "'(ends)'"
"""Records beside those of columns, which have no such names."""
_NOTHING = "CAST(NULL AS double precision)"
_DATED = """\
written AS (
  SELECT person_id, feature, record_id, at_time, value, CAST(substr(at_day, 1, 4) AS integer) AS y,
    CAST(substr(at_day, 6, 2) AS integer) AS m, CAST(substr(at_day, 9, 2) AS integer) AS d
  FROM record WHERE at_day LIKE '____-__-__%'
),
leaping AS (SELECT written.*, CASE WHEN m > 2 THEN y ELSE y - 1 END AS leaps FROM written),
dated AS (
  SELECT person_id, feature, record_id, at_time, value, y, m, d,
    -- The digits: days before each month of a year without a leap day.
    365 * y + (leaps - leaps % 4) / 4 - (leaps - leaps % 100) / 100 + (leaps - leaps % 400) / 400
    + CAST(substr('000031059090120151181212243273304334', 3 * m - 2, 3) AS integer) + d AS day
  FROM leaping
),
placed AS (
  SELECT dated.*, day - MIN(CASE WHEN feature = '(index)' THEN day END) OVER (PARTITION BY person_id) AS days
  FROM dated
),
ranked AS (
  SELECT placed.*,
    ROW_NUMBER() OVER (PARTITION BY person_id, feature ORDER BY days, at_time, record_id, value) AS from_first,
    ROW_NUMBER() OVER (
      PARTITION BY person_id, feature ORDER BY days DESC, at_time DESC, record_id DESC, value DESC
    ) AS from_last,
    AVG(value) OVER (
      PARTITION BY person_id, feature ORDER BY days, at_time, record_id, value
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    ) AS mean
  FROM placed
  WHERE feature = '(index)'"""


def make_query(declaration: Declaration) -> str:
    """Return one statement; its columns are those of the drafted manifest, and who a person is."""
    cohort, schema = declaration.cohort, declaration.cdm_schema
    asked = sorted({concept for _, feature in declaration.features for concept in feature.concept_ids})
    # A column has its own name at the very end, where nothing else can have it.
    columns = {f"column_{i}": feature for i, (_, feature) in enumerate(declaration.features)}
    values = [f"    {_come_down(feature)} AS {name}" for name, feature in columns.items()]
    named = [f'  described.{name} AS "{feature.name}"' for name, feature in columns.items()]
    lines = [
        MADE,
        f"-- One row for each person of the cohort {cohort.id}, beside the manifest of {declaration.name}.",
        "-- What its concepts are called:",
        f"-- SELECT concept_id, concept_name FROM {_qualify(schema, 'concept')} WHERE concept_id IN ({_list(asked)})",
        "WITH entry AS (",
        f"  SELECT subject_id AS person_id, {_EDGES[cohort.index_date]}(cohort_start_date) AS index_date",
        f"  FROM {_qualify(cohort.cohort_schema or schema, cohort.table)}",
        f"  WHERE cohort_definition_id = {cohort.id} AND cohort_start_date IS NOT NULL",
        "  GROUP BY subject_id",
        "),",
        "record AS (",
        indent("\nUNION ALL\n".join(_select_records(declaration)), "  "),
        "),",
        _DATED,
        *(f"    OR {_window(feature)}" for _, feature in declaration.features),
        "),",
        "described AS (",
        "  SELECT person_id, MAX(CASE WHEN feature = '(index)' THEN y END) AS index_year,",
        ",\n".join(["    MAX(CASE WHEN feature = '(index)' THEN 100 * m + d END) AS index_day", *values]),
        "  FROM ranked GROUP BY person_id",
        ")",
        "SELECT person.person_id,",
        "  described.index_year - person.year_of_birth - CASE WHEN described.index_day",
        f"    < 100 * person.month_of_birth + COALESCE(person.day_of_birth, 1) THEN 1 ELSE 0 END AS {AGE},",
        ",\n".join([_select_sex(declaration), *named]),
        f"FROM described JOIN {_qualify(schema, 'person')} AS person ON person.person_id = described.person_id",
        *_select_observed(declaration),
        "ORDER BY person.person_id",
    ]
    return "\n".join(lines) + "\n"


_EDGES = {"first": "MIN", "last": "MAX"}


def _qualify(schema: str | None, table: str) -> str:
    return table if schema is None else f"{schema}.{table}"


def _select_records(declaration: Declaration) -> Iterator[str]:
    """Yield the records of every column, the index dates, and the periods of observation where they matter."""
    schema = declaration.cdm_schema
    yield _select(_INDEX, "0", "index_date", "''", _NOTHING, "entry")
    if declaration.cohort.observed_days is not None:
        period = _qualify(schema, "observation_period")
        for label, edge in ((_BEGINS, "start"), (_ENDS, "end")):
            day, number = f"observation_period_{edge}_date", "observation_period_id"
            yield _select(label, number, day, "''", _NOTHING, period) + f"\nWHERE {_OF_COHORT}"
    for kind, feature in declaration.features:
        table, begins = _RECORDS[kind]
        of_value, conditions = _NOTHING, [_OF_COHORT, _match_concepts(f"{kind}_concept_id", feature, schema)]
        if isinstance(feature, Measurement):
            of_value = "CAST(value_as_number AS double precision)"
            conditions.append("value_as_number IS NOT NULL")
            if feature.unit_concept_ids:
                conditions.append(f"unit_concept_id IN ({_list(feature.unit_concept_ids)})")
        at_time = f"COALESCE(CAST({begins}_datetime AS text), '')"
        records = _select(
            f"'{feature.name}'", f"{table}_id", f"{begins}_date", at_time, of_value, _qualify(schema, table)
        )
        yield f"{records}\nWHERE " + "\n  AND ".join(conditions)


_OF_COHORT = "person_id IN (SELECT person_id FROM entry)"


def _select(label: str, number: str, day: str, time: str, value: str, table: str) -> str:
    return (
        f"SELECT person_id, {label} AS feature, {number} AS record_id,\n"
        f"  CAST({day} AS text) AS at_day, {time} AS at_time, {value} AS value\nFROM {table}"
    )


def _match_concepts(column: str, feature: Feature, schema: str | None) -> str:
    concepts = _list(feature.concept_ids)
    if not feature.descendants:
        return f"{column} IN ({concepts})"
    ancestors = _qualify(schema, "concept_ancestor")
    return (
        f"({column} IN ({concepts}) OR {column} IN (\n"
        f"    SELECT descendant_concept_id FROM {ancestors} WHERE ancestor_concept_id IN ({concepts})))"
    )


def _list(concepts: Iterable[int]) -> str:
    return ", ".join(map(str, concepts))


def _window(feature: Feature) -> str:
    first, last = feature.window_days
    return f"(feature = '{feature.name}' AND days BETWEEN {first} AND {last})"


def _select_sex(declaration: Declaration) -> str:
    cases = " ".join(f"WHEN {concept} THEN '{label}'" for label, concept in declaration.sex.items())
    return f"  CASE person.gender_concept_id {cases} END AS {SEX}"


def _come_down(feature: Feature) -> str:
    found = f"feature = '{feature.name}'"
    ways = {
        "any": f"MAX(CASE WHEN {found} THEN 1 ELSE 0 END)",
        "count": f"COUNT(CASE WHEN {found} THEN 1 END)",
        "first": f"MAX(CASE WHEN {found} AND from_first = 1 THEN value END)",
        "last": f"MAX(CASE WHEN {found} AND from_last = 1 THEN value END)",
        "mean": f"MAX(CASE WHEN {found} AND from_first = 1 THEN mean END)",
    }
    return ways[feature.value]


def _select_observed(declaration: Declaration) -> list[str]:
    """Return the condition that one period of observation holds the index date and the days before."""
    days = declaration.cohort.observed_days
    if days is None:
        return []
    return [
        "WHERE person.person_id IN (",
        f"  SELECT person_id FROM placed WHERE feature IN ({_BEGINS}, {_ENDS}) GROUP BY person_id, record_id",
        f"  HAVING MAX(CASE WHEN feature = {_BEGINS} THEN days END) <= {-days}",
        f"    AND MAX(CASE WHEN feature = {_ENDS} THEN days END) >= 0",
        ")",
    ]
