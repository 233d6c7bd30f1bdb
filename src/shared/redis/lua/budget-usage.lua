-- budget-usage: reads the usage of a budget in its window; a call under way counts with its reservation. Writes nothing.
-- Include budget.
-- Closes: a sum over slices of two moments; a window counted by another clock than its calls.
local _, oldest = slices(window_ms)
local tokens, micro_usd = spent_of(budget, oldest)
return answer('used', { tokens = tokens, micro_usd = micro_usd })
