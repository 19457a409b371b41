#!lua flags=allow-oom
-- delayed_promote: sends due events of fred84's delayedQueue: pushes each envelope and schedules its next attempt, in one step.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of `<class>###<id>`, score = due time in ms
-- KEYS[3]  events    hash: member of delayed -> envelope
-- KEYS[4]  meta      hash of the sidecar; its field `group`, if any, is the group that owns the queue; `sent`: the latest time of a
--                    send, ms, to a second (delayed_reschedule)
-- KEYS[5]  aside     zset of the sidecar, the quarantine: member that the monitor must handle -> when it was added, ms
-- KEYS[6+] ready     list of each class
-- ARGV[1]  token
-- ARGV[2]  group     of the caller
-- ARGV[3]  batch     members at most, 1 to 1000
-- ARGV[4]  first     members of the first read; few if the last envelopes were large
-- ARGV[5]  bytes     the batch ends after this many
-- ARGV[6]  payload   bytes; a larger envelope is quarantined
-- ARGV[7]  attempts  limit: the push that sets `attempt` to this is the last
-- ARGV[8]  later     ms by which a quarantined event is postponed
-- ARGV[9]  steps     number of delays that follow
-- ARGV[10+] for each delay: the attempt below which the delay applies, and the delay in ms; then the class of each list in KEYS[6+]
-- Reply    as promote; the score of the oldest is '' if the oldest was not moved
-- Uses     types, fence, rights, clock
-- Safe     fenced; checks all preconditions and rights before the first write. While the last push of an event may wait in its list,
--          only postpones the event: a list of more than 2,000 envelopes or ARGV[5] bytes is not read, and may hold any push.
--          Removes only members without an envelope. Changes only the digits of `attempt`, and only in the shape that Jackson writes: a JSON text that ends in `,"type":"C","attempt":N,"logContext":{}}` has these as the last members of
--          its outermost object, because none of the quotes is escaped. Other shapes are quarantined. Producers write whole ms as scores;
--          the fraction .5 marks an event after its last push, .25 a quarantined event, .75 both.
--          quarantine_settle and delayed_requeue mark by .25 a score that is not of a producer.
local began = clock_us()
local refusal = fenced() or wrong_type({{'delayed', KEYS[2], 'zset'}, {'events', KEYS[3], 'hash'}, {'meta', KEYS[4], 'hash'}, {'aside', KEYS[5], 'zset'}})
if refusal then return refusal end
local owner, sent = unpack(redis.call('HMGET', KEYS[4], 'group', 'sent'))
if owner and owner ~= ARGV[2] then return {'owner', owner} end
local time = redis.call('TIME')
local us = tonumber(time[2])
local now_us = string.format('%s%06d', time[1], us)
local until_us = string.format('%s%03d.%03d', time[1], math.floor(us / 1000), us % 1000)
local now = tonumber(time[1]) * 1000 + math.floor(us / 1000)

local batch, most, payload, limit = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local sub, find, match = string.sub, string.find, string.match
local DONE = ',"logContext":{}}'
local steps, classes = tonumber(ARGV[9]), {}
for i = 6, #KEYS do
    local name = ARGV[4 + 2 * steps + i]
    classes[name] = {lead = name .. '###', list = KEYS[i], before = ',"type":"' .. name .. '","attempt":', tails = {}}
end
local function class_of(member)
    local cut = find(member, '###', 1, true)
    return cut and classes[sub(member, 1, cut - 1)]
