"""Orders and the payments for them: what was paid in time, and what was not.

Input: two files in the order of their times, `orders.csv` (ts,order,cents) and `payments.csv`
(ts,order,paid). Times are seconds of Unix time. An order may be paid in parts, late or not at all.

Pairs (`topology.yaml`)
    Each order with each payment for it that came in the same minute: an equijoin of two streams inside of
    tumbling windows of 60 s. Told are the minute, the order, what it cost and what was paid, in cents, and
    how many seconds later.
Exceptions (`exceptions.yaml`)
    Each order for which nothing was paid within 60 s, and each payment for which there was no order in the
    60 s before it: two anti joins within an interval of time. Told are its time, the order, `unpaid` or
    `belated`, and the cents.

Source: the join of two streams over windows is that of Kang, Naughton and Viglas, "Evaluating window joins
over unbounded streams" (ICDE 2003).

Decisions of this program:

Minutes
    of pairs are those of Unix time. So an order at the end of a minute has less time than one at its
    beginning; the exceptions are fair, and count from each order on.
Ends
    The 60 s of the exceptions include both ends: a payment in the second of the order is in time, and so is
    one 60 s later. One from before the order is not.
Several orders of one number
    each go with each payment. For the exceptions, a payment is in time if it is for one of them.
Nothing in place of a number
    A row without an order's number goes with no other one, so that it is no part of a pair, and an exception.
Late rows
    The files are read as they stand. A row is a dead letter when a row before it in its file is of a later
    minute, as is one that can't be parsed or has no time.

Run, check and draw::

    scripts/run apps/equijoin/topology.yaml
    .venv/bin/python -m apps.equijoin.check
    .venv/bin/python -m apps.equijoin.draw
    scripts/run apps/equijoin/exceptions.yaml
    .venv/bin/python -m apps.equijoin.check_exceptions
"""
