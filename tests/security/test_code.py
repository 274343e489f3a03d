"""What the package never does, read from its source: no eval, no pickle, no import because of data, no shell (R29)."""

from collections import Counter

from tests.security.syntax import calls, imports, modules

NEVER_CALLED = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "marshal.loads"}
NEVER_IMPORTED = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}

# Where a name is imported that is not written there: each name comes from code or settings, never from a row.
IMPORTS_BY_NAME = {
    "__init__.py": "the package's own names, from a table in the same file",
    "api/registry.py": "the tasks modules of installed apps, and task_modules of the settings",
    "api/redaction.py": "OPTIONS['redact']",
    "api/task.py": "a task object that the project itself has pickled, as for a process pool; never a row",
    "checks.py": "OPTIONS['redact']",
}
# Text that is marked as safe; each is a constant or was escaped in the same expression.
MARKED_SAFE = {
    "admin/joblist.py": 1,
    "admin/show.py": 1,
    "admin/tree.py": 3,
}
STARTS_PROGRAMS = {"runtime/reload.py": "the same command line again, in development; no shell"}


def test_nothing_evaluates_text() -> None:
    found = {(path, name) for path, tree in modules() for name, _ in calls(tree) if name in NEVER_CALLED}

    assert found == set()


def test_nothing_unpickles() -> None:
    found = {(path, name) for path, tree in modules() for name in imports(tree) if name in NEVER_IMPORTED}

    assert found == set()


def test_modules_are_imported_by_name_only_where_the_name_comes_from_code_or_settings() -> None:
    wanted = {"import_module", "import_string", "importlib.import_module"}
    found = {path for path, tree in modules() for name, _ in calls(tree) if name in wanted}

    assert found == set(IMPORTS_BY_NAME)


def test_programs_are_started_without_a_shell_and_in_known_places_only() -> None:
    found = {path for path, tree in modules() for name in imports(tree) if name == "subprocess"}
    shells = [path for path, tree in modules() for _, call in calls(tree) if "shell" in {k.arg for k in call.keywords}]

    assert found == set(STARTS_PROGRAMS)
    assert shells == []


def test_text_is_marked_as_safe_in_known_places_only() -> None:
    found = Counter(path for path, tree in modules() for name, _ in calls(tree) if name.endswith("mark_safe"))

    assert found == MARKED_SAFE
