"""The shop with other queues installed beside djqueue."""

from importlib.util import find_spec

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as SHOP

INSTALLED_APPS = [*SHOP, "django_tasks_db", "django_q", *(["django_ox"] if find_spec("django_ox") else [])]
Q_CLUSTER = {"name": "shop", "orm": "default", "timeout": 60, "retry": 120}
