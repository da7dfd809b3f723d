"""The network: jobs of subtasks that exchange records in buffers under credit-based flow control."""

from .checkpoints.file_layout import FileLayout, MemoryStorage, SavepointFolder
from .checkpoints.initial import ClaimMode, InitialCheckpoint
from .checkpoints.paths import (
    CLAIM_NAME,
    METADATA_NAME,
    checkpoint_id_of,
    claim_path,
    file_name,
    folder_of,
    metadata_path,
)
from .checkpoints.savepoint_request import SavepointEnd, SavepointRequest, SavepointRequests
from .checkpoints.state_entries import StateEntry, keyed_entries, operator_lists
from .checkpoints.storage import (
    CheckpointStorage,
    DamagedFileError,
    HandleReader,
    MissingFileError,
    StorageError,
)
from .cluster.attempt_report import Report, decode_report, encode_report
from .cluster.distributed_run import LaunchError, run_distributed
from .cluster.task_manager import run_task_manager
from .cluster.terms import Assignment, distribution_notices, distribution_problems, task_managers
from .engine.agenda import Agenda
from .engine.compiled import core_is_compiled, stale_modules
from .exchange import java_hash
from .exchange.connection import ConsumerEnd, ProducerEnd
from .exchange.gate import InputGate
from .exchange.key_groups import assign_to_operators, default_max_parallelism
from .exchange.partition import ResultPartition
from .exchange.remote_channel import RemoteInputChannel
from .exchange.selectors import RoundRobin
from .exchange.tcp_link import TcpLink
from .jobs.emulation import JobFailedError, emulate, run_job
from .jobs.job import Job
from .jobs.job_sources import source_of
from .jobs.summary import barrier_figures
from .results.result import (
    SCHEMA,
    CheckpointResult,
    FaultResult,
    RestartResult,
    Result,
    Series,
    StartResult,
    Steady,
    VertexCheckpoint,
    VertexSteady,
    Work,
)
from .results.result_json import from_json, to_json
from .results.statistics import Recorder, SubtaskSample
from .results.trace import Trace, TraceEvent, TraceLog
from .scenarios.changed import changed
from .scenarios.changes import ScheduledChange
from .scenarios.config import (
    DEFAULT_PRESET,
    OPTIONS,
    PRESETS,
    ChangelogStorage,
    CheckpointMode,
    CheckpointStorageType,
    CostModel,
    FailoverStrategy,
    LinkConditions,
    NetworkConfig,
    RestartStrategy,
    StateBackendType,
    with_options,
)
from .scenarios.config_rules import did_you_mean, option_problems, policy_problems
from .scenarios.edge_buffers import EdgeBuffers
from .scenarios.fault import (
    MESSAGES,
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    Moment,
    OnAcknowledgement,
    OnChannel,
    SubtaskName,
)
from .scenarios.fault_document import ACKNOWLEDGEMENT
from .scenarios.quantities import (
    QuantityError,
    format_duration,
    format_size,
    parse_duration,
    parse_flink_duration,
    parse_flink_size,
    parse_rate,
)
from .scenarios.savepoints import ScheduledSavepoint
from .scenarios.scenario import (
    FILE_FORMATS,
    FROM_SOURCE,
    SERVICE_MODES,
    SHIPS,
    Edge,
    GeneratorSpec,
    Keys,
    Machine,
    PathSpec,
    Scenario,
    ScenarioError,
    SourceObject,
    SourceSpec,
    Vertex,
)
from .scenarios.scenario_document import scenario_document
from .scenarios.scenario_reader import read_options, read_scenario, split_assignment
from .scenarios.scenario_rules import check_scenario, edge_key, option_notices, scenario_problems, vertex_key
from .scenarios.scenario_toml import scenario_toml
from .scenarios.sections import Section
from .scenarios.slots import in_slots
from .scenarios.user_code import Source, SourceReader, object_name
from .scenarios.wiring import channel_counts, consumers_of_producers, producers_of_consumers
from .state.keyed_state import KeyedStateBackend
from .state.map_state import MapState
from .state.operator_state import BroadcastState, OperatorStateBackend
from .state.snapshots import (
    CHANNEL_STATE,
    CheckpointMetadata,
    Redistribution,
    StateFormat,
    StateHandle,
    StateKind,
    StoredFile,
    SubtaskSnapshot,
)
from .state.state_kinds import AggregatingState, ListState, ReducingState, ValueState
from .state.subtask_state import SubtaskState
from .state.table_store import TableOptions, TableStore, TableStores
from .state.time_to_live import StateTtlConfig
from .state.values import StateError, decode_value, encode_value
from .tasks.operators import (
    FlatMap,
    KeyedBroadcastOperator,
    KeyedOperator,
    Map,
    Operator,
    OperatorContext,
    OperatorFactory,
    Sink,
    flat_map,
    key_sum,
    map_blocks,
    map_records,
    sink,
)
from .tasks.source import (
    CollectionReader,
    CollectionSource,
    GeneratedSource,
    SourceError,
    leading_bytes,
    payload_hash,
    skip,
    text_hash,
)
from .tasks.transactions import Transaction, TransactionalSink, TransactionLog, transactional_sink
from .tcp.handshaking import TlsContexts, fresh_secret
from .tcp.letterbox import Letterbox, ask_letterbox
from .tcp.limits import ConnectionLimits
from .tcp.mesh import Mesh
from .tcp.transport_errors import (
    ConnectionLostError,
    HandshakeError,
    LinkClosedError,
    PeerFailedError,
    PeerSilentError,
    TransportError,
)
from .transport.endpoint import ALL_TARGETS
from .transport.transport import Transport
from .transport.transport_config import TransportConfig
from .transport.transport_statistics import TransportStatistics

