"""Errors of memory and records cross processes whole."""

from __future__ import annotations

import pickle

import pytest

from buffers import CorruptRecord, InsufficientBuffers


@pytest.mark.parametrize("error", [InsufficientBuffers(5, 2, 10, 32768), CorruptRecord(-1, 100, 1000)])
def test_an_error_can_be_pickled(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
