#!lua flags=allow-oom
-- bull_promote: moves due jobs of a Bull 4 queue from delayed to the list that its workers take from, the oldest first.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of ids; score = ms * 4096 + 12 bits of a counter
-- KEYS[3]  wait      list
-- KEYS[4]  paused    list, in place of wait while meta-paused exists
-- KEYS[5]  meta-paused
-- KEYS[6]  priority  zset of the waiting jobs that have a priority
-- KEYS[7]  active    list
-- KEYS[8]  meta      the sidecar's hash; field `group`, if any, is the owner
-- KEYS[9]  aside     the sidecar's zset, the quarantine: ids that name no job -> when they were added, ms
-- KEYS[10+] keys that only BullMQ has; see bull_mark
-- ARGV[1]  token
-- ARGV[2]  group     the caller's
-- ARGV[3]  batch     1 to 1000
-- ARGV[4]  limit     of the target's length; 0 = none
-- ARGV[5]  prefix    of the queue's keys, `bull:video:`
-- ARGV[6]  later     ms by which an id without a job is postponed
-- ARGV[7]  work      the batch ends after inserts by priority have walked over this many entries
-- Reply    as promote
-- Optional PUBLISH, PUBSUB, SORT
-- Uses     types, fence, bullmq, rights, clock
-- Safe     fenced; checks every key and right before the first write, and every job hash before it moves the id. Adds before it
--          removes. PUBLISH comes last, by pcall: an error between push and removal would double jobs. All job keys begin with the
--          prefix, so the right to one stands for all.
local wanted = {{'delayed', KEYS[2], 'zset'}, {'wait', KEYS[3], 'list'}, {'paused', KEYS[4], 'list'},
    {'meta-paused', KEYS[5], 'string'}, {'priority', KEYS[6], 'zset'}, {'active', KEYS[7], 'list'}, {'meta', KEYS[8], 'hash'},
    {'aside', KEYS[9], 'zset'}}
local began = clock_us()
local refusal = fenced() or wrong_type(wanted) or bullmq({unpack(KEYS, 10)})
if refusal then return refusal end
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
local fixed = us_since(began) -- and further down what does not depend on the batch
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_ms * 4096 + 4095), 'LIMIT', 0, batch)
local count = #ids
if count == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, '', 0, 0} end
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]

-- Priorities. Bull writes one into every job, so an id without a priority may name no job: check it by HGET and HEXISTS. SORT reads all
-- priorities at a third of the cost of HGET, but Redis refuses SORT in a Cluster and to users who may not read every key.
local prefix, priorities = ARGV[5], {}
if count >= 32 and not string.find(prefix, '*', 1, true) then
    priorities = redis.pcall('SORT', KEYS[2], 'BY', 'nosort', 'LIMIT', 0, count, 'GET', prefix .. '*->priority')
end
local each, plain_only = #priorities ~= count, true
for i = 1, count do
    local priority = priorities[i]
    if each or not priority then
        priority = redis.pcall('HGET', prefix .. ids[i], 'priority')
        if not priority and redis.call('HEXISTS', prefix .. ids[i], 'name') == 1 then priority = '0' end
        if type(priority) == 'table' and not string.find(priority.err, 'WRONGTYPE', 1, true) then return priority end
        if type(priority) ~= 'string' then priority = false end -- not a hash, or not a job
        priorities[i] = priority
    end
    if priority ~= '0' then plain_only = false end
end

local active, built = false, KEYS[9] .. ':none' -- built: the key of a list that replaces the target
local listing = clock_us()
if redis.call('LLEN', KEYS[7]) > 0 then -- Bull removes a promoted id from active, too
    active = {}
    for _, id in ipairs(redis.call('LRANGE', KEYS[7], 0, -1)) do active[id] = true end
end
fixed = fixed + us_since(listing)
local ranked = not plain_only
refusal = missing_right({{'HSET', prefix .. ids[1]}, {'LPUSH', target}, {'ZREMRANGEBYRANK', KEYS[2]}, {'LREM', active and KEYS[7]},
    {'ZADD', ranked and KEYS[6]}, {'ZCOUNT', ranked and KEYS[6]}, {'ZMSCORE', ranked and KEYS[6]}, {'LRANGE', ranked and target},
    {'LINDEX', ranked and target}, {'LINSERT', ranked and target}, {'RPUSH', ranked and target}, {'LPUSH', ranked and built},
    {'RENAME', ranked and built, target}, {'ZADD', ranked and KEYS[9]}, {'ZADD', ranked and KEYS[2]}, {'ZREM', ranked and KEYS[2]}})
if refusal then return refusal end
local moved, no_jobs, plain = ids, {}, {}
if plain_only then
    for i = 1, count do redis.call('HSET', prefix .. ids[i], 'delay', '0') end
    redis.call('LPUSH', target, unpack(ids))
