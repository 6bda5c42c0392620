-- prelude: the first part of every script but cl_throttle; embed.go joins the parts.
-- The clock is that of Redis, so that all processes share one.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- unix us
--> control
local now_ms = math.floor(now / 1000)

-- Numbers above 10^14 would be written with an exponent.
local function int(n)
  return string.format('%.0f', n)
end
