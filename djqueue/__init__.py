"""djqueue: the durable job queue for Django projects, on the PostgreSQL they already have."""

__version__ = "0.1.0"
