#!lua flags=allow-oom
-- break_stale_lock: removes a lock that has more TTL left than its holder set, after a clock step.
--
-- KEYS[1]  lock
-- ARGV[1]  token     that two reads, at least one TTL apart, found
-- ARGV[2]  ttl       ms, from the holder's token
-- Reply    1 removed, 0 not stale
-- Safe     by compare. A holder that is alive loses only its term, because its scripts are fenced.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local pttl = redis.call('PTTL', KEYS[1])
if pttl >= 0 and pttl <= tonumber(ARGV[2]) then return 0 end -- -1: no TTL
return redis.call('DEL', KEYS[1])
