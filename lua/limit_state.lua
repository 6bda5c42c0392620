-- limit_state: reads the terms of a charge, and a state under them. A part of "decide", "decide many" and "refund",
-- behind the kinds; see limit_prelude. The lines below "--> read" are put in place of such a line in "decide" and
-- "refund".

local tonumber = tonumber

-- adopt converts a state that was written under other terms, or by another algorithm: the taken cost stays taken,
-- rounded up to whole cost, at most `whole`, the cost that the limit holds. The result depends on the state alone, so
-- all answers about it agree until it is written again (law U14). A foreign text counts as absent. Returns used, aux,
-- over.
local function adopt(kind0, at, used, unit0, aux, kind, whole, unit, fill)
  --> adopts
  local taken_by, adopt_by, taken, over = taken_of(kind0), adopt_of(kind), nil, nil
  if taken_by and unit0 > 0 then
    taken, over = taken_by(at, used, unit0, aux)
  end
  if not taken then
    return 0, 0, 0
  end
  taken = min(taken, whole)
  if not adopt_by then
    return taken, 0, over
  end
  used, aux = adopt_by(taken, at, unit, fill, kind0, used, unit0, aux)
  return used, aux, over
end

--> read
    -- The terms at ARGV[a]. whole is the cost that the limit holds. capacity is the cost that this charge may take of
    -- it, beside its reserve.
    local kind, cost, room, unit, fill = ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4]
    local whole, slack, reserve = room, 0, nil
    fill = tonumber(fill) or fill
    if #kind > 1 then
      reserve = string.sub(kind, 2) + 0
      kind = 't' -- later, because miniredis assigns the first of two values before it computes the second
    end
    if kind == 't' then
      slack = room % unit
      whole = (room - slack) / unit
    end
    local capacity = reserve and whole - reserve / unit or whole
    -- The state of KEYS[i] under the terms at ARGV[a]. known is true if it was written under these terms, false if
    -- under others, nil if it is absent. bound is the time from which on an adopted state is the same as an absent one,
    -- even if its numbers mean a later time. A state that is ahead counts as absent, but charges to it can be refunded.
    local at, used, aux, clock, known, bound, ticks = 0, 0, 0, now, nil, nil, nil
    local raw = redis.call('GET', KEYS[i])
    if raw then
      local kind0, at0, used0, unit0, aux0, rest = string.match(raw, '^(%l)0*(%d+) (%d+) (%d+) (%d+)()')
      if kind0 and (refunds or at0 + 0 <= now + max_ahead) then
        at, used, aux = at0 + 0, used0 + 0, aux0 + 0
        clock = max(now, at) -- time never runs backwards (law U11)
        known = kind0 == kind and unit0 == ARGV[a + 3] and (kind ~= 't' or aux0 == ARGV[a + 4])
        if not known then
          used, aux, bound = adopt(kind0, at, used, unit0 + 0, aux, kind, whole, unit, fill)
          if clock >= bound then
            used, aux = 0, 0
          end
        elseif rest <= #raw then
          ticks = string.sub(raw, rest + 1)
        end
      end
    end
