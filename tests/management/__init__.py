"""What the management commands print and change."""
