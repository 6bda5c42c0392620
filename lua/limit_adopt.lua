-- limit_adopt: a part of the scripts that decide; see limit_prelude. What a
-- state means under terms it was not written under.
--
-- Cost: O(1), no redis.call.

-- A state written under other terms, another algorithm included: what was taken
-- counts as taken, rounded up to whole cost, at most the capacity. It depends on
-- the state alone, so all answers about it agree until it is written anew (law
-- U14). What is not a state of ours counts as none. Returns used, aux, over.
-- Kinds 'a' and 'l' are over one unit after aux.
-- A warm-up at another rate keeps its times, rounded to us.
local function adopt(kind0, at, used, unit0, aux, kind, capacity, unit, fill)
  local taken = kind0 == 't' and t_taken or kind0 == 'f' and f_taken or kind0 == 's' and s_taken
  local over = aux + unit0
  if kind0 == 'w' and unit0 > 0 then
    local level = ceil_div(used, unit0)
    over = at + level
    if kind == 'w' then
      level = min(level, floor(9007199254740991 / unit))
      return level * unit, min(floor(aux / unit0), level) * unit, over
    end
    used = capacity
  elseif kind0 ~= 'a' and kind0 ~= 'l' and not taken or unit0 == 0 or (kind0 == 't' and aux == 0) then
    return 0, 0, 0
  end
  if taken then
    used, over = taken(at, used, unit0, aux)
  end
  used = min(used, capacity)
  if kind == 't' then
    return used * unit, 0, over
  elseif kind == 'w' then
    return used * string.match(fill, '^%d+'), 0, over
  elseif kind == 'a' or kind == 'l' then
    return used, at, over
  end
  return used, 0, over
end