__all__ = [
    "ACKNOWLEDGEMENT",
    "ALL_TARGETS",
    "CHANNEL_STATE",
    "CLAIM_NAME",
    "DEFAULT_PRESET",
    "FILE_FORMATS",
    "FROM_SOURCE",
    "MESSAGES",
    "METADATA_NAME",
    "OPTIONS",
    "PRESETS",
    "SCHEMA",
    "SERVICE_MODES",
    "SHIPS",
    "Agenda",
    "AggregatingState",
    "Assignment",
    "AtTime",
    "BroadcastState",
    "ChangelogStorage",
    "ChannelItem",
    "CheckpointMetadata",
    "CheckpointMode",
    "CheckpointResult",
    "CheckpointStorage",
    "CheckpointStorageType",
    "ClaimMode",
    "CollectionReader",
    "CollectionSource",
    "ConnectionLimits",
    "ConnectionLostError",
    "ConsumerEnd",
    "CostModel",
    "CutLink",
    "DamagedFileError",
    "DelayMessages",
    "DropMessages",
    "Edge",
    "EdgeBuffers",
    "FailUpload",
    "FailoverStrategy",
    "Fault",
    "FaultResult",
    "FileLayout",
    "FillStorage",
    "FlatMap",
    "GeneratedSource",
    "GeneratorSpec",
    "HandleReader",
    "HandshakeError",
    "InitialCheckpoint",
    "InputGate",
    "Job",
    "JobFailedError",
    "KeyedBroadcastOperator",
    "KeyedOperator",
    "KeyedStateBackend",
    "Keys",
    "KillSubtask",
    "KillTaskManager",
    "LaunchError",
    "Letterbox",
    "LinkClosedError",
    "LinkConditions",
    "ListState",
    "Machine",
    "Map",
    "MapState",
    "MemoryStorage",
    "Mesh",
    "MissingFileError",
    "Moment",
    "NetworkConfig",
    "OnAcknowledgement",
    "OnChannel",
    "Operator",
    "OperatorContext",
    "OperatorFactory",
    "OperatorStateBackend",
    "PathSpec",
    "PeerFailedError",
    "PeerSilentError",
    "ProducerEnd",
    "QuantityError",
    "Recorder",
    "Redistribution",
    "ReducingState",
    "RemoteInputChannel",
    "Report",
    "RestartResult",
    "RestartStrategy",
    "Result",
    "ResultPartition",
    "RoundRobin",
    "SavepointEnd",
    "SavepointFolder",
    "SavepointRequest",
    "SavepointRequests",
    "Scenario",
    "ScenarioError",
    "ScheduledChange",
    "ScheduledSavepoint",
    "Section",
    "Series",
    "Sink",
    "Source",
    "SourceError",
    "SourceObject",
    "SourceReader",
    "SourceSpec",
    "StartResult",
    "StateBackendType",
    "StateEntry",
    "StateError",
    "StateFormat",
    "StateHandle",
    "StateKind",
    "StateTtlConfig",
    "Steady",
    "StorageError",
    "StoredFile",
    "SubtaskName",
    "SubtaskSample",
    "SubtaskSnapshot",
    "SubtaskState",
    "TableOptions",
    "TableStore",
    "TableStores",
    "TcpLink",
    "TlsContexts",
    "Trace",
    "TraceEvent",
    "TraceLog",
    "Transaction",
    "TransactionLog",
    "TransactionalSink",
    "Transport",
    "TransportConfig",
    "TransportError",
    "TransportStatistics",
    "ValueState",
    "Vertex",
    "VertexCheckpoint",
    "VertexSteady",
    "Work",
    "ask_letterbox",
    "assign_to_operators",
    "barrier_figures",
    "changed",
    "channel_counts",
    "check_scenario",
    "checkpoint_id_of",
    "claim_path",
    "consumers_of_producers",
    "core_is_compiled",
    "decode_report",
    "decode_value",
    "default_max_parallelism",
    "did_you_mean",
    "distribution_notices",
    "distribution_problems",
    "edge_key",
    "emulate",
    "encode_report",
    "encode_value",
    "file_name",
    "flat_map",
    "folder_of",
    "format_duration",
    "format_size",
    "fresh_secret",
    "from_json",
    "in_slots",
    "java_hash",
    "key_sum",
    "keyed_entries",
    "leading_bytes",
    "map_blocks",
    "map_records",
    "metadata_path",
    "object_name",
    "operator_lists",
    "option_notices",
    "option_problems",
    "parse_duration",
    "parse_flink_duration",
    "parse_flink_size",
    "parse_rate",
    "payload_hash",
    "policy_problems",
    "producers_of_consumers",
    "read_options",
    "read_scenario",
    "run_distributed",
    "run_job",
    "run_task_manager",
    "scenario_document",
    "scenario_problems",
    "scenario_toml",
    "sink",
    "skip",
    "source_of",
    "split_assignment",
    "stale_modules",
    "task_managers",
    "text_hash",
    "to_json",
    "transactional_sink",
    "vertex_key",
    "with_options",
]
