"""What runs user code: the operators of the engine's contract around Mapper, Reducer and Operator (`api`).

- `adapting`: which of them an instance becomes.
- `mapper`: row by row or batch by batch, with what failed set aside.
- `reducer`, `folding`, `windows`: accumulators by key, as partials before the shuffle and by open window.
- `operator`, `order`, `timers`: events one after the other, with the cells of their keys, and the order in
  which rows leave.
- `slice`: all keys of a slice as one batch.
- `groups`, `state`, `errors`: keys as Python values, what snapshots save, what failures tell.
"""
