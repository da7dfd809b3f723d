"""Prints the man page: the help of the command line, by docutils' writer of man pages."""

from __future__ import annotations

import re
import sys

from docutils.core import publish_string

from integration.cli.app import app

HEAD = """\
========
netstack
========

{rule}
{about}
{rule}

:Manual section: 1
:Manual group: netstack

SYNOPSIS
========

``netstack`` *COMMAND* [*OPTIONS*]

DESCRIPTION
===========

Results go to stdout and everything else to stderr. A mistake is one line and exit status 2. Scenario files
are TOML: ``netstack schema --path`` names the schema by which editors check them; examples and the pages of
the documentation lie in share/doc/netstack, beside this page.

"""

FOOT = """
EXIT STATUS
===========

0; 1 where the subject of the command is bad: a job failed for good, a number is outside its tolerance, a
configuration has an error or a warning; 2 for a mistake; 130 after Ctrl-C, 143 after SIGTERM.
"""

SETTINGS = {"output_encoding": "unicode", "datestamp": None, "generator": False, "halt_level": 2}


def page() -> str:
    """Return the page, in the language of troff.

    Raises:
        docutils.utils.SystemMessage: a text of the help is not what reStructuredText reads as it is meant.
    """
    help_text = app.generate_docs(output_format="rst")
    about = str(app.help).rstrip(".")
    commands = help_text[help_text.index(".. _cyclopts-netstack-") :]
    commands = re.sub(r"^\.\. _cyclopts-.*:\n\n", "", commands, flags=re.MULTILINE)
    head = HEAD.format(about=about, rule="-" * len(about))
    text = f"{head}COMMANDS\n========\n\n{commands}\n{FOOT}"
    troff: str = publish_string(text, writer="manpage", settings_overrides=SETTINGS)
    lines = [line for line in troff.splitlines() if not line.startswith('.\\" ')]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
