#!lua flags=allow-oom
-- bull_promote: moves due jobs of a Bull 4 queue from delayed to where its workers wait, the oldest first.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of ids; score = ms * 4096 + 12 bits of a counter
-- KEYS[3]  wait      list
-- KEYS[4]  paused    list, takes wait's place while meta-paused exists
-- KEYS[5]  meta-paused
-- KEYS[6]  priority  zset of the waiting jobs that have a priority
-- KEYS[7]  active    list
-- KEYS[8]  meta      hash of ours; `group` names the owner
-- KEYS[9]  aside     zset of ours: ids for the monitor -> when that was, ms
-- ARGV[1]  token
-- ARGV[2]  group
-- ARGV[3]  batch     1 to 1000
-- ARGV[4]  limit     of the target's length; 0 = none
-- ARGV[5]  prefix    of the queue's keys, `bull:video:`
-- ARGV[6]  later     ms by which an id without a job is put off
-- Reply    as promote
-- Safe     fenced; every key is looked at first, and every job hash before its id is moved; adds before it removes; PUBLISH last
--          and by pcall, for nothing may stand between the push and the removal. Job keys are made of prefix and id: all begin
--          with the prefix.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local wanted = {{'delayed', 'zset'}, {'wait', 'list'}, {'paused', 'list'}, {'meta-paused', 'string'}, {'priority', 'zset'},
    {'active', 'list'}, {'meta', 'hash'}, {'aside', 'zset'}}
for i, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local owner = redis.call('HGET', KEYS[8], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end
local time = redis.call('TIME')
local now_us = string.format('%s%06d', time[1], time[2])
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local target = redis.call('EXISTS', KEYS[5]) == 1 and KEYS[4] or KEYS[3]
local length, limit, batch = redis.call('LLEN', target), tonumber(ARGV[4]), tonumber(ARGV[3])
if limit > 0 then
    if length >= limit then return {'full', now_us} end
    batch = math.min(batch, limit - length)
end
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_ms * 4096 + 4095), 'LIMIT', 0, batch)
if #ids == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, ''} end
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]

local prefix, moved, jobs, plain, odd = ARGV[5], {}, {}, {}, {}
local call, pcall = redis.call, redis.pcall
local function flush()
    if #plain == 0 then return end
    length = call('LPUSH', target, unpack(plain))
    plain = {}
end
-- As Bull 4 does: behind those of the same or a lower number, seen from the end that workers take from.
local function insert(id, priority)
    flush()
    call('ZADD', KEYS[6], priority, id)
    local at = call('ZCOUNT', KEYS[6], 0, priority)
    local pivot = call('LINDEX', target, length - (at - 1))
    if pivot then
        length = call('LINSERT', target, 'BEFORE', pivot, id)
    else
        length = call('RPUSH', target, id)
    end
end
for i = 1, #ids do
    local id = ids[i]
    local key = prefix .. id
    local priority = pcall('HGET', key, 'priority') -- Bull writes it in every job
    if not priority and call('HEXISTS', key, 'name') == 1 then priority = '0' end
    if type(priority) ~= 'string' then -- no hash, another type, or no job in it
        odd[#odd + 1] = id
    else
        moved[#moved + 1] = id
        jobs[#jobs + 1] = key
        if (tonumber(priority) or 0) == 0 then plain[#plain + 1] = id else insert(id, priority) end
    end
end
flush()
for i = 1, #jobs do call('HSET', jobs[i], 'delay', '0') end
if #odd > 0 then
    local aside, off = {}, {'XX'}
    for _, id in ipairs(odd) do
        aside[#aside + 1], off[#off + 1] = string.format('%.0f', now_ms), string.format('%.0f', (now_ms + tonumber(ARGV[6])) * 4096)
        aside[#aside + 1], off[#off + 1] = id, id
    end
    redis.call('ZADD', KEYS[9], unpack(aside))
    redis.call('ZADD', KEYS[2], unpack(off))
    if #moved > 0 then redis.call('ZREM', KEYS[2], unpack(moved)) end
else
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, #ids - 1)
end
if redis.call('LLEN', KEYS[7]) > 0 then -- Bull takes a promoted id out of active, too
    local active = {}
    for _, id in ipairs(redis.call('LRANGE', KEYS[7], 0, -1)) do active[id] = true end
    for _, id in ipairs(moved) do
        if active[id] then redis.call('LREM', KEYS[7], 0, id) end
    end
end
-- Only patterns hear `waiting@...` (Bull psubscribes); without any on this server nobody does.
local patterns = redis.pcall('PUBSUB', 'NUMPAT')
if type(patterns) == 'table' or patterns > 0 then
    for _, id in ipairs(moved) do redis.pcall('PUBLISH', KEYS[3] .. 'ing@sidecar', id) end
end
if #ids < batch then
    local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
    if head then redis.pcall('PUBLISH', KEYS[2], string.format('%.0f', math.ceil(tonumber(head) / 4096))) end
end
return {'moved', #moved, now_us, oldest, 0, 0, '', 0, ''}
