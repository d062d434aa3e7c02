"""Taxi rides in New York: the ACM DEBS 2015 Grand Challenge, both queries, in event order.

Input: one line per trip, 17 columns (`make_trips.COLUMNS`), sorted by drop-off time, which is event time.

Query 1, frequent routes
    The ten routes (start cell, end cell; cells of 500 m) with most trips completed in the last 30 minutes.
    More trips come first; of as many, the route on which a trip was completed more recently.
Query 2, profitable areas
    The ten cells (of 250 m) with the highest profitability: the median of fare and tip of the trips that
    started in the cell and ended in the last 15 minutes, divided by the number of taxis that are empty there.
    A taxi is empty where it dropped off less than 30 minutes ago and has not picked anyone up since.

Of each, a row leaves whenever the list changes, with the times of the trip that changes it.

Source: Jerzak and Ziekow, "The DEBS 2015 Grand Challenge" (DEBS 2015). The shape, trackers that are
partitioned by what they track, and one slice that ranks what these tell, is that of Martin, Brito and Fetzer,
"Real time data analysis of taxi rides using StreamMine3G" (DEBS 2015). It is in `topology.yaml`; `recent`
tracks what the last while amounts to by key, `latest` where each taxi is, and `leaders` ranks. `operators.py`
finds the cells.

Decisions where the challenge is silent:

Order
    Trips count one after the other, by drop-off time, and those of one time in the order of the input.
Late lines
    Lines are read as they stand, in epochs of a minute of drop-off time. One that lies behind in its minute
    still counts at its time. One whose minute is over, because a line before it in its file is of a later
    one, is a dead letter. With ``--set prepare=spark`` lines are sorted first, and none is late.
Leaving
    A trip that ended at t counts until t + 30 (15) minutes and leaves before the trips of that time count.
    What only leaving changes is told with the next trip, the first that could be its trigger. It is no update
    of a route or cell: that is a trip which starts or ends there.
A taxi's next trip
    When a taxi has picked up is known when it drops off, for only then is there a line. So it is empty where
    it was until its next drop-off, or for 30 minutes, whichever comes first, and then where it is.
One trip, several changes
    A trip changes up to three cells. All of that is one event, and gives one row or none. Of cells with equal
    profitability that one trip has changed, the one it ended in comes first, then the one that the taxi has
    left, then the one it started in.
The list has changed
    if one of the columns of its row (but the trigger's times) has. So query 2 also tells when a cell stays in
    its place, and its median or its number of taxis is another one.
Cells
    Coordinates are taken to a millionth of a degree, the digits that the data has: a million times the
    float64, rounded to the nearest whole number and halves to the even one. Cells are computed in whole
    numbers from there. So a point exactly between two cells belongs to the eastern (southern) one.
Money
    is whole cents up to the median, rounded in the same way; of an even number of trips that is the mean of
    the middle two. Told is what a double of dollars holds: cents divided by 100.
Delay
    is told in milliseconds, once for all rows of an epoch: from when its first trip was read (was
    due, of a paced source) to when the row reached the sink. A row's own trip was not read before, so it took
    no longer.
Outliers
    Trips outside of the grid, with negative fare or tip (query 2), or without one of the columns that the
    query needs, don't count, not even as those with which a taxi leaves where it was; how many, and why, is a
    result of its own. A number that is none (NaN), or 2^40 millionths of degrees or cents and more, counts as
    missing. Lines that can't be parsed are dead letters, as are those that do not say when the trip ended.

Run, check and draw::

    scripts/run apps/taxi/topology.yaml
    .venv/bin/python -m apps.taxi.check
    .venv/bin/python -m apps.taxi.draw
"""