end
-- Returns the end of the envelope, this end with the next attempt, and the next score. False or nil: another shape.
local function tail_of(class, envelope)
    local digits = match(sub(envelope, -#DONE - 16), '"attempt":([1-9]%d?%d?%d?%d?),"logContext":{}}$')
    local tail = digits and class.tails[digits]
    if digits and not tail then
        local delay, after = 0, tonumber(digits) + 1
        for i = 10, 8 + 2 * steps, 2 do
            delay = tonumber(ARGV[i + 1])
            if after < tonumber(ARGV[i]) then break end
        end
        local old, later = class.before .. digits .. DONE, string.format('%.0f', now + delay)
        tail = {old = old, size = #old, next = class.before .. string.format('%.0f', after) .. DONE,
            last_push = after > 2 and class.before .. string.format('%.0f', after - 2) .. DONE,
            later = later, score = later .. (after < limit and '' or '.5'), ends = after > limit and after > 2}
        class.tails[digits] = tail
    end
    return tail and sub(envelope, -tail.size) == tail.old and tail
end
-- Returns the envelopes in a list as a set; nil = the list is too long to read.
local function read_list(key)
    local length, found, at, size, step = redis.call('LLEN', key), {}, 0, 0, 1
    while at < length do
        if length > 2000 or size > most then return nil end
        local some = redis.call('LRANGE', key, at, at + step - 1)
        for _, envelope in ipairs(some) do
            found[envelope] = true
            size = size + #envelope
        end
        at = at + #some
        step = math.max(1, math.min(step * 8, math.ceil((most - size) * at / math.max(1, size))))
    end
    return found
end
local waiting, fixed = {}, us_since(began) -- and the time for each list
local function waits(class, envelope, tail)
    if not tail.last_push then return false end
    if waiting[class.list] == nil then
        local listing = clock_us()
        waiting[class.list] = read_list(class.list) or false
        fixed = fixed + us_since(listing)
    end
    local found = waiting[class.list]
    return not found or (next(found) and found[sub(envelope, 1, -tail.size - 1) .. tail.last_push])
end

local lists, order, scores, fields = {}, {}, {}, {}
local gone, odd, moved, count, read = {}, {}, 0, 0, 0
local class, lead, size, list, tail, old, tail_size = nil, nil, 0, nil, nil, nil, 0
local oldest, step = '', math.max(1, tonumber(ARGV[4]))
repeat
    if step > batch - count then step = batch - count end
    local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', until_us, 'LIMIT', count, step)
    local envelopes = #due > 0 and redis.call('HMGET', KEYS[3], unpack(due))
    for i = 1, #due do
        local member, envelope = due[i], envelopes[i]
        if not envelope then
            gone[#gone + 1] = member
        else
            -- Most envelopes have the class and attempt of the envelope before.
            if not lead or find(member, lead, 1, true) ~= 1 then
                class = class_of(member)
                lead = class and class.lead
                size = lead and #lead or 0
                list = class and lists[class.list]
                if class and not list then
                    local found = redis.call('TYPE', class.list).ok
                    if found ~= 'none' and found ~= 'list' then return {'type', 'ready', found} end
                    list = {}
                    lists[class.list] = list
                    order[#order + 1] = class.list
                end
                tail, old, tail_size = nil, nil, 0
            end
            if class and not (old and find(envelope, old, -tail_size, true)) then
                tail = tail_of(class, envelope)
                old, tail_size = tail and tail.old, tail and tail.size or 0
            end
            read = read + #envelope
            if not class or not tail or #envelope > payload
                or (tail.ends and find(redis.call('ZSCORE', KEYS[2], member), '%.[57]5?$')) then
                odd[#odd + 1] = member
            elseif waits(class, envelope, tail) then
                scores[#scores + 1] = tail.later
                scores[#scores + 1] = member
            else
                list[#list + 1] = envelope
                local at = 2 * moved + 1
                moved = moved + 1
                scores[#scores + 1] = tail.score
                scores[#scores + 1] = member
                fields[at], fields[at + 1] = member, sub(envelope, 1, -tail_size - 1) .. tail.next
            end
        end
    end
    count = count + #due
    local ended = #due < step
    step = step * 8
    if read > 0 then step = math.max(1, math.min(step, math.ceil((most - read) * count / read))) end
until ended or count >= batch or read >= most
if count == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, '', 0, 0} end
local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if fields[1] == head[1] then oldest = head[2] end

local scored = #scores > 0 or #odd > 0
local mark = scored and now >= (tonumber(sent or 0) or 0) + 1000
local calls = {{'ZADD', scored and KEYS[2]}, {'HSET', moved > 0 and KEYS[3]}, {'HSET', mark and KEYS[4]}, {'ZADD', #odd > 0 and KEYS[5]},
    {'ZSCORE', #odd > 0 and KEYS[2]}, {'ZREM', #gone > 0 and KEYS[2]}}
for _, key in ipairs(order) do calls[#calls + 1] = {'LPUSH', #lists[key] > 0 and key} end
refusal = missing_right(calls)
if refusal then return refusal end
if mark then redis.call('HSET', KEYS[4], 'sent', string.format('%.0f', now)) end
if #scores > 0 then redis.call('ZADD', KEYS[2], unpack(scores)) end
if moved > 0 then
    for _, key in ipairs(order) do
        if #lists[key] > 0 then redis.call('LPUSH', key, unpack(lists[key])) end
    end
    redis.call('HSET', KEYS[3], unpack(fields))
end
if #odd > 0 then
    local quarantine, off = {}, {}
    for i, member in ipairs(odd) do
        local last = find(redis.call('ZSCORE', KEYS[2], member), '%.[57]5?$')
        quarantine[2 * i - 1], quarantine[2 * i] = string.format('%.0f', now), member
        off[2 * i - 1], off[2 * i] = string.format('%.0f', now + ARGV[8]) .. (last and '.75' or '.25'), member
    end
    redis.call('ZADD', KEYS[5], 'NX', unpack(quarantine))
    redis.call('ZADD', KEYS[2], unpack(off))
end
if #gone > 0 then redis.call('ZREM', KEYS[2], unpack(gone)) end
return {'moved', moved, now_us, oldest, read, 0, '', 0, '', us_since(began), fixed}
