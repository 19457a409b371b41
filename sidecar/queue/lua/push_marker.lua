#!lua flags=allow-oom
-- push_marker: pushes a new marker to the head of a backup list, after a scan that met no marker.
--
-- KEYS[1]  lock
-- KEYS[2]  backup    list
-- KEYS[3]  sentinel  hash {random, n}
-- ARGV[1]  token
-- ARGV[2]  n         that the scan read; '' = none
-- ARGV[3]  random    32 hex digits that the scan read; new ones if the hash is absent
-- ARGV[4]  entry     the marker, which the dialect makes from `random` and n + 1
-- Reply    {'pushed', n}, {'other', n} another instance pushed one first, {'empty'}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, rights
-- Safe     fenced, by compare; the list gets one entry. Writes the hash before the push: a marker without its hash would
--          look like a job.
local refusal = fenced() or wrong_type({{'backup', KEYS[2], 'list'}, {'sentinel', KEYS[3], 'hash'}})
if refusal then return refusal end
local n = string.match(redis.call('HGET', KEYS[3], 'n') or '', '^%d+$') or ''
if n ~= ARGV[2] then return {'other', n} end
if redis.call('LLEN', KEYS[2]) == 0 then return {'empty'} end
local random = redis.call('HGET', KEYS[3], 'random') or ''
if #random == 32 and not string.find(random, '%X') and random ~= ARGV[3] then return {'other', n} end
local next_n = string.format('%.0f', (tonumber(n) or 0) + 1)
refusal = missing_right({{'HSET', KEYS[3]}, {'LPUSH', KEYS[2]}})
if refusal then return refusal end
redis.call('HSET', KEYS[3], 'random', ARGV[3], 'n', next_n)
redis.call('LPUSH', KEYS[2], ARGV[4])
return {'pushed', next_n}
