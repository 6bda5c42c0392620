-- override_audit: the part of write_override and restore_overrides that keeps the changes of overrides. The audit holds
-- each change for ARGV[2], as far as they fit into ARGV[1]. If they do not fit, the oldest change of the author whose
-- changes take most bytes is dropped first, so a change cannot be hidden by making many others.
--
-- Removals of overrides are kept apart from the audit. By them a process that knows an older state than Redis learns
-- which of its overrides were removed since, however many changes were made in between.
--
-- KEYS[4]  override:audit         list: the newest ARGV[3] changes (JSON), newest first. Programs of an earlier version
--          read only this list, and write their changes only to it; calls copy those changes, oldest first.
-- KEYS[5]  override:changes       sorted set: change (JSON) -> its number. The number is the revision of the change, or
--          one more than the number before it if that is higher, as among changes that were restored together.
-- KEYS[6]  override:change_index  sorted set, all scores 0: "author:<length>:<author>:<number>" and "id:<id>:<number>"
--          of each change
-- KEYS[7]  override:authors       sorted set: author -> bytes of the author's changes
-- KEYS[8]  override:removed       sorted set: id -> version at which the override was deleted, or before which it ended
-- KEYS[9]  override:audit_state   hash: bytes, of all changes; copied, the revision up to which all changes of the list
--          were copied to override:changes; complete_after, the version after which override:removed is complete
-- ARGV[1]  maximum of bytes
-- ARGV[2]  how long changes and removals are kept, us
-- ARGV[3]  length of the list
-- ARGV[4]  maximum number of removals
-- ARGV[5]  life of all keys, ms
-- ARGV[6]  channel of the notice
-- ARGV[7]  maximum number of changes that a call copies from the list, so that no call keeps Redis busy for long
--
-- Authors are as JSON has them between its quotes.
--
-- A call drops at most 64 changes to make room, and two more for each change that it copies or restores. 64 are enough
-- for any change, because the longest takes less than 64 times the bytes of the shortest. It also drops at most 64
-- changes that are too old.

local recent_key, changes_key, index_key, authors_key = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local removed_key, state_key = KEYS[8], KEYS[9]
local bytes_max, keep_us = tonumber(ARGV[1]), tonumber(ARGV[2])
local recent_max, removed_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local life_ms, channel = ARGV[5], ARGV[6]
local copies_max = tonumber(ARGV[7])

local change_bytes = 400 -- that Redis needs for a change besides its text, and twice the author
local drops_left, dropped = 64, 0

local bytes = tonumber(redis.call('HGET', state_key, 'bytes') or '0')
local last_number = 0 -- of the newest change

-- fields_of returns the revision, author, action and ID of a change, by the order in which every program writes them.
local function fields_of(text)
  local revision, author, action, id =
    string.match(text, '^{"revision":(%d+),"at":"[^"]*","author":"(.-)","action":"([^"]*)","id":"([^"]*)"')
  return tonumber(revision or string.match(text, '^{"revision":(%d+)') or '0'), author or '', action, id or ''
end

-- revision_of is the first result of fields_of alone, which takes less time.
local function revision_of(text)
  return tonumber(string.match(text, '^{"revision":(%d+)') or '0')
end

local function size_of(text, author)
  return #text + 2 * #author + change_bytes
end

local function entries_of(author, id, number)
  number = string.format('%016.0f', number)
  return 'author:' .. #author .. ':' .. author .. ':' .. number, 'id:' .. id .. ':' .. number
end

local function drop(text, number)
  local _, author, _, id = fields_of(text)
  local size = size_of(text, author)
  redis.call('ZREM', changes_key, text)
  redis.call('ZREM', index_key, entries_of(author, id, number))
  if tonumber(redis.call('ZINCRBY', authors_key, int(-size), author)) <= 0 then
    redis.call('ZREM', authors_key, author)
  end
  bytes = bytes - size
end

