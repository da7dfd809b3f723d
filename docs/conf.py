"""Configuration of Sphinx for the site of the pages in this folder (`make docs`); index.md sorts them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

project = "netstack"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "cyclopts.ext.sphinx",
    "docstrings",
    "navigation",
    "notebooks",
]
exclude_patterns = ["site/**"]
highlight_language = "text"
default_role = "code"  # docstrings name things in single backticks
myst_heading_anchors = 3
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_type_aliases = {"Whole": "int"}  # its bounds are those of the numbers in a file

copybutton_prompt_text = "$ "  # copied without it

html_theme = "furo"
html_title = "netstack"
html_static_path = ["site/static"]
html_css_files = ["netstack.css"]
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # these are fetched, which a page that is opened as a file may not
