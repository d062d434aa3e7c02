"""Replication: epoch bags, merge, consensus and the readiness ladder. Its first machines come with
checkpoints; until then a slice has one replica."""
