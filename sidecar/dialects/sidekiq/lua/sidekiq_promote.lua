#!lua flags=allow-oom
-- sidekiq_promote: moves due jobs from a zset of Sidekiq to the lists of their queues, each with one enqueued_at, the oldest first.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of jobs, score = due time in seconds
-- KEYS[3]  meta      hash; its field `group`, if any, is the owner
-- KEYS[4]  queues    set of the names of Sidekiq's queues
-- KEYS[5+] lists     of the queues
-- ARGV[1]  token
-- ARGV[2]  owner     the caller's group
-- ARGV[3]  batch     most jobs
-- ARGV[4]  payload   bytes; larger entries stay
-- ARGV[5]  skip      entries at the head that stay, as is known already
-- ARGV[6]  bytes     the batch ends after this many
-- ARGV[7]  first     entries of the first read; few while sizes are unknown
-- ARGV[8+] names     of the queues, in the order of their lists
-- Reply    as promote, for one queue; behind it the number of entries that stay because they are no jobs of these queues, and the queue that
--          the first of them names
-- Uses     types, fence, rights, clock
-- Safe     fenced; checks types and rights before the first write; jobs leave delayed after they are added. Sidekiq's own poller takes a job
--          out of the zset in one step, too, so one of both has it.
local STEP = 128
local time = redis.call('TIME')
local began = clock_us(time)
local delayed = KEYS[2]
local wanted = {{'delayed', delayed, 'zset'}, {'meta', KEYS[3], 'hash'}, {'queues', KEYS[4], 'set'}}
local rights, lists, names = {{'ZREM', delayed}, {'SADD', KEYS[4]}}, {}, {}
for i = 5, #KEYS do
    wanted[#wanted + 1] = {KEYS[i], KEYS[i], 'list'}
    rights[#rights + 1] = {'LPUSH', KEYS[i]}
    lists[ARGV[i + 3]] = KEYS[i]
end
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local owner = redis.call('HGET', KEYS[3], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end
refusal = missing_right(rights)
if refusal then return refusal end
local now_us = string.format('%s%06d', time[1], time[2])
local batch, payload, skip, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local till = string.format('%s.%06d', time[1], time[2])

-- The end of the string that begins at `from`.
local function string_end(text, from)
    local at = from
    repeat
        at = string.find(text, '["\\]', at + 1)
        if at and string.byte(text, at) == 92 then at = at + 1 else return at end
    until false
end
-- First and last byte of the values of these members of the object. nil: one of them is there twice, or is no number.
local COUNTS = {created_at = true, enqueued_at = true, queue = true}
local function tokens_of(text)
    local found, depth, at = {}, 0, 1
    while true do
        at = string.find(text, '["{}%[%]]', at)
        if not at then return found end
        local byte = string.byte(text, at)
        if byte == 34 then
            local last = string_end(text, at)
            local name = depth == 1 and string.sub(text, at + 1, last - 1)
            local value = name and COUNTS[name] and string.match(text, '^%s*:%s*()', last + 1)
            if value then
                if found[name] then return nil end
                local behind = name == 'queue' and value or string.match(text, '^[-+.%deE]+()', value)
                if not behind then return nil end
                found[name] = {value, behind}
            end
            at = last
        else
            depth = depth + ((byte == 123 or byte == 91) and 1 or -1)
        end
        at = at + 1
    end
end
-- The bytes to push, and the list. nil, and a name for people: the entry stays.
local function pushed(text)
    local ok, job = pcall(cjson.decode, text)
    if not ok or type(job) ~= 'table' or not string.find(text, '^%s*{') then return nil, '(no JSON)' end
    local name = type(job.queue) == 'string' and job.queue or '(none)'
    local found = lists[name] and tokens_of(text)
    if not found or not found.queue or (job.enqueued_at ~= nil) ~= (found.enqueued_at ~= nil) then return nil, name end
    local dated = found.created_at or found.enqueued_at
    local sample = dated and string.sub(text, dated[1], dated[2] - 1) or '1.0'
    local seconds = #sample < 12 or string.find(sample, '[.eE]')
    local now = seconds and till or string.sub(now_us, 1, -4)
    local at = found.enqueued_at
    if at then return string.sub(text, 1, at[1] - 1) .. now .. string.sub(text, at[2]), name end
    return string.match(text, '^(.*)}%s*$') .. ',"enqueued_at":' .. now .. '}', name
end
local function score_at(place) return redis.call('ZRANGE', delayed, place, place, 'WITHSCORES')[2] end

local moved, total, read, stay, oldest, named, foreign, stranger = 0, 0, 0, 0, '', {'', 0, ''}, 0, ''
local step = tonumber(ARGV[7])
repeat
    step = math.max(1, math.min(step, STEP, batch - total))
    local from = skip + stay
    local jobs = redis.call('ZRANGEBYSCORE', delayed, '-inf', till, 'LIMIT', from, step)
    local pushes, gone, staying = {}, {}, 0
    for i, job in ipairs(jobs) do
        read = read + #job
        local bytes, name
        if #job <= payload then bytes, name = pushed(job) end
        if bytes then
            if moved + #gone == 0 then oldest = score_at(from + i - 1) end
            pushes[name] = pushes[name] or {}
            table.insert(pushes[name], bytes)
            gone[#gone + 1] = job
        else
            if #job > payload and named[1] == '' then named = {score_at(from + i - 1), #job, redis.sha1hex(job)} end
            if name and foreign == 0 then stranger = string.sub(name, 1, 128) end
            foreign, staying = foreign + (name and 1 or 0), staying + 1
        end
    end
    for name, list in pairs(pushes) do
        redis.call('SADD', KEYS[4], name)
        redis.call('LPUSH', lists[name], unpack(list))
    end
    if #gone > 0 then redis.call('ZREM', delayed, unpack(gone)) end
    moved, total, stay = moved + #gone, total + #jobs, stay + staying
    local ended = #jobs < step or total >= batch or read >= most
    step = step * 8
    if read > 0 then step = math.min(step, math.ceil((most - read) * total / read)) end
until ended
return {'moved', moved, now_us, oldest, read, stay, named[1], named[2], named[3], us_since(began), 0, 0, '', foreign, stranger}
