#!lua flags=allow-oom
-- bull_mark: keeps Bull 4's workers from their own stalled check, and once an interval marks all active jobs, as they would.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set
-- KEYS[3]  active    list
-- KEYS[4]  stalled-check  string; while it exists no worker checks
-- KEYS[5]  meta      hash of ours; field `marked`: when the set was last made, ms
-- KEYS[6]  recorded  zset of ours (bull_failed); `:start` is when this queue was adopted
-- ARGV[1]  token
-- ARGV[2]  interval  ms
-- ARGV[3]  hold      ms that stalled-check lives
-- Reply    {'marked', now, active jobs} a new interval begins, {'held', now, when it was marked}, {'fenced'}, {'type', key, found}
-- Safe     fenced; what is marked is what is active in this very step. A set that others made since (our hold had ended) counts
--          for nothing: it is made anew, so no job is found stalled before a whole interval has gone by.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local wanted = {{'stalled', 'set'}, {'active', 'list'}, {'stalled-check', 'string'}, {'meta', 'hash'},
    {'recorded', 'zset'}}
for i, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ours = redis.call('GET', KEYS[4]) == 'sidecar'
local marked = tonumber(string.match(redis.call('HGET', KEYS[5], 'marked') or '', '^%d+$'))
if redis.call('EXISTS', KEYS[6]) == 0 then redis.call('ZADD', KEYS[6], string.format('%.0f', now), ':start') end
redis.call('SET', KEYS[4], 'sidecar', 'PX', ARGV[3])
if ours and marked and marked <= now and now - marked < tonumber(ARGV[2]) then
    return {'held', string.format('%.0f', now), string.format('%.0f', marked)}
end
local active, there, gone = redis.call('LRANGE', KEYS[3], 0, -1), {}, {}
for i = 1, #active, 5000 do redis.call('SADD', KEYS[2], unpack(active, i, math.min(i + 4999, #active))) end
for _, id in ipairs(active) do there[id] = true end
for _, id in ipairs(redis.call('SMEMBERS', KEYS[2])) do
    if not there[id] then gone[#gone + 1] = id end
end
redis.call('HSET', KEYS[5], 'marked', string.format('%.0f', now))
for i = 1, #gone, 5000 do redis.call('SREM', KEYS[2], unpack(gone, i, math.min(i + 4999, #gone))) end
return {'marked', string.format('%.0f', now), #active}
