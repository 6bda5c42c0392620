-- cl_throttle: replaces CL.THROTTLE of redis-cell. GCRA with a theoretical arrival time; see
-- internal/limitcore/token_bucket.go. It needs no other part and may be loaded alone:
--
--   EVAL <this file> 1 user123 15 30 60 1
--                      |       |  |  |  +-- quantity: 0 charges nothing
--                      |       |  |  +----- period, seconds
--                      |       |  +-------- count: calls that are due in a period
--                      |       +----------- max_burst: calls that may come early
--                      +------------------- key
--
-- KEYS[1]  a string, "<tat> <part> <fill>": TAT is tat us and part/fill of one
-- ARGV[1]  max_burst, >= 0
-- ARGV[2]  count, >= 1
-- ARGV[3]  period, seconds, >= 1
-- ARGV[4]  quantity, >= 0; absent or empty: 1
--
-- Returns {limited, limit, remaining, retry_after, reset_after}: limited is 0 or 1, limit is max_burst + 1, times are
-- in seconds rounded up, retry_after is -1 if the call was allowed or quantity is above limit. A denied call writes
-- nothing.
--
-- It differs from redis-cell in two ways: only the reply is rounded (30 per 7 s stays 30 per 7 s), and rates that could
-- not be kept exactly are an error: (max_burst + 1) x period in us / gcd(period in us, count) must be below 2^53, and
-- the whole burst must be due within 2.2 years.
--
-- One round trip: TIME, GET, and a SET if allowed. O(1).

local key = KEYS[1]
local capacity, count, period, quantity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
quantity = (not quantity or quantity == '') and 1 or tonumber(quantity)

local floor, max = math.floor, math.max
local largest = 9007199254740991

local function whole(n, low)
  return n and n >= low and n <= largest and n == floor(n)
end

local function ceil_div(a, b)
  local q = floor(a / b)
  if q * b < a then
    return q + 1
  end
  return q
end

if not whole(capacity, 0) or not whole(quantity, 0) then
  return redis.error_reply('ERR max_burst and quantity have to be whole numbers and not negative')
elseif not whole(count, 1) or not whole(period, 1) then
  return redis.error_reply('ERR zero rates are not supported')
end
capacity = capacity + 1

-- One call is unit/fill us.
local unit, fill = period * 1000000, count
local a, b = unit, fill
while b > 0 do
  local rest = a % b
  a, b = b, rest
end
unit, fill = unit / a, fill / a
if period > 35184372 or capacity > largest / unit or capacity * unit / fill > 70368744177664 then
  return redis.error_reply('ERR max_burst, count and period are too large to be kept exactly')
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- TAT is tat + part/fill us. A part under another rate is rounded up.
local tat, part = now, 0
local tat0, part0, fill0 = string.match(redis.call('GET', key) or '', '^(%d+) (%d+) (%d+)$')
if tat0 and tonumber(tat0) >= now then
  tat, part = tonumber(tat0), tonumber(part0)
  if tonumber(fill0) ~= fill then
    tat, part = tat + ceil_div(part, tonumber(fill0)), 0
  end
end

-- free returns the free units: exact if TAT is no further away than the burst, and otherwise 0.
local function free()
  return max(0, capacity * unit - (tat - now) * fill - part)
end

local limited, retry = 0, -1
if quantity > capacity then
  limited = 1
elseif quantity * unit > free() then
  limited = 1
  retry = ceil_div(tat - now + ceil_div(part - (capacity - quantity) * unit, fill), 1000000)
elseif quantity > 0 then
  part = part + quantity * unit
  tat, part = tat + floor(part / fill), part % fill
  local life = ceil_div(tat + ceil_div(part, fill) - now, 1000) + 1
  redis.call('SET', key, string.format('%d %d %d', tat, part, fill), 'PX', life)
end
return {limited, capacity, floor(free() / unit), retry, ceil_div(tat - now + ceil_div(part, fill), 1000000)}
