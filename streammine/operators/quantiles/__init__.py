"""Exact quantiles of sliding windows: what the operator keeps of its rows."""
