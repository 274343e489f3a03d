"""Settings for the peers that are Django apps; COMPARE_APP, COMPARE_BACKEND and COMPARE_OPTIONS say which."""

import json
import os
from urllib.parse import urlsplit

_url = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = "for comparisons only"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", os.environ["COMPARE_APP"]]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _url.hostname,
        "PORT": _url.port,
        "USER": _url.username,
        "NAME": _url.path.lstrip("/"),
        "CONN_MAX_AGE": None,
    }
}
TASKS = {
    "default": {
        "BACKEND": os.environ["COMPARE_BACKEND"],
        "QUEUES": ["default"],
        "OPTIONS": json.loads(os.environ.get("COMPARE_OPTIONS", "{}")),
    }
}
