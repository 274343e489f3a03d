"""From the text of a failure to the cause that a death is counted under."""

from djqueue.policy.errors import FailureText, clean_text
from djqueue.policy.fingerprint import fingerprint
from djqueue.store.finish import Cause

SAMPLE_LIMIT = 1_000


def cause_of(text: FailureText, task_name: str, version: str) -> Cause:
    """Return the cause. Where no frame is known (a lost process, a time limit) the task stands in its place, so that
    not all of them look alike."""
    frame = text.frame or f"task {task_name}"
    return Cause(
        fingerprint=fingerprint(text.exception, frame, text.message),
        exception=text.exception,
        frame=frame,
        message=clean_text(text.message, SAMPLE_LIMIT),
        version=version,
    )
