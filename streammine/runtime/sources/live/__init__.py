"""Live sources: what clients send is logged before it is acknowledged, and read from the log."""

from streammine.runtime.sources.live.opening import open_live_reader, refuse_impossible
from streammine.runtime.sources.live.replay_opening import open_replay_reader

__all__ = ["open_live_reader", "open_replay_reader", "refuse_impossible"]
