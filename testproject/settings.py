"""Settings of the shop. They read the environment and start nothing.

DATABASE_URL (required), OTHER_DATABASE_URL (a second alias, `other`), DJANGO_DEBUG (0 or 1, default 0), SECRET_KEY,
DJQUEUE_OPTIONS (the backend's options as a JSON object, default none), DATABASE_POOL (Django's pool of connections, its
options as a JSON object, default none), MEDIA_ROOT (default: `media` beside manage.py).
"""

from importlib.util import find_spec
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env(DJANGO_DEBUG=(bool, False))  # type: ignore[no-untyped-call]

if not env.str("DATABASE_URL", default=""):
    raise ImproperlyConfigured(
        "DATABASE_URL is not set: expected postgres://user@host:port/name. "
        "Set it, or start through `python manage.py …`, which starts an embedded server by itself."
    )

DATABASES = {"default": env.db_url("DATABASE_URL")}
if env.json("DATABASE_POOL", default=None):
    DATABASES["default"].setdefault("OPTIONS", {})["pool"] = env.json("DATABASE_POOL")
if env.str("OTHER_DATABASE_URL", default=""):
    DATABASES["other"] = env.db_url("OTHER_DATABASE_URL")

DEBUG = env("DJANGO_DEBUG")
SECRET_KEY = env.str("SECRET_KEY", default="a key for tests and demonstrations only")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "djqueue",
    "testproject.shop",
    "testproject.trials",
]
if find_spec("django.tasks") is None and find_spec("django_tasks") is not None:
    INSTALLED_APPS.append("django_tasks")  # Django 5.2: the same framework as a package of its own

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "testproject.security.strict_content",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

TASKS = {
    "default": {
        "BACKEND": "djqueue.backend.DjqueueBackend",
        "QUEUES": ["default", "emails", "images", "partner"],
        "OPTIONS": env.json("DJQUEUE_OPTIONS", default={}),
    },
}

ROOT_URLCONF = "testproject.urls"
STATIC_URL = "static/"
MEDIA_ROOT = env.str("MEDIA_ROOT", default=str(BASE_DIR / "media"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