-- oldest_of_largest returns the oldest change of the author with most bytes, and its number; or the oldest change of
-- all if the index has none, or nil if there is no change.
local function oldest_of_largest()
  local author = redis.call('ZREVRANGE', authors_key, '0', '0')[1]
  if author then
    local prefix = 'author:' .. #author .. ':' .. author
    local entry = redis.call('ZRANGEBYLEX', index_key, '[' .. prefix .. ':', '(' .. prefix .. ';', 'LIMIT', '0', '1')[1]
    if entry then
      local number = string.sub(entry, #prefix + 2)
      local text = redis.call('ZRANGEBYSCORE', changes_key, number, number)[1]
      if text then
        return text, tonumber(number)
      end
      redis.call('ZREM', index_key, entry)
    end
  end
  local oldest = redis.call('ZRANGE', changes_key, '0', '0', 'WITHSCORES')
  return oldest[1], tonumber(oldest[2])
end

-- keep_change adds a change to the audit, after making room for it, and records a deletion.
local function keep_change(text)
  local revision, author, action, id = fields_of(text)
  local size = size_of(text, author)
  while bytes + size > bytes_max and drops_left > 0 do
    local oldest, number = oldest_of_largest()
    if not oldest then
      break
    end
    drop(oldest, number)
    drops_left, dropped = drops_left - 1, dropped + 1
  end
  last_number = math.max(last_number + 1, version_of(revision, now, 1000000))
  if redis.call('ZADD', changes_key, 'NX', int(last_number), text) == 1 then
    local by_author, by_id = entries_of(author, id, last_number)
    redis.call('ZADD', index_key, '0', by_author, '0', by_id)
    redis.call('ZINCRBY', authors_key, int(size), author)
    bytes = bytes + size
  end
  if action == 'delete' then
    redis.call('ZADD', removed_key, int(revision), id)
  end
end

-- add_change adds a change to the audit and to the list.
local function add_change(text)
  keep_change(text)
  redis.call('LPUSH', recent_key, text)
  redis.call('HSET', state_key, 'copied', int(revision_of(text)))
end

-- add_removals records that overrides ended before a version.
local function add_removals(ids, version)
  local args = {}
  for i, id in ipairs(ids) do
    args[2 * i - 1], args[2 * i] = int(version), id
  end
  redis.call('ZADD', removed_key, unpack(args))
end

-- is_copied reports whether a change of the list and all older ones were copied, if copied is the revision up to which
-- all were. Changes that were restored together share a revision, so a call may have copied some of them.
local function is_copied(text, copied)
  local revision = revision_of(text)
  return revision <= copied or revision == copied + 1 and redis.call('ZSCORE', changes_key, text)
end

-- copy_recent copies the oldest changes that a program of an earlier version wrote to the list alone, and reports
-- whether it has copied all. These are at most recent_max after an upgrade, and then the changes of other programs
-- since the last call.
local function copy_recent()
  local copied = tonumber(redis.call('HGET', state_key, 'copied') or '0')
  local head = redis.call('LINDEX', recent_key, '0')
  if not head or revision_of(head) <= copied then
    return true
  end
  local list = redis.call('LRANGE', recent_key, '0', int(recent_max - 1))
  local first = #list
  for i, text in ipairs(list) do
    if is_copied(text, copied) then
      first = i - 1
      break
    end
  end
  if first == recent_max then -- the list may have lost deletions
    redis.call('HSET', state_key, 'complete_after', int(revision_of(list[first])))
  end
  local left = math.max(first - copies_max, 0)
  for i = first, left + 1, -1 do
    drops_left = drops_left + 2
    keep_change(list[i])
  end
  copied = revision_of(head)
  if left > 0 then -- readers find the other changes of this revision in the list
    copied = revision_of(list[left]) - 1
  end
  redis.call('HSET', state_key, 'copied', int(copied))
  return left == 0
end

-- begin_audit comes before all that a call changes. If it returns false, the call changes nothing else but ends with
-- end_audit, and the caller calls again: a newer change may not come before the changes that are not copied yet.
local function begin_audit()
  local newest = redis.call('ZREVRANGE', changes_key, '0', '0', 'WITHSCORES')
  last_number = version_of(newest[2], now, 1000000)
  if #newest == 0 then -- a person may have deleted only this key
    redis.call('DEL', index_key, authors_key)
    bytes = 0
  end
  return copy_recent()
end

-- drop_old drops changes and removals that are too old, or of which there are too many.
local function drop_old()
  local oldest = int(now - keep_us)
  local old = redis.call('ZRANGEBYSCORE', changes_key, '-inf', oldest, 'WITHSCORES', 'LIMIT', '0', '64')
  for i = 1, #old, 2 do
    drop(old[i], tonumber(old[i + 1]))
  end
  redis.call('LTRIM', recent_key, '0', int(recent_max - 1))
  local count = math.max(redis.call('ZCOUNT', removed_key, '-inf', oldest),
    redis.call('ZCARD', removed_key) - removed_max)
  if count > 0 then
    count = math.min(count, 1000)
    local last = redis.call('ZRANGE', removed_key, int(count - 1), int(count - 1), 'WITHSCORES')
    redis.call('ZREMRANGEBYRANK', removed_key, '0', int(count - 1))
    redis.call('HSET', state_key, 'complete_after', int(tonumber(last[2])))
  end
end

-- end_audit writes what the call has changed, and renews the life of all keys.
local function end_audit()
  redis.call('HSET', state_key, 'bytes', int(bytes))
  for i = 1, #KEYS do
    redis.call('PEXPIRE', KEYS[i], life_ms)
  end
end

