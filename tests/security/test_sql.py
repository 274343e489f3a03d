"""SQL is written once, as constants of the store; what comes from outside is a parameter of it, always."""

import ast
import re
from collections.abc import Iterator

from tests.security.syntax import calls, dotted, modules

# Names of partitions can't be parameters; what stands in them is a `date`, of the database's own clock.
OF_DATES = {
    "store/history.py: CREATE_DAY.format(day=day)",
    "store/history.py: ATTACH_DAY.format(day=day, end=day + timedelta(days=1))",
    "store/history.py: FINALIZE_DAY.format(day=found.day)",
    "store/history.py: DETACH_DAY.format(day=found.day)",
    "store/history.py: DROP_DAY.format(day=found.day)",
}
SQL = re.compile(
    r"\b(select|insert into|update \w+ set|delete from|where|order by|(alter|drop|create) table)\b", re.IGNORECASE
)
# Connections whose statements are not the store's, and why.
ELSEWHERE = {
    "store/db.py": "runs what it is given",
    "runtime/handler_db.py": "compares and resets session settings of a handler's connection",
    "runtime/listener.py": "LISTEN",
    "testing/contents.py": "reads the tables that a test names, quoted by Django",
    "migrations/operations.py": "DDL of migrations",
}


def test_no_function_of_the_store_puts_a_statement_together() -> None:
    """Statements are constants; inside functions there is no f-string, no format, no plus and no percent of SQL."""
    found = {
        f"{path}: {ast.unparse(node)}"
        for path, tree in modules("store")
        for function in functions(tree)
        for node in ast.walk(function)
        if puts_sql_together(node)
    }

    assert found == OF_DATES


def test_the_rule_finds_statements_that_are_put_together() -> None:
    bad = ["f'select {x}'", "CLAIM.format(x=x)", "CLAIM + x", "'where id = %s' % x", "'select ' + x"]
    good = ["CLAIM", "f'{a} jobs'", "'a' + x", "name.format(x)", "'%s' % x"]

    assert all(any(map(puts_sql_together, ast.walk(ast.parse(text)))) for text in bad)
    assert not any(any(map(puts_sql_together, ast.walk(ast.parse(text)))) for text in good)


def test_no_other_module_runs_sql() -> None:
    """Neither a cursor's execute nor the ORM's ways of passing SQL through."""
    passing = ("cursor.execute", "cursor.executemany", ".raw", ".extra", "RawSQL", ".copy")
    found = {
        path
        for path, tree in modules()
        for name, call in calls(tree)
        if (name.endswith(passing) and call.args and not isinstance(call.args[0], ast.Dict)) or name == "RawSQL"
    }

    assert found - {path for path in found if path.startswith("migrations/")} <= set(ELSEWHERE)


def test_constants_are_put_together_of_constants() -> None:
    """An f-string of the store's modules names other constants, numbers and column lists: all are known at import."""
    found = [
        f"{path}:{part.lineno}: {ast.unparse(part.value)}"
        for path, tree in modules("store")
        for node in tree.body
        if isinstance(node, ast.Assign)
        for part in ast.walk(node)
        if isinstance(part, ast.FormattedValue) and not is_known_at_import(part.value)
    ]

    assert found == []


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def puts_sql_together(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=parts):
            return any(isinstance(part, ast.Constant) and is_sql(part) for part in parts)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "replace" | "join")):
            return is_sql(value)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mod(), right=right):
            return is_sql(left) or is_sql(right)
    return False


def is_sql(node: ast.expr) -> bool:
    """A text with words of SQL in it, or the name of a constant that is not a number."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and SQL.search(node.value) is not None
    name = dotted(node).rpartition(".")[2].strip("_") if isinstance(node, ast.Name | ast.Attribute) else ""
    return name.isupper() and not name.endswith(("SECONDS", "BATCH", "MOST", "HOURS", "DAYS"))


def is_known_at_import(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="n"):
            return True  # the number of a loop at the module's level
        case ast.Name() | ast.Attribute():
            return dotted(node).rpartition(".")[2].strip("_").isupper()
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return is_known_at_import(value)
        case ast.BinOp(left=left, right=right):
            return all(isinstance(each, ast.Constant) or is_known_at_import(each) for each in (left, right))
    return False
