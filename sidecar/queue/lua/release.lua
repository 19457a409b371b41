#!lua flags=allow-oom
-- release: gives the lock back and tells the standbys.
--
-- KEYS[1]  lock
-- ARGV[1]  token
-- ARGV[2]  channel   where standbys listen
-- ARGV[3]  message   which lock is vacant
-- Reply    {1, standbys told} released; {0, 0} it was not the caller's. If the message is refused, standbys find the vacancy by
--          their next look: {1, -1}
-- Optional PUBLISH
-- Safe     by compare.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end
redis.call('DEL', KEYS[1])
local told = redis.pcall('PUBLISH', ARGV[2], ARGV[3])
if type(told) == 'table' then told = -1 end
return {1, told}
