-- restore_overrides: writes back the overrides that a process knows when Redis has an older state of them, or no state:
-- it was flushed, restarted without persistence, restored from a backup, or replaced by a replica that lagged. The
-- state with the highest version wins, whole.
--
-- KEYS[1]  override:entries  hash: id -> override (JSON)
-- KEYS[2]  override:until    sorted set: id -> end, unix ms, of overrides that end
-- KEYS[3]  override:version  string: grows with every change
-- KEYS[4]  override:audit    list: changes (JSON), newest first
-- KEYS[5]  override:log      list: the last changes; it ends, because the state before is not the one that they led to
-- ARGV[1]  version of the caller's overrides; the store has it afterwards
-- ARGV[2]  the version that the caller found in Redis, or 0 if there was no version
-- ARGV[3]  how many audit entries are kept
-- ARGV[4]  life of the keys, ms
-- ARGV[5]  channel of the notice
-- ARGV[6]  number of overrides, n
-- ARGV[7]  and so on: n times id, entry and end (unix ms, 0 without an end), then the
--          audit entries, oldest first
--
-- Returns 1 when done, or 0 if Redis no longer has the version that the caller found, or if that is not an older one;
-- then nothing is written.
--
-- One round trip; O(n).

local entries_key, until_key, version_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local version, found = tonumber(ARGV[1]), tonumber(ARGV[2])
local audit_max = tonumber(ARGV[3])
local life_ms = ARGV[4]
local channel = ARGV[5]
local last = 6 + 3 * tonumber(ARGV[6])

local stored = version_of(redis.call('GET', version_key), now, 1000000)
if stored ~= found or stored >= version then
  return 0
end

redis.call('DEL', entries_key, until_key, KEYS[5])
for i = 7, last, 3 do
  local until_ms = tonumber(ARGV[i + 2])
  if until_ms == 0 then
    redis.call('HSET', entries_key, ARGV[i], ARGV[i + 1])
  elseif until_ms > now_ms then
    redis.call('HSET', entries_key, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', until_key, ARGV[i + 2], ARGV[i])
  end
end
for i = last + 1, #ARGV do
  redis.call('LPUSH', audit_key, ARGV[i])
end
redis.call('LTRIM', audit_key, '0', string.format('%.0f', audit_max - 1))
redis.call('SET', version_key, ARGV[1])
redis.call('PUBLISH', channel, ARGV[1])
for i = 1, 4 do
  redis.call('PEXPIRE', KEYS[i], life_ms)
end
return 1
