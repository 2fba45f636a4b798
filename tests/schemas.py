"""A database's schema as data: columns, constraints, indexes, triggers, functions and the rights of the service."""

from typing import Any

from sqlalchemy import Connection, inspect, text

_RIGHTS = (
    "SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = 'curator_service' "
    "AND table_schema = 'public' ORDER BY 1, 2"
)
_TRIGGERS = {
    "sqlite": "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY 1, 2",
    "postgresql": "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal "
    "ORDER BY 1, 2",
}
_FUNCTIONS = (
    "SELECT proname, pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace "
    "WHERE nspname = 'public' ORDER BY 1"
)
_INDEXES = {
    "sqlite": "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1, 2",
    "postgresql": "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
}


def describe_schema(connection: Connection) -> dict[str, Any]:
    """Return what a database's schema is, table by table, in an order of its own."""
    look, dialect = inspect(connection), connection.dialect.name
    tables: dict[str, dict[str, Any]] = {}
    for name in sorted(look.get_table_names()):
        tables[name] = {
            "columns": {
                column["name"]: f"{column['type']}, nullable {column['nullable']}, default {column['default']}"
                for column in sorted(look.get_columns(name), key=lambda column: column["name"])
            },
            "primary key": look.get_pk_constraint(name),
            "references": sorted(map(str, look.get_foreign_keys(name))),
            "unique": sorted(map(str, look.get_unique_constraints(name))),
            "checks": sorted(map(str, look.get_check_constraints(name))),
        }
    for what, query in (("indexes", _INDEXES[dialect]), ("triggers", _TRIGGERS[dialect])):
        for table, definition in connection.execute(text(query)):
            tables[table].setdefault(what, []).append(definition)
    if dialect == "postgresql":
        for table, right in connection.execute(text(_RIGHTS)):
            tables[table].setdefault("rights", []).append(right)
        tables["functions"] = {row[0]: row[1] for row in connection.execute(text(_FUNCTIONS))}
    return tables
