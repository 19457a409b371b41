#!lua flags=allow-oom
-- bull_mark: keeps Bull 4's workers from their own stalled check, and once an interval marks all active jobs, as they would.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set of the ids that are marked; a worker takes out the one whose lock it makes or renews
-- KEYS[3]  active    list
-- KEYS[4]  stalled-check  string; while it exists no worker checks
-- KEYS[5]  meta      hash of ours; field `marked`: when the set was last made, ms
-- KEYS[6+] keys that only BullMQ has: events, marker, prioritized, pc; a hash there is a job of Bull that is called so
-- ARGV[1]  token
-- ARGV[2]  interval  ms
-- ARGV[3]  hold      ms that stalled-check lives at the least; '' = we leave, and it ends when the next check would be due
-- Reply    {'marked', now in ms, active jobs} a new interval begins, {'held', now in ms, when it was marked}, {'left'}, {'fenced'},
--          {'type', key, found}
-- Safe     fenced; what is marked is what is active in this very step. A set that others made since (our hold had ended) counts
--          for nothing: it is made anew, so no job is found stalled before a whole interval has gone by; nor by the workers, who
--          go on by themselves when we are gone, for the hold outlives the interval that was begun. A mark that is refused when
--          the old ones are gone costs an interval and no job. Like Bull's own check it is one step over all that is active.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local wanted = {{'stalled', 'set'}, {'active', 'list'}, {'stalled-check', 'string'}, {'meta', 'hash'}}
for i = 6, #KEYS do wanted[i - 1] = {KEYS[i], 'hash'} end
for i, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local interval = tonumber(ARGV[2])
local function text(ms) return string.format('%.0f', ms) end
local ours = redis.call('GET', KEYS[4]) == 'sidecar'
local marked = tonumber(string.match(redis.call('HGET', KEYS[5], 'marked') or '', '^%d+$'))
local good = ours and marked and marked <= now
if ARGV[3] == '' then
    if ours then redis.call('SET', KEYS[4], 'sidecar', 'PX', text(good and math.max(1, marked + interval - now) or interval)) end
    return {'left'}
end
if good and now - marked < interval then
    redis.call('SET', KEYS[4], 'sidecar', 'PX', text(math.max(tonumber(ARGV[3]), marked + interval - now)))
    return {'held', text(now), text(marked)}
end
redis.call('SET', KEYS[4], 'sidecar', 'PX', text(math.max(tonumber(ARGV[3]), interval)))
local active = redis.call('LRANGE', KEYS[3], 0, -1)
redis.call('DEL', KEYS[2])
for i = 1, #active, 5000 do redis.call('SADD', KEYS[2], unpack(active, i, math.min(i + 4999, #active))) end
redis.call('HSET', KEYS[5], 'marked', text(now))
return {'marked', text(now), #active}
