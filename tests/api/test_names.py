"""What `import djqueue` offers."""

import subprocess
import sys

import pytest

import djqueue
from tests.processes import ROOT


@pytest.mark.parametrize("name", djqueue.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(djqueue, name).__module__.startswith("djqueue.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'djqueue' has no attribute 'tasks_'"):
        _ = djqueue.tasks_


def test_the_package_can_be_imported_without_django_being_set_up() -> None:
    code = "import djqueue; print(djqueue.__version__, djqueue.Retry(after=3).after)"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout.split() == [djqueue.__version__, "3.0"], done.stderr
