"""djqueue beside django-unfold: run by naming its settings, `pytest tests/unfold --ds tests.unfold.settings`."""
