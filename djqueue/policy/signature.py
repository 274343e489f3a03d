"""Do these arguments fit the task? Asked when a job is enqueued, where the mistake is, not in the worker.

Stands before the arguments are frozen; nothing is written when it refuses.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any


class SignatureMismatch(TypeError):
    """The arguments do not fit the task's signature; the message names the task, the fault and the signature."""


def bind(
    func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, Any], *, takes_context: bool
) -> None:
    """Raise `SignatureMismatch` unless `func(*args, **kwargs)` would be a possible call.

    With `takes_context` the worker puts the context before `args`. A callable without a readable signature passes.
    """
    signature = _signature(func)
    if signature is None:
        return
    try:
        if takes_context:
            signature.bind(None, *args, **kwargs)
        else:
            signature.bind(*args, **kwargs)
    except TypeError as fault:
        expected = _shown(signature, takes_context)
        name = getattr(func, "__qualname__", type(func).__name__)
        path = f"{getattr(func, '__module__', '?')}.{name}"
        raise SignatureMismatch(f"{path}: {fault}; expected {name}{expected}") from None


@lru_cache(maxsize=4096)
def _signature(func: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None


def _shown(signature: inspect.Signature, takes_context: bool) -> str:
    """The signature as its caller sees it: without annotations, and without the context."""
    parameters = list(signature.parameters.values())
    if takes_context and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[0]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(plain))
