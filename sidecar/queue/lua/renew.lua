#!lua flags=allow-oom
-- renew: prolongs the lock if the caller still holds it.
--
-- KEYS[1]  lock
-- ARGV[1]  token
-- ARGV[2]  ttl       ms
-- Reply    1 renewed, 0 the lock is gone or another instance has it
-- Safe     by compare.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
