"""Signals of djqueue itself; those of Django's Tasks framework (`task_enqueued`, `task_started`, `task_finished`) are
sent as well, by the backend and the worker.

Receivers run in the process that does the work and must be quick; their exceptions are logged and change nothing.
"""

from django.dispatch import Signal

worker_started = Signal()
"""A worker process is ready to claim. Arguments: `worker_id`."""

worker_stopping = Signal()
"""A worker process has stopped claiming. Arguments: `worker_id`."""

job_died = Signal()
"""A job has become a dead letter. Sent by the leader of the workers, within a second or two, once the death is
committed and counted, however the job died; at most once: the dead letters are the truth. Arguments: `job_id`,
`died_at`, `queue_name`, `task_name`, `tenant_id`, `reason`, `exception`, `message`, `fingerprint`."""

deaths_digest = Signal()
"""Jobs have died of one cause: at most once in `digest_seconds` for each fingerprint, the first time at once, never for
a muted one. For mails. Arguments: `fingerprint`, `count` (since the last digest), `total`, `exception`, `frame`,
`message` (masked), `samples`, `task_names`, `tenant_ids`, `versions`, `first_seen_at`, `last_seen_at`."""
