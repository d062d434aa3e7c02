"""The smart grid of the DEBS 2014 Grand Challenge: load forecasts, and outliers among the plugs.

Input: one reading per line, `id,timestamp,value,property,plug_id,household_id,house_id`, or the same without
ids and lined up with blanks. Timestamps are seconds of Unix time; property 1 is load in watts, 0 is work. A
plug is (house, household, plug).

Query 1, load forecasts
    What each plug and each house will take in the slice of time after the next, for slices of five lengths.
    The formula, and what was decided about it, is in `operators.py`.
Query 2, outliers
    For each house, how many of its plugs have a median load above that of all plugs, over the last hour and
    the last day. What was decided about it is in `outliers.py`.

Source: Ziekow and Jerzak, "The DEBS 2014 Grand Challenge" (2014).

Decisions where the challenge is silent on which readings count, for both queries:

Milliwatts
    A load is a thousand times its value, which is a float64, rounded to the nearest whole number, halves to
    the even one. The challenge's data has three digits, which this keeps.
Negative loads
    count as they are: the challenge does not forbid them, and a plug may feed in.
Doubled readings
    The challenge's data has them. They are real and count twice.
What can't be used
    is a dead letter: a line that can't be parsed or lacks a value, and of loads, one that is no number or
    beyond a megawatt (either way), one from before `start` (the challenge's first second, 1377986401) or more
    than 2,147,483,647 minutes later (a time in milliseconds is), and one with an id that is not from 0 to
    1,048,575. Readings of work are read and do not count.
Order
    Readings may come in any order, as both topologies let Spark sort them first. None is late.

Run, check and draw::

    scripts/run apps/smartgrid/topology.yaml
    .venv/bin/python -m apps.smartgrid.check
    .venv/bin/python -m apps.smartgrid.draw
    scripts/run apps/smartgrid/outliers.yaml
    .venv/bin/python -m apps.smartgrid.outliers_check
    .venv/bin/python -m apps.smartgrid.outliers_draw
"""
