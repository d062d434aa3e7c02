"""Which earlier message of the same area is most like each new one: a search in a sliding window, as an
application.

Input: one message per record, `message,ts,area,text`, in the order of their times (seconds of Unix time).
Each message has a number of its own, and numbers ascend.

Source: the second of the two applications that Wu and Tan, "ChronoStream: elastic stateful stream computation
in the cloud" (ICDE 2015), section V, measure their system by. Streams of short messages are shared out by the
place where they were written, and for each message the recent ones of its place are searched for the one that
shares most words with it.

Decisions of this program:

Words
    Runs of the letters A to Z, in lower case, of four letters at least: shorter ones are in every message and
    tell nothing. Everything else separates words, letters beyond ASCII too: "Dörfer" is "d" and "rfer", and
    the Kelvin sign is no k. A word counts once in a message, however often it stands there.
Recent
    Written up to ten minutes before, both ends included, and with a lower number.
Most similar
    The message with most words in common, two at least; of several the one with the highest number, so the
    newest. A message without any has no row.
All of it in standard operators
    Messages become rows (area, word, message); an interval join of these rows with themselves finds every
    word that two messages share, an aggregate counts them by pair, and the best pair of each message
    leaves. A pair is of the epoch of its later message, so an epoch's counts are complete.
Late messages
    The file is read as it stands. A message is a dead letter when one before it in its file is of a later
    minute, as is one that can't be parsed or has no time. One without a number or an area is like no other.

Run, check and draw::

    scripts/run apps/similarity/topology.yaml
    .venv/bin/python -m apps.similarity.check
    .venv/bin/python -m apps.similarity.draw
"""
