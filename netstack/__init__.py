"""The network: jobs of subtasks that exchange records in buffers under credit-based flow control.

``emulate(scenario)`` runs a job; `integration.load_scenario` reads a scenario from a file. All public names
can be imported from here, as in ``from netstack import CutLink``, and are documented where they are defined,
as in ``help("netstack.scenarios.faults")``. The table lists the modules that most programs need, by package:

=====================  ==================================================================================
netstack.errors        errors, by cause
netstack.scenarios     scenario: vertices, edges, machines, keys, paths, limits, slots; options: Flink's
                       options, presets; checkpoint_modes; costs; faults; changes: actions
                       of users; ship_strategies, deadlocks; documents, tables: scenarios from and to
                       files; rules, config_rules: their checks; unit_texts, value_kinds: numbers with
                       units; user_code
netstack.results       result: results, field by field; recorder: samples; trace: each step of a
                       checkpoint; result_json; notebook_views: results in a notebook
netstack.tasks         operators; sources: base of user sources; transactions: output that appears
                       exactly once
netstack.state         keyed_state, state_kinds, operator_state, time_to_live: the state of operators;
                       handles, value_encoding, table_store, subtask_state: how it is kept
netstack.checkpoints   metadata; storage: location of checkpoints; recovery: start from a checkpoint;
                       savepoints: requests for savepoints; state_reader: content of a checkpoint
netstack.exchange      partition, gate, connection, remote_channel, selectors, key_groups, java_hash,
                       tcp_link: transfer of records from one task to others
netstack.jobs          build: a job from a scenario, and its memory; emulation; job: a job that can be
                       inspected while it runs; subtask_maker, result_figures
netstack.engine        agenda: the next event; compiled: whether the core is compiled
netstack.shuffle       transport_config, endpoint, transport: records between processes
netstack.tcp           mesh, handshaking, sealed_requests, pipe: TCP connections between processes
netstack.cluster       distributed_run, distributed_scenario, orders_and_reports, task_manager: a job
                       over processes
=====================  ==================================================================================
"""

from .checkpoints.metadata import *
from .checkpoints.recovery import *
from .checkpoints.state_reader import *
from .checkpoints.storage import *
from .cluster.distributed_run import *
from .cluster.distributed_scenario import *
from .cluster.orders_and_reports import *
from .cluster.task_manager import *
from .engine.agenda import *
from .engine.compiled import *
from .errors import *
from .exchange import java_hash as java_hash
from .exchange.connection import *
from .exchange.gate import *
from .exchange.key_groups import *
from .exchange.partition import *
from .exchange.remote_channel import *
from .exchange.selectors import *
from .exchange.tcp_link import *
from .jobs.build import *
from .jobs.emulation import *
from .jobs.job import *
from .jobs.result_figures import *
from .jobs.subtask_maker import *
from .results.notebook_views import *
from .results.recorder import *
from .results.result import *
from .results.result_json import *
from .results.trace import *
from .scenarios.changes import *
from .scenarios.checkpoint_modes import *
from .scenarios.config_rules import *
from .scenarios.costs import *
from .scenarios.deadlocks import *
from .scenarios.documents import *
from .scenarios.faults import *
from .scenarios.options import *
from .scenarios.rules import *
from .scenarios.scenario import *
from .scenarios.ship_strategies import *
from .scenarios.tables import *
from .scenarios.unit_texts import *
from .scenarios.user_code import *
from .scenarios.value_kinds import *
from .shuffle.endpoint import *
from .shuffle.transport import *
from .shuffle.transport_config import *
from .state.handles import *
from .state.keyed_state import *
from .state.operator_state import *
from .state.state_kinds import *
from .state.subtask_state import *
from .state.table_store import *
from .state.time_to_live import *
from .state.value_encoding import *
from .tasks.operators import *
from .tasks.sources import *
from .tasks.transactions import *
from .tcp.handshaking import *
from .tcp.mesh import *
from .tcp.pipe import *
from .tcp.sealed_requests import *

__all__ = [
    "AtTime",
    "CheckpointResult",
    "CollectionSource",
    "CostModel",
    "Edge",
    "GeneratorSpec",
    "InputError",
    "JobFailedError",
    "KeyedOperator",
    "KillSubtask",
    "LinkConditions",
    "NetworkConfig",
    "Operator",
    "PathSpec",
    "Result",
    "Scenario",
    "ScenarioError",
    "Series",
    "Source",
    "SourceObject",
    "Steady",
    "SubtaskName",
    "TransactionLog",
    "Transport",
    "Vertex",
    "VertexSteady",
    "emulate",
    "flat_map",
    "from_json",
    "key_sum",
    "map_records",
    "read_scenario",
    "run_job",
    "scenario_toml",
    "sink",
    "to_json",
    "transactional_sink",
]
