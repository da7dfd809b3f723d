"""The protocol of the network layer as pure state machines: no I/O, no clock, no randomness.

Time is passed in as an argument, in seconds. Each method returns the actions that its caller has to carry
out. Read the modules in this order: `messages`, `frames`, `wire_size`, `frame_reader`, `handshake`, `events`,
`credit`, `sender`, `receiver`, `failure_reason`, `barrier_handler`, `barrier_aligner`, `alternating_aligner`,
`barrier_tracker`, `channel_barrier`, `throughput`, `debloat`, `debloat_policy`, `debloat_policies`,
`partition_requests`, `watermark_valve`.
"""

from types import ModuleType as _ModuleType

from .alternating_aligner import *
from .barrier_aligner import *
from .barrier_handler import *
from .barrier_tracker import *
from .channel_barrier import *
from .credit import *
from .debloat import *
from .debloat_policies import *
from .debloat_policy import *
from .errors import *
from .events import *
from .failure_reason import *
from .frame_reader import *
from .frames import *
from .handshake import *
from .messages import *
from .partition_requests import *
from .receiver import *
from .sender import *
from .throughput import *
from .watermark_valve import *
from .wire_size import *

__all__ = [name for name, value in vars().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
