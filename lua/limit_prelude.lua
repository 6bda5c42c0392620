-- limit_prelude: what the limiting algorithms share. First part of the script
-- "decide"; the parts are joined by embed.go and never run alone.
--
-- A state is what is remembered of one key, the same as in package limit:
--   kind  't' token bucket, 'f' fixed window, 's' sliding window; nil: none
--   at    when it was last charged, unix us; time never runs backwards from it
--   used  t: units missing; f, s: cost in the window of `at`
--   unit  t: units of one token; f, s: the window, us
--   aux   t: units regained per us; s: cost in the window before; f: 0
-- It is stored as the string "<kind><at> <used> <unit> <aux>": one GET to read
-- it, one SET PX to write it. Terms (c) are what a caller asks under: kind,
-- cost, capacity, unit, fill.
--
-- Every number is a whole one below 2^53, which limit.Spec.Validate sees to, so
-- doubles are exact. Division is too: the quotient of two such numbers is never
-- rounded up to a whole one.

local none = {at = 0, used = 0, unit = 0, aux = 0}

-- kind -> the functions of that algorithm. Each file puts a maker here, and it
-- is called when the first charge needs it: a script builds its functions anew
-- in every run, and most runs need one algorithm.
local makers = {}
local algorithms = setmetatable({}, {__index = function(made, kind)
  made[kind] = makers[kind] and makers[kind]()
  return made[kind]
end})

local function ceil_div(a, b)
  local q = math.floor(a / b)
  if q * b < a then
    q = q + 1
  end
  return q
end

-- The boundary of windows at or before a time.
local function window_start(at, window)
  return at - at % window
end

-- What is not a state of ours counts as none, and is replaced by the next charge.
local function read_state(key)
  local raw = redis.call('GET', key)
  if not raw then
    return none
  end
  local kind, at, used, unit, aux = string.match(raw, '^(%l)(%d+) (%d+) (%d+) (%d+)$')
  if not makers[kind or ''] then
    return none
  end
  local s = {kind = kind, at = tonumber(at), used = tonumber(used),
    unit = tonumber(unit), aux = tonumber(aux)}
  if s.unit == 0 or (kind == 't' and s.aux == 0) then
    return none
  end
  return s
end

-- When, by its own units, a state is the same as none.
local function finish(s)
  if s == none then
    return 0
  end
  return algorithms[s.kind].finish(s)
end

-- The state lives until it means nothing, rounded up to ms (laws U8, U9), and
-- one more: the server reckons expiry from the ms in which the script began.
local function write_state(key, s, now, slack_ms)
  local life_ms = ceil_div(finish(s) - now, 1000) + 1 + slack_ms
  -- tostring would write large numbers with an exponent.
  redis.call('SET', key, string.format('%s%.0f %.0f %.0f %.0f', s.kind, s.at, s.used, s.unit, s.aux),
    'PX', string.format('%.0f', life_ms))
end
