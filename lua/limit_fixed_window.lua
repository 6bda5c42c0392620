-- limit_fixed_window: a part of "decide". Windows lie at the multiples of their
-- length since the epoch; each admits the capacity. The story is told in
-- hotparam/limit/fixed_window.go.
--
-- Cost: O(1), no redis.call.

makers.f = function()
  local function finish(s)
    return window_start(s.at, s.unit) + s.unit
  end

  return {
    owns = function(s, c)
      return s.unit == c.unit
    end,

    hold = function(cost)
      return cost, 0
    end,

    taken = function(s)
      return s.used
    end,

    finish = finish,

    left = function(s, c)
      return math.max(0, c.capacity - s.used)
    end,

    wait = function(s, c, now)
      return finish(s) - now
    end,

    add = function(s, c)
      return s.used + c.cost, 0
    end,
  }
end
