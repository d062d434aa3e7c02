"""Pattern matching: from what a pattern says to combinations of rows.

- `references`: expressions over the events of a match, as columns of batches of combinations.
- `conditions`: which conditions there are, and what each needs to be evaluated.
- `intake`: which of the arriving rows can take part at all.
- `timeline`: those rows in order, and the stretches of them in which partners lie.
- `combining`, `choosing`: combinations of rows, every one or the next ones.
- `results`: what leaves for them.

The semantics follow SASE and SASE+ (Wu, Diao & Rizvi 2006; Agrawal, Diao, Gyllstrom & Immerman 2008), what
is evaluated when ZStream (Mei & Madden 2009): not one automaton instance per partial match, but columns of
partial matches that are joined with columns of candidates, the most selective end first.
"""
