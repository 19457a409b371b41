#!lua flags=allow-oom
-- release: releases the lock and notifies the standbys.
--
-- KEYS[1]  lock
-- ARGV[1]  token
-- ARGV[2]  channel   of the standbys
-- ARGV[3]  message   names the released lock
-- Reply    {1, standbys notified} released; {0, 0} the lock is not the caller's; {1, -1} released, but Redis refused the
--          message: standbys find out at their next attempt
-- Optional PUBLISH
-- Safe     by compare.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end
redis.call('DEL', KEYS[1])
local told = redis.pcall('PUBLISH', ARGV[2], ARGV[3])
if type(told) == 'table' then told = -1 end
return {1, told}
