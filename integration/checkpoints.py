"""The public names of `integration.storage` for checkpoints, under their earlier path."""

from .storage import DirectoryStorage, TransactionDirectory, find_checkpoint

__all__ = ["DirectoryStorage", "TransactionDirectory", "find_checkpoint"]
