"""What goes wrong in the testbed, as one line for the user."""


class TestbedError(Exception):
    """There is no measurement; the message says why, and what would help."""

    __test__ = False
