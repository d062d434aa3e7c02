"""The topology: what a user writes, as YAML or in Python, and what travels to the nodes as JSON."""

from streammine.model.topology.aggregate_windows import (
    AggregateWindow,
    Global,
    RowWindow,
    Session,
    Sliding,
    Tumbling,
)
from streammine.model.topology.aggregates import AGGREGATE_FUNCTIONS, AggregateCall
from streammine.model.topology.aggregating import AggregateOperator
from streammine.model.topology.definition import Topology
from streammine.model.topology.distinct import (
    ChangesOperator,
    Changing,
    DeduplicateOperator,
    Deduplicating,
)
from streammine.model.topology.either import EitherOperator
from streammine.model.topology.epoch import Epoch
from streammine.model.topology.graph import (
    Consumer,
    TopologyGraph,
    topological_order,
    topology_graph,
)
from streammine.model.topology.join_kinds import JoinKind
from streammine.model.topology.joining import JoinColumns, Joining, JoinOperator
from streammine.model.topology.keyed import EPOCH_COLUMN, KeyedFields, RowWindowed, Timed, Windowed
from streammine.model.topology.leading import LeadersOperator, Leading, MeasureCall
from streammine.model.topology.loops import DEFAULT_MAX_ROUNDS, OperatorLoop
from streammine.model.topology.merging import SplitOperator, SplitOutput, UnionOperator
from streammine.model.topology.operators import OPERATOR_KINDS, Operator
from streammine.model.topology.ordering import OrderTerm
from streammine.model.topology.own_code import UserOperator
from streammine.model.topology.partitions import (
    BroadcastPartition,
    HashPartition,
    KeyRangePartition,
    Partition,
    UserPartition,
)
from streammine.model.topology.parts import BY_VALUE_PREFIX
from streammine.model.topology.patterning import Pattern, PatternOperator
from streammine.model.topology.problems import InvalidTopologyError, Problem
from streammine.model.topology.quantile import Quantile, QuantileOperator
from streammine.model.topology.ranking import Ranking, RankOperator, TopOperator, Topping
from streammine.model.topology.recent import LatestOperator, RecentCall, RecentOperator
from streammine.model.topology.recovery import Recovery, Weights
from streammine.model.topology.redundancy import Redundancy, redundancy
from streammine.model.topology.schema import json_schema
from streammine.model.topology.shaping import EnrichOperator, Unnesting, UnnestOperator
from streammine.model.topology.sinks import Commit, Sink
from streammine.model.topology.snapshot import Snapshot
from streammine.model.topology.sources import (
    BUILT_IN_GENERATORS,
    TEXT_SCHEMA,
    CsvSettings,
    FileFormat,
    FilesSource,
    GeneratorSource,
    LogSource,
    Preparation,
    Source,
    SourceBase,
    format_of_path,
)
from streammine.model.topology.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    OneInput,
    OperatorBase,
    Splitting,
)
from streammine.model.topology.windows import interval_epochs, whole_epochs

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "BUILT_IN_GENERATORS",
    "BY_VALUE_PREFIX",
    "DEFAULT_MAX_ROUNDS",
    "EPOCH_COLUMN",
    "OPERATOR_KINDS",
    "TEXT_SCHEMA",
    "AggregateCall",
    "AggregateOperator",
    "AggregateWindow",
    "BroadcastPartition",
    "ChangesOperator",
    "Changing",
    "Commit",
    "Consumer",
    "CsvSettings",
    "DeduplicateOperator",
    "Deduplicating",
    "EitherOperator",
    "EnrichOperator",
    "Epoch",
    "FileFormat",
    "FilesSource",
    "FilterOperator",
    "FlatMapOperator",
    "GeneratorSource",
    "Global",
    "HashPartition",
    "InvalidTopologyError",
    "JoinColumns",
    "JoinKind",
    "JoinOperator",
    "Joining",
    "KeyRangePartition",
    "KeyedFields",
    "LatestOperator",
    "LeadersOperator",
    "Leading",
    "LogSource",
    "MapOperator",
    "MeasureCall",
    "OneInput",
    "Operator",
    "OperatorBase",
    "OperatorLoop",
    "OrderTerm",
    "Partition",
    "Pattern",
    "PatternOperator",
    "Preparation",
    "Problem",
    "Quantile",
    "QuantileOperator",
    "RankOperator",
    "Ranking",
    "RecentCall",
    "RecentOperator",
    "Recovery",
    "Redundancy",
    "RowWindow",
    "RowWindowed",
    "Session",
    "Sink",
    "Sliding",
    "Snapshot",
    "Source",
    "SourceBase",
    "SplitOperator",
    "SplitOutput",
    "Splitting",
    "Timed",
    "TopOperator",
    "Topology",
    "TopologyGraph",
    "Topping",
    "Tumbling",
    "UnionOperator",
    "UnnestOperator",
    "Unnesting",
    "UserOperator",
    "UserPartition",
    "Weights",
    "Windowed",
    "format_of_path",
    "interval_epochs",
    "json_schema",
    "redundancy",
    "topological_order",
    "topology_graph",
    "whole_epochs",
]
