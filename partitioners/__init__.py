"""Partitioners: which slice of an operator a row belongs to."""

from partitioners.broadcast import Broadcast
from partitioners.hashing import Hash
from partitioners.key_range import KeyRange
from partitioners.naming import partitioner_named

__all__ = ["Broadcast", "Hash", "KeyRange", "partitioner_named"]
