"""Sphinx settings of the site; `make docs` builds it (docs/build_site.py copies the pages and this file)."""

from typing import Any

project = "Headwise"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
default_role = "literal"  # docstrings write `name`
napoleon_use_ivar = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "Headwise"
html_show_sphinx = False
html_copy_source = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# A command with its explanation beside it is no shell script, and is shown without colors.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_default_options = {"members": True, "show-inheritance": True}


def setup(app: Any) -> None:
    """Escape what is Markdown in docstrings and has another meaning in reStructuredText."""

    def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        lines[:] = [line.replace("|", r"\|").replace("*", r"\*") for line in lines]

    app.connect("autodoc-process-docstring", escape, priority=10)
