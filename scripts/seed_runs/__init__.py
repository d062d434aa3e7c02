"""Fault seeds by the thousand, over every kind of job that the simulation's tests know."""
