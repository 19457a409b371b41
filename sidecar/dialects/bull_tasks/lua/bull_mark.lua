#!lua flags=allow-oom
-- bull_mark: marks all active jobs of a Bull 4 queue once an interval, a part of active in each call, and keeps workers from their
-- own stalled check.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set of marked ids; a worker removes the id whose lock it takes or renews
-- KEYS[3]  active    list
-- KEYS[4]  stalled-check  string; while it exists no worker checks; 'sidecar' = this script wrote it
-- KEYS[5]  meta      the sidecar's hash; field `marked`: when jobs were last marked, ms; '' = some parts are not marked yet
-- KEYS[6+] keys that only BullMQ has: events, marker, prioritized, pc; or Bull 4 jobs (hashes) with these as ids
-- ARGV[1]  token
-- ARGV[2]  interval  ms
-- ARGV[3]  ttl       least ms that stalled-check lives; '' = the sidecar stops: stalled-check expires when the next check is due
-- ARGV[4]  passed    entries of active, counted from its tail, that earlier calls have marked; 0 = begin
-- ARGV[5]  count     entries to mark
-- Reply    {'marking', us that the script took, entries marked so far} there are more, {'marked', now in ms, active jobs} a new
--          interval begins, {'held', now in ms, when jobs were marked} within an interval, {'left'} the sidecar stops, {'fenced'},
--          {'type', key, found}
-- Optional UNLINK
-- Uses     types, fence, bullmq, now, rights, clock
-- Safe     fenced. The interval begins with the last part, so no job counts as stalled before a whole interval. If stalled-check had
--          expired, workers may have changed the set, so the script begins again. stalled-check outlives the interval, so workers
--          do not check earlier either. Checks rights before the first write.
-- Cost     follows `count`. Workers take jobs at the head of active. Jobs that finish shift those behind them towards the tail, so
--          parts overlap. If more than OVERLAP jobs finish between two calls, the next interval marks those that were missed.
local wanted = {{'stalled', KEYS[2], 'set'}, {'active', KEYS[3], 'list'}, {'stalled-check', KEYS[4], 'string'}, {'meta', KEYS[5], 'hash'}}
local refusal = fenced() or wrong_type(wanted) or bullmq({unpack(KEYS, 6)})
if refusal then return refusal end
local now = tonumber(now_ms())
local interval = tonumber(ARGV[2])
local function text(ms) return string.format('%.0f', ms) end
local by_sidecar = redis.call('GET', KEYS[4]) == 'sidecar'
local field = redis.call('HGET', KEYS[5], 'marked') or ''
local marked = tonumber(string.match(field, '^%d+$'))
local good = by_sidecar and marked and marked <= now
if ARGV[3] == '' then
    if by_sidecar then redis.call('SET', KEYS[4], 'sidecar', 'PX', text(good and math.max(1, marked + interval - now) or interval)) end
    return {'left'}
end
if good and now - marked < interval then
    redis.call('SET', KEYS[4], 'sidecar', 'PX', text(math.max(tonumber(ARGV[3]), marked + interval - now)))
    return {'held', text(now), text(marked)}
end

local began, OVERLAP = clock_us(), 64
local passed = by_sidecar and field == '' and tonumber(ARGV[4]) or 0
local last = passed + tonumber(ARGV[5])
local length = redis.call('LLEN', KEYS[3])
local part = redis.call('LRANGE', KEYS[3], -last, -math.max(0, passed - OVERLAP) - 1)
refusal = missing_right({{'SET', KEYS[4]}, {'DEL', KEYS[2]}, {'SADD', KEYS[2]}, {'HSET', KEYS[5]}})
if refusal then return refusal end
redis.call('SET', KEYS[4], 'sidecar', 'PX', text(math.max(tonumber(ARGV[3]), interval)))
if passed == 0 then
    redis.call('HSET', KEYS[5], 'marked', '')
    -- DEL of many marks takes long.
    if missing_right({{'UNLINK', KEYS[2]}}) then redis.call('DEL', KEYS[2]) else redis.call('UNLINK', KEYS[2]) end
end
if #part > 0 then redis.call('SADD', KEYS[2], unpack(part)) end
if last < length then return {'marking', us_since(began), last} end
redis.call('HSET', KEYS[5], 'marked', text(now))
return {'marked', text(now), length}
