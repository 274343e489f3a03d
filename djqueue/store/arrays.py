"""Arrays as PostgreSQL's text literals, for statements that carry hundreds of jobs.

psycopg can write lists too, an element at a time; for the five arrays of an ack that costs three times as much, and it
happens on a worker's main thread, which everything waits for. The statement's cast gives the literal its type.
"""

from collections.abc import Iterable
from uuid import UUID


def of_ids(ids: Iterable[UUID]) -> str:
    """Return the literal of a uuid[]."""
    return "{" + ",".join([f"{id_.int:032x}" for id_ in ids]) + "}"


def of_numbers(numbers: Iterable[float]) -> str:
    """Return the literal of a bigint[] or float8[]."""
    return "{" + ",".join([repr(number) for number in numbers]) + "}"


def of_texts(texts: Iterable[str]) -> str:
    """Return the literal of a jsonb[] or text[] without nulls."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"
