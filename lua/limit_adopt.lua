-- limit_adopt: a part of the scripts that decide; see limit_prelude. What a
-- state means under terms it was not written under.
--
-- Cost: O(1), no redis.call.

-- A state written under other terms, another algorithm included: what was taken
-- counts as taken, rounded up to whole cost, at most the capacity. It depends on
-- the state alone, so all answers about it agree until it is written anew (law
-- U14). What is not a state of ours counts as none. Returns used, aux, over.
-- Kinds 'a' and 'l' are over one unit after aux.
local function adopt(kind0, at, used, unit0, aux, kind, capacity, unit)
  local taken = kind0 == 't' and t_taken or kind0 == 'f' and f_taken or kind0 == 's' and s_taken
  local over = aux + unit0
  if kind0 ~= 'a' and kind0 ~= 'l' and not taken or unit0 == 0 or (kind0 == 't' and aux == 0) then
    return 0, 0, 0
  end
  if taken then
    used, over = taken(at, used, unit0, aux)
  end
  used = min(used, capacity)
  if kind == 't' then
    return used * unit, 0, over
  elseif kind == 'a' or kind == 'l' then
    return used, at, over
  end
  return used, 0, over
end

