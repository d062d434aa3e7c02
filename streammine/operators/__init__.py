"""Standard operators, the user's operator classes, exact aggregates and keyed state."""
