"""The contents of tables, as a test compares them.

exact   row by row, within one scenario: a second run must not change a thing
like    without what sequences and clocks write, between scenarios: each begins anew, and they don't

The names of tables come from the test and can't be parameters, so they are quoted into the statement here.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connections, models

from djqueue.store import db

MOST_SHOWN = 20

# Columns that differ between two runs of the same handler on the same data: sequences, moments, random keys, and
# references to rows that the run itself has made.
_FLEETING = """
select a.attname from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = to_regclass(%(name)s) and a.attnum > 0 and not a.attisdropped and (
    a.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) like 'nextval(%%'
    or a.atttypid = any('{timestamptz,timestamp,timetz,time,date}'::regtype[])
    or exists (select from pg_constraint c where c.conrelid = a.attrelid and a.attnum = any(c.conkey)
        and (c.contype = 'p' and a.atttypid = 'uuid'::regtype
            or c.contype = 'f' and c.confrelid = any(%(names)s::text[]::regclass[]))))
"""

# What claims of other jobs in the queue leave in rows, which no handler has written.
_BOOKKEEPING = {"lease_token", "leased_by", "lease_until", "interruptions", "worker_ids"}

Rows = Counter[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The rows of each table as JSON text, with how often each is there."""

    exact: dict[str, Rows]
    like: dict[str, Rows]


class Contents:
    """The tables that a test has chosen."""

    def __init__(self, alias: str, tables: Sequence[type[models.Model] | str], ignored: Iterable[str]) -> None:
        if isinstance(tables, str) or not tables:
            raise ValueError(f"tables: expected a list of models or names of tables, at least one, got {tables!r}")
        self._alias = alias
        self._names = [each if isinstance(each, str) else each._meta.db_table for each in tables]
        self._ignored = set(ignored)

    def snapshot(self, job_id: str) -> Snapshot:
        """Read all rows, but for the job's own in djqueue's tables."""
        found = {name: self._rows(name, job_id) for name in self._names}
        fleeting = {name: self._fleeting(name) for name in self._names}
        return Snapshot(
            exact={name: Counter(_text(row) for row in rows) for name, rows in found.items()},
            like={name: Counter(_text(row, without=fleeting[name]) for row in rows) for name, rows in found.items()},
        )

    def _rows(self, name: str, job_id: str) -> list[dict[str, object]]:
        quoted = connections[self._alias].ops.quote_name(name)
        rows = [json.loads(text) for (text,) in db.rows(self._alias, f"select to_jsonb(t)::text from {quoted} t")]
        own = name.startswith("djqueue_")
        ignored = self._ignored | _BOOKKEEPING if own else self._ignored
        return [
            {column: value for column, value in row.items() if column not in ignored}
            for row in rows
            if not (own and row.get("id") == job_id)
        ]

    def _fleeting(self, name: str) -> set[str]:
        quoted = [connections[self._alias].ops.quote_name(each) for each in self._names]
        quoted_name = connections[self._alias].ops.quote_name(name)
        return {row[0] for row in db.rows(self._alias, _FLEETING, {"name": quoted_name, "names": quoted})}


def difference(before: dict[str, Rows], after: dict[str, Rows]) -> str:
    """Return what is different in words: `+` too much, `-` missing; an empty string where nothing is."""
    lines: list[str] = []
    for name in before:
        extra, missing = after[name] - before[name], before[name] - after[name]
        if extra or missing:
            lines.append(f"{name}:")
            lines += [f"  + {row}" for row in _shown(extra)]
            lines += [f"  - {row}" for row in _shown(missing)]
    return "\n".join(lines)


def _shown(rows: Rows) -> list[str]:
    found = sorted(rows.elements())
    more = [f"… and {len(found) - MOST_SHOWN} more"] if len(found) > MOST_SHOWN else []
    return found[:MOST_SHOWN] + more


def _text(row: dict[str, object], without: Iterable[str] = ()) -> str:
    left_out = set(without)
    kept = {column: value for column, value in row.items() if column not in left_out}
    return json.dumps(kept, ensure_ascii=False, sort_keys=True)
