"""Migration operations for what only PostgreSQL has: partitions and storage parameters."""

from typing import Any

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import RunSQL
from django.db.migrations.state import ProjectState


class RunPostgres(RunSQL):
    """Run SQL on PostgreSQL; do nothing on other vendors, or where the router keeps djqueue's tables away."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if _wanted(app_label, schema_editor):
            self._run_sql(schema_editor, self.sql)  # type: ignore[attr-defined]

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if self.reverse_sql is not None and _wanted(app_label, schema_editor):
            self._run_sql(schema_editor, self.reverse_sql)  # type: ignore[attr-defined]

    def describe(self) -> str:
        return "Run SQL on PostgreSQL"


def _wanted(app_label: str, schema_editor: BaseDatabaseSchemaEditor) -> bool:
    connection = schema_editor.connection
    hints: dict[str, Any] = {"model_name": "job"}
    return connection.vendor == "postgresql" and router.allow_migrate(connection.alias, app_label, **hints)
