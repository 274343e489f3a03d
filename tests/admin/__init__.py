"""The admin's pages as people use them, over real rows."""
