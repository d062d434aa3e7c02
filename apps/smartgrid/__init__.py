"""The smart grid of the DEBS 2014 Grand Challenge: load forecasts, and outliers among the plugs."""
