"""The package's own source as syntax trees, and what calls in it are called."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent / "djqueue"


def modules(under: str = "") -> list[tuple[str, ast.Module]]:
    """Each module's path below the package, and its tree."""
    return [(path, tree) for path, tree in _all() if path.startswith(under)]


@cache
def _all() -> list[tuple[str, ast.Module]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the dotted name of what is called, as far as it is one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names of all modules that are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or an attribute; a call in between is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return dotted(node.func) if isinstance(node, ast.Call) else ""
