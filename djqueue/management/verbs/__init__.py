"""The verbs of `manage.py djqueue`: each module declares its arguments and answers in words or as JSON."""
