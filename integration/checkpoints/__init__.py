"""Checkpoints and output that outlive a run: storing them, checking what lies there, going on from them."""

from .directory import DirectoryStorage
from .inventory import find_checkpoint
from .transaction_directory import TransactionDirectory

__all__ = ["DirectoryStorage", "TransactionDirectory", "find_checkpoint"]
