-- write_rules: replaces the rules that the caller read, and adds the change to their history.
--
-- KEYS[1]  rules:current  string: the content of the store (JSON)
-- KEYS[2]  rules:version  string: its version
-- KEYS[3]  rules:history  list: changes (JSON), newest first
-- ARGV[1]  the version that the caller read, or 0 if the store was empty
-- ARGV[2]  the version to store
-- ARGV[3]  the content to store
-- ARGV[4]  entry of the history
-- ARGV[5]  how many entries are kept
-- ARGV[6]  life of all three keys, ms
-- ARGV[7]  channel of the notice
--
-- Returns 1, or 0 if the stored version differs from the version that the caller read; then nothing is written.
--
-- One round trip; O(entries beyond those kept).

local rules_key, version_key, history_key = KEYS[1], KEYS[2], KEYS[3]
local expected, version, rules, entry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local entries_max = tonumber(ARGV[5])
local life_ms = ARGV[6]
local channel = ARGV[7]

if (redis.call('GET', version_key) or '0') ~= expected then
  return 0
end
redis.call('SET', rules_key, rules, 'PX', life_ms)
redis.call('SET', version_key, version, 'PX', life_ms)
redis.call('LPUSH', history_key, entry)
redis.call('LTRIM', history_key, '0', string.format('%.0f', entries_max - 1))
redis.call('PEXPIRE', history_key, life_ms)
redis.call('PUBLISH', channel, version)
return 1
