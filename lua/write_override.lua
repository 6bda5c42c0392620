-- write_override: puts or deletes one override together with its audit entry, removes overrides that ended, and renews
-- the life of the keys.
--
-- KEYS[1]  override:entries  hash: id -> override (JSON)
-- KEYS[2]  override:until    sorted set: id -> end, unix ms, of overrides that end
-- KEYS[3]  override:version  string: grows with every change; unix us, or one
--          more than the version before
-- KEYS[4] to KEYS[9], ARGV[1] to ARGV[7]  as override_audit describes them
-- KEYS[10] override:log      list: "version before id", newest first; before is the
--          version that the change was made on
-- ARGV[8]  id; "" only trims and renews
-- ARGV[9]  the entry that the caller read, or "" if it was absent
-- ARGV[10] the entry to store; "" deletes
-- ARGV[11] end of the new entry, unix ms, 0 without an end
-- ARGV[12] audit entry (JSON object); the new version is put into it as revision
-- ARGV[13] maximum number of overrides
-- ARGV[14] the lowest version that Redis must have: the version of the overrides
--          that the caller's process enforces, or 0 if it knows no version
-- ARGV[15] how many entries of the log are kept
--
-- Returns {code, trimmed, version, dropped, bytes}. version is the change's, or 0 if it was not made; dropped is the
-- number of changes that the audit lost because it was full, and bytes its size. code is one of
--   1  done
--   0  conflict: the stored entry differs from the entry that the caller read; the change is not written
--  -1  full: ARGV[13] overrides exist; the change is not written
--  -2  Redis has lost overrides that the caller knows; nothing is written at all.
--      A change on top of an older state would become the newest one.
--  -3  not yet: the caller calls again, because more than ARGV[7] changes of programs of an earlier version were not
--      in the audit. A call copied some of them, and wrote nothing else.
--
-- Only a change makes a new version. Overrides that ended are removed under the old version: they hold nowhere, and a
-- Redis with an older state must not take itself for the newest because one of its overrides ended.
--
-- One round trip; O(log N) and O(ended), and what override_audit bounds.

local entries_key, until_key, version_key, log_key = KEYS[1], KEYS[2], KEYS[3], KEYS[10]
local id, expected, entry = ARGV[8], ARGV[9], ARGV[10]
local until_ms = tonumber(ARGV[11])
local audit_entry = ARGV[12]
local entries_max = tonumber(ARGV[13])
local least = tonumber(ARGV[14])
local log_max = tonumber(ARGV[15])

local stored = version_of(redis.call('GET', version_key), now, 1000000)
if stored < least then
  return {-2, 0, 0, 0, bytes}
end
if not begin_audit() then
  end_audit()
  return {-3, 0, 0, dropped, bytes}
end

-- At most 1000 at a time: unpack has a limit, and the next call takes the rest.
local ended = redis.call('ZRANGEBYSCORE', until_key, '-inf', int(now_ms), 'LIMIT', '0', '1000')
if #ended > 0 then
  redis.call('HDEL', entries_key, unpack(ended))
  redis.call('ZREM', until_key, unpack(ended))
  add_removals(ended, stored)
end

local code, version = 1, 0
if id ~= '' then
  local current = redis.call('HGET', entries_key, id) or ''
  if current ~= expected then
    code = 0
  elseif entry == '' then
    redis.call('HDEL', entries_key, id)
    redis.call('ZREM', until_key, id)
  elseif current == '' and redis.call('HLEN', entries_key) >= entries_max then
    code = -1
  else
    redis.call('HSET', entries_key, id, entry)
    if until_ms > 0 then
      redis.call('ZADD', until_key, int(until_ms), id)
    else
      redis.call('ZREM', until_key, id)
    end
  end
  if code == 1 then
    -- Microseconds, so that no version is used twice although Redis forgot it.
    version = math.max(stored + 1, now)
    add_change('{"revision":' .. int(version) .. ',' .. string.sub(audit_entry, 2))
    redis.call('LPUSH', log_key, int(version) .. ' ' .. int(stored) .. ' ' .. id)
    redis.call('LTRIM', log_key, '0', int(log_max - 1))
    redis.call('SET', version_key, int(version))
    redis.call('PUBLISH', channel, int(version))
  end
end
drop_old()
end_audit()
return {code, #ended, version, dropped, bytes}
