#!lua flags=allow-oom
-- break_stale_lock: removes a lock that a step of the clock left with more life than its holder ever gave it.
--
-- KEYS[1]  lock
-- ARGV[1]  token     that was seen there at two looks at least one TTL apart
-- ARGV[2]  ttl       ms, the holder's, as the token says
-- Reply    1 removed, 0 nothing to heal
-- Safe     by compare. A holder that lives after all loses its term and nothing else: its effects are fenced.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local pttl = redis.call('PTTL', KEYS[1])
if pttl >= 0 and pttl <= tonumber(ARGV[2]) then return 0 end -- -1: somebody took the TTL away
return redis.call('DEL', KEYS[1])
