"""Objects with a notebook view: tables, charts and HTML.

This module contains and imports no drawing code. A distribution registers its view of a class as an entry
point, in the same way in which pandas finds plotting backends::

    [project.entry-points."netstack.views"]
    Result = "integration.show.notebook.views:RESULT"

So a higher layer provides the view of a class in a lower layer. It is imported only when an object is shown.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

__all__ = ["Viewed"]

GROUP = "netstack.views"
"""Group of the entry points. Each entry point is named after the class that it shows."""


class View(Protocol):
    """Creates the tables, charts and HTML for the objects of a class."""

    def table(self, shown: Any, name: str | None) -> Any:
        """Return a table as a pyarrow.Table; `name` None: the first table."""

    def frame(self, shown: Any, name: str | None) -> Any:
        """Return a table as a pandas.DataFrame; `name` None: the first table."""

    def chart(self, shown: Any, name: str | None) -> Any:
        """Return an altair chart; `name` None: the first chart."""

    def html(self, shown: Any) -> str:
        """Return the HTML for a notebook."""


@cache
def view_of(kind: str) -> View | None:
    """Return the view of a class by its name; None if no installed distribution has one."""
    for entry in entry_points(group=GROUP, name=kind):
        view: View = entry.load()
        return view
    return None


class Viewed:
    """Base of classes that a notebook shows with their registered view."""

    __slots__ = ()

    def to_arrow(self, table: str | None = None) -> Any:
        """Return one of the tables as a pyarrow.Table, by default the first; the class lists their names.

        Raises:
            ValueError: if there is no such table; the message lists all names.
            ImportError: if a library is not installed; the message says how to install it.
        """
        return self._view().table(self, table)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return one of the tables as a pandas.DataFrame; see `to_arrow`."""
        return self._view().frame(self, table)

    def plot(self, picture: str | None = None) -> Any:
        """Return one of the charts as an altair chart, by default the first.

        Raises:
            ValueError: if there is no such chart; the message lists all names.
            ImportError: if a library is not installed; the message says how to install it.
        """
        return self._view().chart(self, picture)

    def _repr_html_(self) -> str | None:
        """Return the HTML for a notebook; None if no installed package has a view."""
        view = view_of(type(self).__name__)
        return None if view is None else view.html(self)

    def _view(self) -> View:
        view = view_of(type(self).__name__)
        if view is None:
            text = (
                f"no installed package can show a {type(self).__name__} in a notebook; install it with "
                "pip install 'netstack[notebook]'"
            )
            raise ImportError(text)
        return view
