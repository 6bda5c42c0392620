-- limit_decide: judges the charges of one request, all or nothing. Last part of
-- the script "decide".
--
-- KEYS[i]  state of charge i, a string (see limit_prelude); all in one hash
--          slot; a key may occur more than once
-- ARGV[1]  now, unix us; empty: the clock of this server
-- ARGV[2]  ms added to every expiry: 0, and more only where a test gives a now
--          that does not run with the server's clock
-- and five for each charge:
-- ARGV[..] kind     't', 'f' or 's'
--          cost     0 peeks
--          capacity 0 denies always
--          unit     see limit_prelude
--          fill     see limit_prelude; 0 for windows
--
-- Returns {admitted, and four for each charge: allowed, remaining, retry, reset},
-- whole numbers; admitted and allowed 1 or 0, retry and reset in us, retry -1
-- for never. A request that is not admitted has written nothing (law U1), and
-- remaining and reset of all its charges are those before it.
--
-- One round trip: TIME, one GET a key, and if admitted one SET a key.

local now = tonumber(ARGV[1])
local slack_ms = tonumber(ARGV[2])

if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function terms(i)
  local a = 5 * i - 2
  return {kind = ARGV[a], cost = tonumber(ARGV[a + 1]), capacity = tonumber(ARGV[a + 2]),
    unit = tonumber(ARGV[a + 3]), fill = tonumber(ARGV[a + 4])}
end

-- A state written under other terms, read under c: what was taken counts as
-- taken, rounded up to whole cost, at most the capacity. It depends on the state
-- alone, so all answers about it agree until it is written anew (law U14).
local function adopt(s, c)
  local used = math.min(algorithms[s.kind].taken(s), c.capacity)
  local unit, aux = algorithms[c.kind].hold(used, c)
  return {kind = c.kind, at = s.at, used = unit, unit = c.unit, aux = aux}
end

-- What a state means under c at a time: a state of that kind, and its end.
local function view(s, c, at)
  local over = finish(s)
  if s ~= none and not (s.kind == c.kind and algorithms[c.kind].owns(s, c)) then
    s = adopt(s, c)
    over = math.min(over, finish(s))
  end
  if at >= over then
    return none, at
  end
  return s, over
end

-- Judges c.cost, and returns the state after it (s itself unless something was
-- taken), allowed, remaining, retry, reset.
local function charge(s, c)
  local at = math.max(now, s.at)
  local algorithm = algorithms[c.kind]
  local from, over = view(s, c, at)
  local left = algorithm.left(from, c, at)
  local reset = 0
  if left < c.capacity then
    reset = over - at
  end
  if c.cost == 0 then
    return s, 1, left, 0, reset
  elseif c.cost > c.capacity then
    return s, 0, left, -1, reset
  elseif c.cost > left then
    return s, 0, left, math.min(algorithm.wait(from, c, at), over - at), reset
  end
  local used, aux = algorithm.add(from, c, at)
  local after = {kind = c.kind, at = at, used = used, unit = c.unit, aux = aux}
  return after, 1, left - c.cost, 0, finish(after) - at
end

local before, after, asked, spent = {}, {}, {}, {}
local reply = {1}

for i, key in ipairs(KEYS) do
  before[key] = before[key] or read_state(key)
  local r, c = 4 * i - 2, terms(i)
  -- Charges for one key are one charge of all their costs.
  c.cost = c.cost + (spent[key] or 0)
  asked[i], spent[key] = c, c.cost
  after[key], reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = charge(before[key], c)
  if reply[r] == 0 then
    reply[1] = 0
  end
end

if reply[1] == 1 then
  for _, key in ipairs(KEYS) do
    if after[key] ~= before[key] then
      write_state(key, after[key], now, slack_ms)
      before[key] = after[key]
    end
  end
  return reply
end

for i, key in ipairs(KEYS) do
  local r = 4 * i - 2
  if reply[r] == 1 then
    asked[i].cost = 0
    local _
    _, _, reply[r + 1], _, reply[r + 3] = charge(before[key], asked[i])
  end
end
return reply
