"""The options of a circuit: what may stand in `OPTIONS["circuits"][name]`, and in a circuit's row, which goes first.

Invariant: a value that is not obeyed is a problem with a sentence of its own; none is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from djqueue.nearest import nearest

NAME_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitOptions:
    """When a circuit opens, how long it stays open, and how it comes back."""

    failure_ratio: float = 0.5
    """It opens when at least this share of the calls of the window has failed: above 0, up to 1."""

    min_calls: int = 20
    """A ratio of fewer calls than that says nothing: 1 to 100,000."""

    window_seconds: float = 30
    """How far back calls count: 1 to 3,600."""

    consecutive_failures: int = 10
    """It opens after so many failures in a row, whatever the ratio: 1 to 100,000; 0: never for that."""

    open_seconds: float = 10
    """How long it stays open the first time; twice as long each time it opens again before it has closed: 0.1 to
    86,400."""

    max_open_seconds: float = 300
    """The longest that it stays open by itself: 0.1 to 604,800; where that is less than `open_seconds`, this counts."""

    probes: int = 3
    """Jobs that may run at once when it is half-open, in the whole fleet, and how many must succeed: 1 to 1,000."""

    ramp_per_second: float = 1
    """Starts per second when it begins to close: 0.01 to 100,000."""

    ramp_double_seconds: float = 5
    """How long until that rate doubles, again and again: 0.1 to 86,400."""

    ramp_seconds: float = 60
    """How long the rate is limited after the probes succeeded: 0 (not at all) to 86,400."""


LIMITS: dict[str, tuple[float, float]] = {
    "failure_ratio": (0.000_001, 1),
    "min_calls": (1, 100_000),
    "window_seconds": (1, 3_600),
    "consecutive_failures": (0, 100_000),
    "open_seconds": (0.1, 86_400),
    "max_open_seconds": (0.1, 604_800),
    "probes": (1, 1_000),
    "ramp_per_second": (0.01, 100_000),
    "ramp_double_seconds": (0.1, 86_400),
    "ramp_seconds": (0, 86_400),
}
WHOLE = {"min_calls", "consecutive_failures", "probes"}
KNOWN = [each.name for each in fields(CircuitOptions)]


def parse_circuits(given: Any, problems: list[str]) -> dict[str, CircuitOptions]:
    """Return the options by circuit; what is wrong is added to `problems` and keeps its default."""
    if not isinstance(given, Mapping):
        problems.append(f"circuits: expected a dict of circuit names to settings, got {given!r}")
        return {}
    return {name: _circuit(name, settings, problems) for name, settings in given.items()}


def setting_problem(key: str, value: Any) -> str:
    """Say what is wrong with one setting of a circuit, or nothing."""
    if key not in LIMITS:
        return f"unknown setting {key!r}{nearest(key, KNOWN)}; known are: {', '.join(KNOWN)}"
    low, high = LIMITS[key]
    kinds = int if key in WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if key in WHOLE else "a number"
        return f"{key}: expected {kind} from {low:g} to {high:,.12g}, got {value!r}"
    return ""


def overridden(options: CircuitOptions, overrides: Mapping[str, Any]) -> CircuitOptions:
    """Return the options with what the circuit's row says instead; what is out of bounds there is left out."""
    usable = {key: value for key, value in overrides.items() if not setting_problem(key, value)}
    return replace(options, **usable) if usable else options


def _circuit(name: Any, settings: Any, problems: list[str]) -> CircuitOptions:
    where = f"circuits[{name!r}]"
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT:
        problems.append(f"{where}: expected a name of 1 to {NAME_LIMIT} characters, got {name!r}")
    if not isinstance(settings, Mapping):
        problems.append(f"{where}: expected a dict of settings, got {settings!r}")
        return CircuitOptions()
    found = {key: setting_problem(key, value) for key, value in settings.items()}
    problems += [f"{where}: {problem}" for problem in found.values() if problem]
    return CircuitOptions(**{key: settings[key] for key, problem in found.items() if not problem})
