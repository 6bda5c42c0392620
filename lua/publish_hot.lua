-- publish_hot: replaces the hot set of one publisher and tells the followers.
--
-- KEYS[1]  hot:version      string: last version given in this namespace
-- KEYS[2]  hot:index        hash: publisher -> "version expiry_ms"
-- KEYS[3]  hot:set:<id>     hash: epoch, seq, version, at, encoding, body
-- KEYS[4]  hot:epoch:<id>   string: "epoch token" of the process that owns the id
-- ARGV[1]  publisher id
-- ARGV[2]  token of the calling process, random
-- ARGV[3]  epoch of the calling process, 0 while it has none
-- ARGV[4]  KEYS[4] as the caller read it; asked for while it has no epoch
-- ARGV[5]  seq: number of this call, growing within the process
-- ARGV[6]  at: when the set was judged, unix us by the publisher's clock
-- ARGV[7]  floor: the last version the caller was given, 0 for none
-- ARGV[8]  life of the set, ms, >= 1
-- ARGV[9]  encoding of the body
-- ARGV[10] body
-- ARGV[11] life of the version counter, ms
-- ARGV[12] life of the epoch, ms
-- ARGV[13] channel of the notice
--
-- Returns {code, version, epoch}:
--   1  published under version; epoch is the caller's from now on
--   0  fenced: the process with that epoch owns the id
--  -1  late: a later call of the same process was here already
--  -2  race: another process took the id since the caller read KEYS[4]
--
-- A call may arrive long after its caller gave it up (Redis was frozen, the
-- bytes lay in a socket). That is why an id is taken only from the owner that
-- was read, and why calls carry a number: neither an old process nor an old
-- call can undo a newer one.
--
-- One round trip; O(bytes of the body + number of publishers).

local version_key, index_key, set_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local publisher, token = ARGV[1], ARGV[2]
local epoch = tonumber(ARGV[3])
local expected = ARGV[4]
local seq = tonumber(ARGV[5])
local at = ARGV[6]
local floor = tonumber(ARGV[7])
local life_ms = tonumber(ARGV[8])
local encoding, body = ARGV[9], ARGV[10]
local version_life_ms, epoch_life_ms = ARGV[11], ARGV[12]
local channel = ARGV[13]

-- Numbers above 10^14 would be written with an exponent.
local function int(n)
  return string.format('%.0f', n)
end

local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- The fence. The clock is the floor of epochs and of versions, so that a Redis
-- that lost everything gives neither a second time.
local current = redis.call('GET', epoch_key) or ''
local held, owner = string.match(current, '^(%d+) (.*)$')
held = tonumber(held or '0')
if owner == token then
  epoch = held
elseif epoch == 0 then
  if current ~= expected then
    return {-2, 0, held}
  end
  epoch = math.max(held + 1, now_ms)
elseif held >= epoch then
  return {0, 0, held}
end

local stands = redis.call('HMGET', set_key, 'epoch', 'seq')
if tonumber(stands[1] or '0') == epoch and tonumber(stands[2] or '0') >= seq then
  return {-1, 0, epoch}
end
redis.call('SET', epoch_key, int(epoch) .. ' ' .. token, 'PX', epoch_life_ms)

local last = tonumber(redis.call('GET', version_key) or '0')
local version = math.max(last + 1, floor + 1, now_ms)
redis.call('SET', version_key, int(version), 'PX', version_life_ms)

redis.call('HSET', set_key, 'epoch', int(epoch), 'seq', int(seq), 'version', int(version),
  'at', at, 'encoding', encoding, 'body', body)
redis.call('PEXPIRE', set_key, int(life_ms))

-- The index forgets who fell silent, and lives as long as its last set.
local longest_ms = life_ms
local index = redis.call('HGETALL', index_key)
for i = 1, #index, 2 do
  local left_ms = tonumber(string.match(index[i + 1], ' (%d+)$') or '0') - now_ms
  if left_ms <= 0 then
    redis.call('HDEL', index_key, index[i])
  elseif left_ms > longest_ms and index[i] ~= publisher then
    longest_ms = left_ms
  end
end
redis.call('HSET', index_key, publisher, int(version) .. ' ' .. int(now_ms + life_ms))
redis.call('PEXPIRE', index_key, int(longest_ms))

redis.call('PUBLISH', channel, int(version))
return {1, version, epoch}
