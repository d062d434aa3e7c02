"""Orders and the payments for them: two streams joined inside tumbling windows."""
