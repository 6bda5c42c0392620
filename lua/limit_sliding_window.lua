-- limit_sliding_window: a part of "decide". Two aligned windows stand for a
-- sliding one; the one before weighs by its part still covered, in whole numbers,
-- never rounded. The story is told in hotparam/limit/sliding_window.go.
--
-- Cost: O(1), no redis.call.

makers.s = function()
  -- The costs of now's window and of the one before it, and how far into its
  -- window now is.
  local function roll(s, c, now)
    local e = now % c.unit
    local start = now - e
    if s.at >= start then
      return s.used, s.aux, e
    elseif s.at >= start - c.unit then
      return 0, s.used, e
    end
    return 0, 0, e
  end

  -- The first offset into a window at which prev weighs no more than room; nil
  -- if there is none.
  local function fits(prev, room, window)
    if room < 0 then
      return nil
    elseif prev <= room then
      return 0
    end
    local covered = math.floor(room * window / prev)
    if covered > 0 then
      return window - covered
    end
    return nil
  end

  return {
    owns = function(s, c)
      return s.unit == c.unit
    end,

    hold = function(cost)
      return cost, 0
    end,

    taken = function(s)
      return s.used + ceil_div(s.aux * (s.unit - s.at % s.unit), s.unit)
    end,

    finish = function(s)
      local over = window_start(s.at, s.unit) + s.unit
      if s.used > 0 then
        over = over + s.unit
      end
      return over
    end,

    left = function(s, c, now)
      local cur, prev, e = roll(s, c, now)
      return math.max(0, c.capacity - cur - ceil_div(prev * (c.unit - e), c.unit))
    end,

    wait = function(s, c, now)
      local cur, prev, e = roll(s, c, now)
      local at = fits(prev, c.capacity - cur - c.cost, c.unit)
      if at then
        return at - e
      end
      at = fits(cur, c.capacity - c.cost, c.unit)
      return c.unit - e + (at or c.unit)
    end,

    add = function(s, c, now)
      local cur, prev = roll(s, c, now)
      return cur + c.cost, prev
    end,
  }
end
