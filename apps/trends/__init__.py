"""What is edited lately: a window over a stream that rises and falls, as an application.

Input: one edit per line, a JSON object with its `time`, `channel`, `user` and how much text it `added`, in
the order of their times.

For every channel that was edited in a minute: how many edits it had in the twenty minutes up to the end of
that minute, by how many users, and how much text they added.

Source: the stream is that of the edits of Wikipedia, whose example day (2015-09-12) comes with Apache Druid.

Decisions of this program (those of its operator are in `operators.py`):

Windows
    end with the minutes of Unix time that have edits. An edit that is exactly twenty minutes older than the
    end still counts, and one at the end does not.
Texts taken away
    count as less than nothing: what is added is a sum of both.
Late edits
    The file is read as it stands. An edit is a dead letter when one before it in its file is of a later
    minute, as is a line that is no such object or has no time.

Run, check and draw::

    scripts/run apps/trends/topology.yaml
    .venv/bin/python -m apps.trends.check
    .venv/bin/python -m apps.trends.draw
"""
