"""Memory: segments and pools, buffers and their queues, encoding of records.

Read `segment`, `network_pool` and `local_pool` for the origin of memory, `buffer` and `subpartition` for the
producing side, `channel_buffers` and `channel_queue` for the receiving side, `records` and `record_decoder`
for the contents of buffers.
"""

from types import ModuleType as _ModuleType

from .buffer import *
from .buffer_counts import *
from .channel_buffers import *
from .channel_queue import *
from .errors import *
from .local_pool import *
from .network_pool import *
from .payload import *
from .pool_sizes import *
from .pool_statistics import *
from .record_decoder import *
from .records import *
from .segment import *
from .subpartition import *

__all__ = [name for name, value in vars().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
