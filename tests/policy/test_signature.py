"""R9: arguments are bound to the task's signature at the enqueue call."""

import functools

import pytest

from djqueue.policy.signature import SignatureMismatch, bind


def send_receipt(order_id: int, lines: list[str] | None = None, *, copy: bool = False) -> None: ...


def with_context(context: object, order_id: int) -> None: ...


def anything(*args: object, **kwargs: object) -> None: ...


def test_r9_arguments_that_fit_pass() -> None:
    bind(send_receipt, (1,), {}, takes_context=False)
    bind(send_receipt, (1, ["a"]), {"copy": True}, takes_context=False)
    bind(send_receipt, (), {"order_id": 1}, takes_context=False)
    bind(with_context, (1,), {}, takes_context=True)
    bind(anything, (1, 2, 3), {"a": 1}, takes_context=True)
    bind(functools.partial(send_receipt, 1), (), {}, takes_context=False)


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"),
    [
        ((), {}, "missing a required argument: 'order_id'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"order": 2}, "got an unexpected keyword argument 'order'"),
        ((1,), {"order_id": 2}, "multiple values for argument 'order_id'"),
    ],
)
def test_r9_arguments_that_do_not_fit_are_refused_with_task_fault_and_signature(
    args: tuple[object, ...], kwargs: dict[str, object], fault: str
) -> None:
    with pytest.raises(SignatureMismatch) as caught:
        bind(send_receipt, args, kwargs, takes_context=False)
    message = str(caught.value)
    assert message.startswith(f"{__name__}.send_receipt: ")
    assert fault in message
    assert message.endswith("expected send_receipt(order_id, lines=None, *, copy=False)")


def test_r9_the_context_is_the_workers_to_give_and_not_part_of_the_shown_signature() -> None:
    with pytest.raises(SignatureMismatch, match=r"multiple values for argument 'context'.*with_context\(order_id\)"):
        bind(with_context, (1,), {"context": None}, takes_context=True)
    with pytest.raises(SignatureMismatch, match="missing a required argument: 'order_id'"):
        bind(with_context, (), {}, takes_context=True)


def test_a_callable_without_a_readable_signature_passes() -> None:
    bind(type, (1, 2, 3, 4, 5), {}, takes_context=False)
