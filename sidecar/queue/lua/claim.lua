#!lua flags=allow-oom
-- claim: takes over the queue of a group without a leader.
--
-- KEYS[1]  lock      the caller's
-- KEYS[2]  meta      hash of the queue
-- KEYS[3]  other     lock of the group that owns the queue
-- KEYS[4]  served    hash of the caller's queues
-- ARGV[1]  token
-- ARGV[2]  group     the caller's
-- ARGV[3]  owner     the group whose lock KEYS[3] is
-- ARGV[4]  name      of the queue
-- Reply    {1, ''} the queue is the caller's; {0, owner} another group owns the queue; {-1, ''} fenced
-- Uses     rights
-- Safe     fenced, and by compare: the owner must still be ARGV[3].
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1, ''} end
local owner = redis.call('HGET', KEYS[2], 'group')
if owner and owner ~= ARGV[2] then
    if owner ~= ARGV[3] or redis.call('EXISTS', KEYS[3]) == 1 then return {0, owner} end
end
local refusal = missing_right({{'HSET', KEYS[4]}, {'HSET', KEYS[2]}})
if refusal then return refusal end
redis.call('HSET', KEYS[4], ARGV[4], ARGV[1]) -- before KEYS[2] changes: KEYS[4] may have a wrong type
redis.call('HSET', KEYS[2], 'group', ARGV[2])
return {1, ''}
