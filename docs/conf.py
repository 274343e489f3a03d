"""How Sphinx makes the documentation: Markdown pages, read by MyST, in the furo theme. `.ci/docs` builds it."""

from importlib import metadata

project = "djqueue"
copyright = "the djqueue authors"
try:
    release = metadata.version("djqueue")
except metadata.PackageNotFoundError:
    release = "unknown"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "djqueue"
