"""The shop's settings with django-unfold in front of the stock admin. Its own scripts evaluate text, which the shop's
content security policy forbids: so that policy is left out here."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as SHOP
from testproject.settings import MIDDLEWARE as STRICT

INSTALLED_APPS = ["unfold", *SHOP]
MIDDLEWARE = [each for each in STRICT if not each.startswith("testproject.security.")]
