"""The network: jobs of subtasks that exchange records in buffers under credit-based flow control.

``emulate(scenario)`` runs a job; `integration.load_scenario` reads a scenario from a file. All public names
can be imported from here, as in ``from netstack import CutLink``, and are documented where they are defined,
as in ``help("netstack.scenarios.faults")``. The table lists the modules that most programs need, by package:

=====================  ==================================================================================
netstack.errors        errors, by cause
netstack.scenarios     scenario: vertices, edges, machines, keys, paths, limits, slots; options: Flink's
                       options, presets; costs; faults; changes: actions of users; ship_strategies,
                       deadlocks; documents, tables: scenarios from and to files; rules, config_rules:
                       their checks; quantities, value_kinds: numbers with units; user_code
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

from .checkpoints.metadata import CheckpointMetadata as CheckpointMetadata
from .checkpoints.metadata import SubtaskSnapshot as SubtaskSnapshot
from .checkpoints.recovery import ClaimMode as ClaimMode
from .checkpoints.recovery import InitialCheckpoint as InitialCheckpoint
from .checkpoints.state_reader import StateEntry as StateEntry
from .checkpoints.state_reader import keyed_entries as keyed_entries
from .checkpoints.state_reader import operator_lists as operator_lists
from .checkpoints.storage import CLAIM_NAME as CLAIM_NAME
from .checkpoints.storage import METADATA_NAME as METADATA_NAME
from .checkpoints.storage import CheckpointStorage as CheckpointStorage
from .checkpoints.storage import FileLayout as FileLayout
from .checkpoints.storage import HandleReader as HandleReader
from .checkpoints.storage import MemoryStorage as MemoryStorage
from .checkpoints.storage import SavepointFolder as SavepointFolder
from .checkpoints.storage import checkpoint_id_of as checkpoint_id_of
from .checkpoints.storage import claim_path as claim_path
from .checkpoints.storage import file_name as file_name
from .checkpoints.storage import folder_of as folder_of
from .checkpoints.storage import metadata_path as metadata_path
from .cluster.distributed_run import run_distributed as run_distributed
from .cluster.distributed_scenario import distribution_notices as distribution_notices
from .cluster.distributed_scenario import distribution_problems as distribution_problems
from .cluster.distributed_scenario import task_managers as task_managers
from .cluster.orders_and_reports import Assignment as Assignment
from .cluster.orders_and_reports import Report as Report
from .cluster.orders_and_reports import decode_report as decode_report
from .cluster.orders_and_reports import encode_report as encode_report
from .cluster.task_manager import run_task_manager as run_task_manager
from .engine.agenda import Agenda as Agenda
from .engine.compiled import core_is_compiled as core_is_compiled
from .engine.compiled import stale_modules as stale_modules
from .errors import ConnectionLostError as ConnectionLostError
from .errors import DamagedFileError as DamagedFileError
from .errors import HandshakeError as HandshakeError
from .errors import InputError, JobFailedError, ScenarioError
from .errors import LaunchError as LaunchError
from .errors import LinkClosedError as LinkClosedError
from .errors import MissingFileError as MissingFileError
from .errors import PeerFailedError as PeerFailedError
from .errors import PeerSilentError as PeerSilentError
from .errors import QuantityError as QuantityError
from .errors import SourceError as SourceError
from .errors import StateError as StateError
from .errors import StorageError as StorageError
from .errors import TransportError as TransportError
from .exchange import java_hash as java_hash
from .exchange.connection import ConsumerEnd as ConsumerEnd
from .exchange.connection import ProducerEnd as ProducerEnd
from .exchange.gate import InputGate as InputGate
from .exchange.key_groups import assign_to_operators as assign_to_operators
from .exchange.key_groups import default_max_parallelism as default_max_parallelism
from .exchange.partition import ResultPartition as ResultPartition
from .exchange.remote_channel import RemoteInputChannel as RemoteInputChannel
from .exchange.selectors import RoundRobin as RoundRobin
from .exchange.tcp_link import TcpLink as TcpLink
from .jobs.build import gates_of as gates_of
from .jobs.build import partitions_of as partitions_of
from .jobs.build import plan_segments as plan_segments
from .jobs.build import required_segments as required_segments
from .jobs.emulation import RunOptions as RunOptions
from .jobs.emulation import emulate, run_job
from .jobs.job import Job as Job
from .jobs.result_figures import barrier_figures as barrier_figures
from .jobs.subtask_maker import source_of as source_of
from .results.notebook_views import Viewed as Viewed
from .results.recorder import Recorder as Recorder
from .results.recorder import SubtaskSample as SubtaskSample
from .results.result import SCHEMA as SCHEMA
from .results.result import CheckpointResult, Result, Series, Steady, VertexSteady
from .results.result import CheckpointStatus as CheckpointStatus
from .results.result import CheckpointType as CheckpointType
from .results.result import FaultResult as FaultResult
from .results.result import RestartResult as RestartResult
from .results.result import StartResult as StartResult
from .results.result import VertexCheckpoint as VertexCheckpoint
from .results.result import Work as Work
from .results.result_json import from_json, to_json
from .results.trace import Trace as Trace
from .results.trace import TraceEvent as TraceEvent
from .results.trace import TraceLog as TraceLog
from .scenarios.changes import ScheduledChange as ScheduledChange
from .scenarios.changes import ScheduledSavepoint as ScheduledSavepoint
from .scenarios.config_rules import option_problems as option_problems
from .scenarios.config_rules import policy_problems as policy_problems
from .scenarios.costs import CostModel, LinkConditions
from .scenarios.deadlocks import Standstill as Standstill
from .scenarios.deadlocks import standstills as standstills
from .scenarios.documents import read_scenario, scenario_toml
from .scenarios.documents import scenario_document as scenario_document
from .scenarios.documents import scenario_schema as scenario_schema
from .scenarios.faults import ACKNOWLEDGEMENT as ACKNOWLEDGEMENT
from .scenarios.faults import MESSAGES as MESSAGES
from .scenarios.faults import AtTime, KillSubtask, SubtaskName
from .scenarios.faults import ChannelItem as ChannelItem
from .scenarios.faults import CutLink as CutLink
from .scenarios.faults import DelayMessages as DelayMessages
from .scenarios.faults import DropMessages as DropMessages
from .scenarios.faults import FailUpload as FailUpload
from .scenarios.faults import Fault as Fault
from .scenarios.faults import FillStorage as FillStorage
from .scenarios.faults import KillTaskManager as KillTaskManager
from .scenarios.faults import Moment as Moment
from .scenarios.faults import OnAcknowledgement as OnAcknowledgement
from .scenarios.faults import OnChannel as OnChannel
from .scenarios.faults import Outage as Outage
from .scenarios.options import DEFAULT_PRESET as DEFAULT_PRESET
from .scenarios.options import OPTIONS as OPTIONS
from .scenarios.options import PRESETS as PRESETS
from .scenarios.options import ChangelogStorage as ChangelogStorage
from .scenarios.options import CheckpointMode as CheckpointMode
from .scenarios.options import CheckpointStorageType as CheckpointStorageType
from .scenarios.options import FailoverStrategy as FailoverStrategy
from .scenarios.options import NetworkConfig
from .scenarios.options import RestartStrategy as RestartStrategy
from .scenarios.options import StateBackendType as StateBackendType
from .scenarios.options import is_before as is_before
from .scenarios.options import preset_for as preset_for
from .scenarios.options import read_options as read_options
from .scenarios.options import split_assignment as split_assignment
from .scenarios.options import with_options as with_options
from .scenarios.quantities import format_duration as format_duration
from .scenarios.quantities import format_size as format_size
from .scenarios.quantities import parse_duration as parse_duration
from .scenarios.quantities import parse_flink_duration as parse_flink_duration
from .scenarios.quantities import parse_flink_size as parse_flink_size
from .scenarios.quantities import parse_rate as parse_rate
from .scenarios.rules import check_scenario as check_scenario
from .scenarios.rules import edge_key as edge_key
from .scenarios.rules import option_notices as option_notices
from .scenarios.rules import scenario_problems as scenario_problems
from .scenarios.rules import vertex_key as vertex_key
from .scenarios.scenario import FILE_FORMATS as FILE_FORMATS
from .scenarios.scenario import FROM_SOURCE as FROM_SOURCE
from .scenarios.scenario import SERVICE_MODES as SERVICE_MODES
from .scenarios.scenario import SHIPS as SHIPS
from .scenarios.scenario import Edge, GeneratorSpec, PathSpec, Scenario, SourceObject, Vertex
from .scenarios.scenario import EdgeBuffers as EdgeBuffers
from .scenarios.scenario import Keys as Keys
from .scenarios.scenario import Machine as Machine
from .scenarios.scenario import SourceSpec as SourceSpec
from .scenarios.scenario import changed as changed
from .scenarios.scenario import in_slots as in_slots
from .scenarios.ship_strategies import ShipStrategy as ShipStrategy
from .scenarios.ship_strategies import capacity_by_load as capacity_by_load
from .scenarios.ship_strategies import channel_counts as channel_counts
from .scenarios.ship_strategies import consumers_of_producers as consumers_of_producers
from .scenarios.ship_strategies import producers_of_consumers as producers_of_consumers
from .scenarios.tables import Section as Section
from .scenarios.tables import did_you_mean as did_you_mean
from .scenarios.user_code import Source
from .scenarios.user_code import SourceReader as SourceReader
from .scenarios.user_code import object_name as object_name
from .scenarios.value_kinds import Kind as Kind
from .scenarios.value_kinds import unit_notice as unit_notice
from .shuffle.endpoint import ALL_TARGETS as ALL_TARGETS
from .shuffle.transport import Transport
from .shuffle.transport_config import TransportConfig as TransportConfig
from .shuffle.transport_config import TransportStatistics as TransportStatistics
from .state.handles import Redistribution as Redistribution
from .state.handles import StateFormat as StateFormat
from .state.handles import StateHandle as StateHandle
from .state.handles import StoredFile as StoredFile
from .state.keyed_state import KeyedStateBackend as KeyedStateBackend
from .state.operator_state import BroadcastState as BroadcastState
from .state.operator_state import OperatorStateBackend as OperatorStateBackend
from .state.state_kinds import CHANNEL_STATE as CHANNEL_STATE
from .state.state_kinds import AggregatingState as AggregatingState
from .state.state_kinds import ListState as ListState
from .state.state_kinds import MapState as MapState
from .state.state_kinds import ReducingState as ReducingState
from .state.state_kinds import StateKind as StateKind
from .state.state_kinds import ValueState as ValueState
from .state.subtask_state import SubtaskState as SubtaskState
from .state.table_store import TableOptions as TableOptions
from .state.table_store import TableStore as TableStore
from .state.table_store import TableStores as TableStores
from .state.time_to_live import StateTtlConfig as StateTtlConfig
from .state.value_encoding import decode_value as decode_value
from .state.value_encoding import encode_value as encode_value
from .tasks.operators import FlatMap as FlatMap
from .tasks.operators import KeyedBroadcastOperator as KeyedBroadcastOperator
from .tasks.operators import KeyedOperator, Operator, flat_map, key_sum, map_records, sink
from .tasks.operators import Map as Map
from .tasks.operators import OperatorContext as OperatorContext
from .tasks.operators import OperatorFactory as OperatorFactory
from .tasks.operators import Sink as Sink
from .tasks.operators import map_blocks as map_blocks
from .tasks.sources import CollectionReader as CollectionReader
from .tasks.sources import CollectionSource
from .tasks.sources import GeneratedSource as GeneratedSource
from .tasks.sources import leading_bytes as leading_bytes
from .tasks.sources import payload_hash as payload_hash
from .tasks.sources import skip as skip
from .tasks.sources import text_hash as text_hash
from .tasks.transactions import Transaction as Transaction
from .tasks.transactions import TransactionalSink as TransactionalSink
from .tasks.transactions import TransactionLog, transactional_sink
from .tcp.handshaking import TlsContexts as TlsContexts
from .tcp.handshaking import fresh_secret as fresh_secret
from .tcp.mesh import Mesh as Mesh
from .tcp.pipe import ConnectionLimits as ConnectionLimits
from .tcp.sealed_requests import Letterbox as Letterbox
from .tcp.sealed_requests import ask_letterbox as ask_letterbox

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
