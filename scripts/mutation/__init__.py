"""Breaks the protocols of the pure machines, one rule at a time, and counts which breaks are noticed.

Mutation testing (DeMillo, Lipton & Sayward 1978): a test suite is as good as the share of small wrong
programs that it tells from the right one. Here a wrong program lacks one row of a transition table, one
`case` arm or one early exit, or has one condition negated or one boundary moved by one.

A mutant lives in a forked process only: there the code of one function is exchanged. No file changes,
and numpy, pyarrow, the engine and the tests have been imported already.
"""
