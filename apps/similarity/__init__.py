"""Which earlier message of the same area is most like each new one: a search in a sliding window, as an
application.

The second of the two applications that Wu & Tan (2015), section V, measure their system by: streams of short
messages are shared out by the place where they were written, and for each message the recent ones of its
place are searched for the one that shares most words with it.

Decisions of this program:

Words
    Runs of letters, in lower case, of four letters at least: shorter ones are in every message and tell
    nothing. A word counts once in a message, however often it stands there.
Recent
    Written up to ten minutes before, both ends included, and with a lower number.
Most similar
    The message with most words in common, two at least; of several the one with the highest number, so the
    newest. A message without any has no row.
All of it in standard operators
    Messages become rows (area, word, message); an interval join of these rows with themselves finds every
    word that two messages share, an aggregate counts them by pair, and the best pair of each message
    leaves. A pair is of the epoch of its later message, so an epoch's counts are complete.
"""
