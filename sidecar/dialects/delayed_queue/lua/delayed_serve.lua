#!lua flags=allow-oom
-- delayed_serve: says which classes the leader of a delayed_queue sends, for `audit requeue`.
--
-- KEYS[1]  lock
-- KEYS[2]  meta      hash of the queue
-- ARGV[1]  token
-- ARGV[2]  classes   each between two spaces
-- Reply    {'settled', 1}, {'fenced'}, {'type', key, found}
-- Uses     types, fence
-- Safe     fenced.
local refusal = fenced() or wrong_type({{'meta', KEYS[2], 'hash'}})
if refusal then return refusal end
redis.call('HSET', KEYS[2], 'types', ARGV[2])
return {'settled', 1}
