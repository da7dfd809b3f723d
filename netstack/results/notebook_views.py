"""Objects that show themselves in a notebook: as tables, as a picture, as HTML with both.

Nothing here draws, and nothing here knows who does. A distribution that can show a class says so in its entry
points, which is also how pandas finds what draws its plots::

    [project.entry-points."netstack.views"]
    Result = "integration.present.notebook:RESULT"

So a class of a lower layer is shown by a higher one, which is imported when it is shown.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

GROUP = "netstack.views"
"""The entry points that are looked up, by the names of classes."""


class View(Protocol):
    """The presentation of the objects of a class."""

    def table(self, shown: Any, name: str | None) -> Any:
        """Return a table as a pyarrow.Table; None: the first one."""

    def frame(self, shown: Any, name: str | None) -> Any:
        """Return a table as a pandas.DataFrame; None: the first one."""

    def chart(self, shown: Any, name: str | None) -> Any:
        """Return a picture as an altair chart; None: the first one."""

    def html(self, shown: Any) -> str:
        """Return what a notebook shows."""


@cache
def view_of(kind: str) -> View | None:
    """Return what shows the objects of a class, by its name; None where no such distribution is installed."""
    for entry in entry_points(group=GROUP, name=kind):
        view: View = entry.load()
        return view
    return None


class Viewed:
    """Shows itself in a notebook, by the view of its class."""

    __slots__ = ()

    def to_arrow(self, table: str | None = None) -> Any:
        """Return one of its tables as a pyarrow.Table, by default the first one; its class has the names.

        Raises:
            ValueError: there is no such table; the line has the names of all.
            ImportError: the library is not installed; the line says what installs it.
        """
        return self._view().table(self, table)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return one of its tables as a pandas.DataFrame; otherwise as `to_arrow`."""
        return self._view().frame(self, table)

    def plot(self, picture: str | None = None) -> Any:
        """Return one of its pictures as an altair chart, by default the first one.

        Raises:
            ValueError: there is no such picture; the line has the names of all.
            ImportError: the library is not installed; the line says what installs it.
        """
        return self._view().chart(self, picture)

    def _repr_html_(self) -> str | None:
        """Return the HTML for a notebook; None where no package that can show it is installed."""
        view = view_of(type(self).__name__)
        return None if view is None else view.html(self)

    def _view(self) -> View:
        view = view_of(type(self).__name__)
        if view is None:
            text = f"no installed package shows a {type(self).__name__}: pip install 'netstack[notebook]'"
            raise ImportError(text)
        return view
