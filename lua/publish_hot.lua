-- publish_hot: makes a new version of one publisher's hot set and notifies the followers.
--
-- KEYS[1]  hot:version      string: the last version of a hot set in this namespace
-- KEYS[2]  hot:index        hash: publisher -> "version [flag ]expiry_ms"
-- KEYS[3]  hot:set:<id>     hash: epoch, seq, version, base, at, encoding, body
-- KEYS[4]  hot:epoch:<id>   string: "epoch token lease_end_ms" of the process that owns the id
-- KEYS[5]  hot:log:<id>     sorted set: version -> "version from epoch " .. change
-- KEYS[6]  hot:received:<id> hash: flow -> "sent-first-received", "complete" -> 1 or 0
-- ARGV[1]  publisher id
-- ARGV[2]  token of the calling process
-- ARGV[3]  seq: number of this call, growing within the process
-- ARGV[4]  floor: the last version that the caller received, 0 before the first
-- ARGV[5]  from: the version that the change continues, or 0 if there is no change
--          and body is the set
-- ARGV[6]  change: the text for readers that hold version from, or '' without a change
-- ARGV[7]  at: when the set in body was judged, unix us by the publisher's clock
-- ARGV[8]  encoding of body
-- ARGV[9]  body: the whole set; '' keeps the stored one
-- ARGV[10] how many changes to keep when body is not ''
-- ARGV[11] life of the set, ms, >= 1
-- ARGV[12] lease of the caller, ms
-- ARGV[13] life of the version counter, ms
-- ARGV[14] life of the epoch, ms
-- ARGV[15] channel of the notice
-- ARGV[16] flag: 'blind' if the publisher gets no counts and renews the keys that were hot,
--          'stopped' if it publishes for the last time, 'judged:<n>:<mask>' if it has judged
--          these partitions for a whole window, else ''
-- ARGV[17] life of the received flows, ms
-- ARGV[18…] fields and values of the received flows, which replace the stored ones;
--          without any, the stored ones stay
--
-- Returns {code, version, epoch}:
--   1  published under version; epoch is the caller's
--   0  fenced: the id is not the caller's; epoch is the owner's, 0 without an owner
--  -1  late: a later call of the same process was here already
--  -2  gap: the stored version is not from; nothing was written
--
-- A call may arrive long after its caller timed out (Redis was frozen, the bytes waited in a socket). Therefore only
-- the owner of the id may publish, and calls carry a number: neither an old process nor an old call can undo a newer
-- one.
--
-- One round trip; O(bytes of change and body + number of publishers + number of flows).

local version_key, index_key, set_key, epoch_key, log_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local received_key = KEYS[6]
local publisher, token = ARGV[1], ARGV[2]
local seq = tonumber(ARGV[3])
local floor = tonumber(ARGV[4])
local from, change = tonumber(ARGV[5]), ARGV[6]
local at, encoding, body = ARGV[7], ARGV[8], ARGV[9]
local keep = tonumber(ARGV[10])
local life_ms, lease_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local version_life_ms, epoch_life_ms = ARGV[13], ARGV[14]
local channel = ARGV[15]
local flags = (ARGV[16] or '') ~= '' and ARGV[16] .. ' ' or ''

-- The fence.
local epoch, owner = string.match(redis.call('GET', epoch_key) or '', '^(%d+) (%S+)')
epoch = tonumber(epoch or '0')
if owner ~= token then
  return {0, 0, epoch}
end

local stands = redis.call('HMGET', set_key, 'epoch', 'seq', 'version', 'base')
local ours = tonumber(stands[1] or '0') == epoch
if ours and tonumber(stands[2] or '0') >= seq then
  return {-1, 0, epoch}
end
if from > 0 then
  local stands_at = tonumber(stands[3] or '0')
  local logged = tonumber(stands[4] or '0') == stands_at or redis.call('EXISTS', log_key) == 1
  if not ours or stands_at ~= from or not logged then
    return {-2, 0, epoch}
  end
end
redis.call('SET', epoch_key, int(epoch) .. ' ' .. token .. ' ' .. int(now_ms + lease_ms), 'PX', epoch_life_ms)

-- The clock is the floor of versions, so that a Redis that lost everything uses no version a second time.
local last = version_of(redis.call('GET', version_key), now_ms, 1000)
local version = math.max(last + 1, version_of(floor, now_ms, 1000) + 1, now_ms)
redis.call('SET', version_key, int(version), 'PX', version_life_ms)

redis.call('HSET', set_key, 'epoch', int(epoch), 'seq', int(seq), 'version', int(version))
if body ~= '' or from == 0 then
  redis.call('HSET', set_key, 'base', int(version), 'at', at, 'encoding', encoding, 'body', body)
  redis.call('ZREMRANGEBYRANK', log_key, 0, -1 - keep)
end
redis.call('PEXPIRE', set_key, int(life_ms))
if from > 0 then
  redis.call('ZADD', log_key, int(version), int(version) .. ' ' .. int(from) .. ' ' .. int(epoch) .. ' ' .. change)
end
redis.call('PEXPIRE', log_key, int(life_ms))

if #ARGV > 17 then
  redis.call('DEL', received_key)
  redis.call('HSET', received_key, unpack(ARGV, 18))
  redis.call('PEXPIRE', received_key, ARGV[17])
end

-- The index drops publishers whose set has expired, and lives as long as its last set.
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
redis.call('HSET', index_key, publisher, int(version) .. ' ' .. flags .. int(now_ms + life_ms))
redis.call('PEXPIRE', index_key, int(longest_ms))

redis.call('PUBLISH', channel, int(version))
return {1, version, epoch}
