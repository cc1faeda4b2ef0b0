"""Settings of the documentation: `make docs`.

The pages load nothing from elsewhere: no fonts, no scripts, no statistics of visits. Formulas
become MathML, notebooks show the outputs that are stored in them, and no inventory of another
project is fetched, so the site can be built and read without a network.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import anonbayes  # noqa: E402

project = "anonbayes"
author = "The anonbayes developers"
copyright = "the anonbayes developers"
release = version = anonbayes.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "mathml",
    "included",
    "command_line",
    "api_pages",
    "gallery",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
templates_path = ["_templates"]

# Text
myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"  # prompts and outputs
default_role = "autolink"

# Names of the package
autodoc_typehints = "none"  # docstrings have them, in words
autodoc_member_order = "bysource"
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
nitpicky = True
# Types in signatures belong to NumPy, pandas and others, whose inventories are not fetched.
nitpick_ignore_regex = [("py:(class|obj|data|exc)", r".*")]

# Looks
html_theme = "pydata_sphinx_theme"
html_title = "anonbayes"
html_static_path = ["_static"]
html_css_files = ["anonbayes.css"]
html_copy_source = False
html_show_search_summary = False  # fetched from the pages, which browsers refuse to files
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
}
html_sidebars = {"index": [], "installation": [], "tour": [], "mathematics": []}
