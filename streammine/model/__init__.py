"""The words of the engine: ids, streams, epochs, frames, contracts. Imports nothing of ours."""