else
    moved = {}
    local work = tonumber(ARGV[7])
    local function flush()
        if #plain > 0 then length = redis.call('LPUSH', target, unpack(plain)) end
        plain = {}
    end
    -- As Bull 4: behind jobs of the same or a lower number, counted from the end that workers take from.
    local function insert(id, priority)
        flush()
        redis.call('ZADD', KEYS[6], string.format('%.17g', priority), id)
        local at = length - redis.call('ZCOUNT', KEYS[6], 0, string.format('%.17g', priority)) + 1
        local pivot = redis.call('LINDEX', target, at)
        if pivot then
            length = redis.call('LINSERT', target, 'BEFORE', pivot, id)
            work = work - (at < 0 and length + at or at)
        else
            length = redis.call('RPUSH', target, id)
        end
    end
    -- Builds the whole list at once, because each insert walks over the list from its head. Returns nothing if inserts are cheaper, or
    -- if only inserts give Bull's order: an id is in the list twice, or the zset `priority` does not match the list.
    local function merged()
        local jobs, classes, urgent, there = {}, {}, 0, {}
        for i = 1, count do
            local number = priorities[i] and tonumber(priorities[i]) or 0
            if number < 0 then return end
            if number > 0 then
                if not jobs[number] then
                    jobs[number] = {}
                    classes[#classes + 1] = number
                end
                table.insert(jobs[number], ids[i])
                urgent = urgent + 1
            end
        end
        if urgent < 8 or length > 20 * urgent then return end
        local list, known, scores = redis.call('LRANGE', target, 0, -1), {}, {}
        for _, id in ipairs(list) do
            if there[id] then return end
            there[id] = true
        end
        for i = 1, count do
            if there[ids[i]] then return end
        end
        table.sort(classes)
        local new, from = {}, length -- from the right: the lowest number first, and of equal ones the oldest
        for _, number in ipairs(classes) do
            local score = string.format('%.17g', number)
            local bound = length - redis.call('ZCOUNT', KEYS[6], 0, score)
            if bound < 0 then return end
            for i = from, bound + 1, -1 do new[#new + 1] = list[i] end
            from = bound
            for _, id in ipairs(jobs[number]) do
                new[#new + 1] = id
                known[#known + 1] = id
                scores[#scores + 1] = score
                scores[#scores + 1] = id
            end
        end
        for _, score in ipairs(redis.call('ZMSCORE', KEYS[6], unpack(known))) do
            if score then return end
        end
        for i = from, 1, -1 do new[#new + 1] = list[i] end
        return new, scores
    end
    local new, scores = merged()
    for i = 1, count do
        local id, priority = ids[i], priorities[i]
        if not priority then
            no_jobs[#no_jobs + 1] = id
        else
            priority = tonumber(priority) or 0
            redis.call('HSET', prefix .. id, 'delay', '0')
            moved[#moved + 1] = id
            if priority == 0 or priority ~= priority then
                table.insert(new or plain, id)
            elseif not new then
                insert(id, priority)
            end
        end
        if work < 0 then
            count = i
            break
        end
    end
    flush()
    if new then
        redis.call('ZADD', KEYS[6], unpack(scores))
        for i = 1, #new, 5000 do redis.call('LPUSH', built, unpack(new, i, math.min(i + 4999, #new))) end
        redis.call('RENAME', built, target) -- the new list holds all of the old one
    end
end
if #no_jobs > 0 then
    local since, later = string.format('%.0f', now_ms), string.format('%.0f', (now_ms + tonumber(ARGV[6])) * 4096)
    local quarantine, postponed = {}, {'XX'}
    for _, id in ipairs(no_jobs) do
        quarantine[#quarantine + 1], quarantine[#quarantine + 2] = since, id
        postponed[#postponed + 1], postponed[#postponed + 2] = later, id
    end
    redis.call('ZADD', KEYS[9], unpack(quarantine))
    redis.call('ZADD', KEYS[2], unpack(postponed))
    if #moved > 0 then redis.call('ZREM', KEYS[2], unpack(moved)) end
else
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, count - 1)
end
for i = 1, active and #moved or 0 do
    if active[moved[i]] then redis.call('LREM', KEYS[7], 0, moved[i]) end
end
-- Bull receives `waiting@...` by psubscribe only, so skip the messages if no client has a pattern.
local patterns = redis.pcall('PUBSUB', 'NUMPAT')
if type(patterns) == 'table' or patterns > 0 then
    for _, id in ipairs(moved) do redis.pcall('PUBLISH', KEYS[3] .. 'ing@sidecar', id) end
end
if #ids < batch then -- Bull's workers set a timer for the next due time
    local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
    if head then redis.pcall('PUBLISH', KEYS[2], string.format('%.0f', math.ceil(tonumber(head) / 4096))) end
end
return {'moved', #moved, now_us, oldest, 0, 0, '', 0, '', us_since(began), fixed}
