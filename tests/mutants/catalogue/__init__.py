"""All mutants, from the lowest layer up."""

from .of_buffers import BUFFERS
from .of_checkpoints import CHECKPOINTS
from .of_exchanges import EXCHANGES
from .of_flowcontrol import FLOWCONTROL
from .of_jobs import JOBS
from .of_state import STATE
from .of_tasks import TASKS

MUTANTS = (*FLOWCONTROL, *BUFFERS, *EXCHANGES, *STATE, *CHECKPOINTS, *TASKS, *JOBS)
