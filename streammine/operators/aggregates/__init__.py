"""The exact, order-free aggregate functions, one family per file."""
