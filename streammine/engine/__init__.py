"""Pure machines: no I/O, no clock, no randomness. Stimuli in, ordered effects out."""
