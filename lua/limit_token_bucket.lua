-- limit_token_bucket: a part of "decide". A bucket starts full; what is missing
-- runs back evenly, fill units a microsecond, unit of them a token. The story is
-- told in hotparam/limit/token_bucket.go.
--
-- Cost: O(1), no redis.call.

makers.t = function()
  local function missing(s, c, now)
    if s.used == 0 then
      return 0
    end
    return s.used - c.fill * (now - s.at) -- positive until the state ends
  end

  return {
    owns = function(s, c)
      return s.unit == c.unit and s.aux == c.fill and s.used <= c.capacity * c.unit
    end,

    hold = function(cost, c)
      return cost * c.unit, c.fill
    end,

    taken = function(s)
      return ceil_div(s.used, s.unit)
    end,

    finish = function(s)
      return s.at + ceil_div(s.used, s.aux)
    end,

    left = function(s, c, now)
      return math.floor((c.capacity * c.unit - missing(s, c, now)) / c.unit)
    end,

    wait = function(s, c, now)
      return ceil_div(missing(s, c, now) - (c.capacity - c.cost) * c.unit, c.fill)
    end,

    add = function(s, c, now)
      return missing(s, c, now) + c.cost * c.unit, c.fill
    end,
  }
end
