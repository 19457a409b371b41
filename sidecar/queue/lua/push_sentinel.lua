#!lua flags=allow-oom
-- push_sentinel: puts a new sentinel at the head of a backup list, where a pass met none.
--
-- KEYS[1]  lock
-- KEYS[2]  backup    list
-- KEYS[3]  sentinel  hash {random, n}
-- ARGV[1]  token
-- ARGV[2]  n         what the pass read there, '' = nothing
-- ARGV[3]  random    32 hex digits: what the pass read there, or new ones for a list that never had a sentinel, or whose hash is gone
-- ARGV[4]  entry     the sentinel, made from these by the queue's dialect
-- Reply    {'planted', n}, {'other', n} somebody has planted since, {'empty'}, {'fenced'}, {'type', key, found}
-- Uses     types, fence
-- Safe     fenced, by compare; the list gets one entry. What it is known by is there before it: the other way round, one that
--          nobody knows would pass for a job.
local refusal = fenced() or wrong_type({{'backup', KEYS[2], 'list'}, {'sentinel', KEYS[3], 'hash'}})
if refusal then return refusal end
local n = string.match(redis.call('HGET', KEYS[3], 'n') or '', '^%d+$') or ''
if n ~= ARGV[2] then return {'other', n} end
if redis.call('LLEN', KEYS[2]) == 0 then return {'empty'} end
local random = redis.call('HGET', KEYS[3], 'random') or ''
if #random == 32 and not string.find(random, '%X') and random ~= ARGV[3] then return {'other', n} end
local next_n = string.format('%.0f', (tonumber(n) or 0) + 1)
redis.call('HSET', KEYS[3], 'random', ARGV[3], 'n', next_n)
redis.call('LPUSH', KEYS[2], ARGV[4])
return {'planted', next_n}
