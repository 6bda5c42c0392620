-- prelude: the first part of every script but cl_throttle; embed.go joins the parts. It uses the clock of Redis, so
-- that all processes share one clock.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- unix us
--> control
local now_ms = math.floor(now / 1000)

-- version_of returns the version in text. Versions are the clock, which has `second` units to a second, or one more
-- than the version before. A version that is more than a day ahead is foreign and counts as 0, as does a text that is
-- not a number: from 2^53 on, adding 1 would change nothing.
local function version_of(text, clock, second)
  local version = tonumber(text or '0') or 0
  if version >= 0 and version <= clock + 86400 * second then
    return version
  end
  return 0
end

-- Numbers above 10^14 would be written with an exponent.
local function int(n)
  return string.format('%.0f', n)
end
