#!lua flags=allow-oom
-- bullmq_promote: moves due jobs of a BullMQ queue from delayed to where its workers take them, as BullMQ's own scripts do
-- (src/commands/includes/promoteDelayedJobs.lua), the oldest first.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of ids; score = ms * 4096 + 12 bits of a counter
-- KEYS[3]  wait      list
-- KEYS[4]  paused    list; in BullMQ 5 in place of wait while the queue is paused
-- KEYS[5]  of bullmq hash `meta`; see prologue/bullmq_meta.lua
-- KEYS[6]  prioritized  zset
-- KEYS[7]  pc        string: counter of jobs with a priority
-- KEYS[8]  marker    zset on which workers wait
-- KEYS[9]  events    stream of BullMQ
-- KEYS[10] active    list
-- KEYS[11] meta      the sidecar's hash; field `group`, if any, is the owner
-- KEYS[12] aside     the sidecar's zset, the quarantine: ids that name no job -> when they were added, ms
-- ARGV[1]  token
-- ARGV[2]  group     the caller's
-- ARGV[3]  batch     1 to 1000
-- ARGV[4]  prefix    of the queue's keys, `bull:video:`
-- ARGV[5]  later     ms by which an id without a job is postponed
-- Reply    as promote
-- Optional SORT
-- Uses     types, fence, bullmq_meta, rights, clock
-- Safe     fenced; checks every key and right before the first write, and every job hash before it moves the id. Adds before it
--          removes. Only listeners miss an event, so a stream without further ids keeps no job from its move. All job keys begin with
--          the prefix, so the right to one stands for all.
local redis = redis -- a local name is faster in the loops
local wanted = {{'delayed', KEYS[2], 'zset'}, {'wait', KEYS[3], 'list'}, {'paused', KEYS[4], 'list'}, {KEYS[5], KEYS[5], 'hash'},
    {'prioritized', KEYS[6], 'zset'}, {'pc', KEYS[7], 'string'}, {'marker', KEYS[8], 'zset'}, {'events', KEYS[9], 'stream'},
    {'active', KEYS[10], 'list'}, {'meta', KEYS[11], 'hash'}, {'aside', KEYS[12], 'zset'}}
local began = clock_us()
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local owner = redis.call('HGET', KEYS[11], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end
local queue = bullmq_meta(KEYS[5], KEYS[3], KEYS[4])
refusal = bullmq_unfit(queue, KEYS[5])
if refusal then return refusal end
local time = redis.call('TIME')
local now_us = string.format('%s%06d', time[1], time[2])
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local batch, prefix = tonumber(ARGV[3]), ARGV[4]
local fixed = us_since(began)
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_ms * 4096 + 4095), 'LIMIT', 0, batch)
local count = #ids
if count == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, '', 0, 0} end
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]

-- BullMQ writes a priority into every job, so only an id without one may name no job. SORT reads all priorities at a third of the cost
-- of HGET, but Redis refuses SORT in a Cluster and to users who may not read every key.
local priorities = {}
if count >= 32 and not string.find(prefix, '*', 1, true) then
    priorities = redis.pcall('SORT', KEYS[2], 'BY', 'nosort', 'LIMIT', 0, count, 'GET', prefix .. '*->priority')
end
local each, plain, ranked, no_jobs, moved = #priorities ~= count, {}, {}, {}, {}
local usual = 0 -- so many at the head are jobs without a priority: if all are, there is nothing to sort
while usual < count and priorities[usual + 1] == '0' do usual = usual + 1 end
if usual == count then plain, moved = ids, ids end
for i = 1, usual < count and count or 0 do
    local id, priority = ids[i], priorities[i]
    if each or not priority then
        priority = redis.pcall('HGET', prefix .. id, 'priority')
        if not priority and redis.call('HEXISTS', prefix .. id, 'name') == 1 then priority = '0' end
        if type(priority) == 'table' and not string.find(priority.err, 'WRONGTYPE', 1, true) then return priority end
    end
    if type(priority) ~= 'string' then -- not a hash, or not a job
        no_jobs[#no_jobs + 1] = id
    else
        moved[#moved + 1] = id
        local number = priority ~= '0' and tonumber(priority) or 0
        if number == 0 or number ~= number then
            plain[#plain + 1] = id
        else
            ranked[#ranked + 1], ranked[#ranked + 2] = number, id
        end
    end
end
local orders, odd, some = #ranked > 0, #no_jobs > 0, #moved > 0
local wakes = some and not queue.rests(redis.call('LLEN', KEYS[10]))
refusal = missing_right({{'HSET', some and prefix .. ids[1]}, {'LPUSH', #plain > 0 and queue.target}, {'XADD', some and KEYS[9]},
    {'ZADD', orders and KEYS[6]}, {'SET', orders and KEYS[7]}, {'ZADD', wakes and KEYS[8]}, {'ZREMRANGEBYRANK', not odd and KEYS[2]},
    {'ZADD', odd and KEYS[12]}, {'ZADD', odd and KEYS[2]}, {'ZREM', odd and KEYS[2]}})
if refusal then return refusal end

if #plain > 0 then redis.call('LPUSH', queue.target, unpack(plain)) end
if orders then
    local counter = bullmq_number(KEYS[7])
    for i = 1, #ranked, 2 do
        counter = counter + 1
        ranked[i] = bullmq_score(ranked[i], counter)
    end
    redis.call('SET', KEYS[7], string.format('%.0f', counter))
    redis.call('ZADD', KEYS[6], unpack(ranked))
end
-- BullMQ's script trims no events. Others of its scripts do, but they may not run while no worker does: so the last event trims.
for i = 1, #moved - 1 do redis.pcall('XADD', KEYS[9], '*', 'event', 'waiting', 'jobId', moved[i], 'prev', 'delayed') end
if some then redis.pcall('XADD', KEYS[9], 'MAXLEN', '~', queue.most, '*', 'event', 'waiting', 'jobId', moved[#moved], 'prev', 'delayed') end
for i = 1, #moved do redis.call('HSET', prefix .. moved[i], 'delay', '0') end
if wakes then redis.call('ZADD', KEYS[8], 0, '0') end
if odd then
    local since, later = string.format('%.0f', now_ms), string.format('%.0f', (now_ms + tonumber(ARGV[5])) * 4096)
    local quarantine, postponed = {}, {'XX'}
    for _, id in ipairs(no_jobs) do
        quarantine[#quarantine + 1], quarantine[#quarantine + 2] = since, id
        postponed[#postponed + 1], postponed[#postponed + 2] = later, id
    end
    redis.call('ZADD', KEYS[12], unpack(quarantine))
    redis.call('ZADD', KEYS[2], unpack(postponed))
    if some then redis.call('ZREM', KEYS[2], unpack(moved)) end
else
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, count - 1)
end
return {'moved', #moved, now_us, oldest, 0, 0, '', 0, '', us_since(began), fixed}
