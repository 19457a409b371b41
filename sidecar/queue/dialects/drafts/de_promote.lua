#!lua flags=allow-oom
-- de_promote: dispatches due events of fred84's delayedQueue: pushes each envelope and schedules its next attempt.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset of `<class>###<id>`, score = due time in ms
-- KEYS[3]  events    hash: the same -> envelope
-- KEYS[4]  meta      hash of ours; `group` names the owner
-- KEYS[5]  aside     zset of ours: members for the monitor -> when that was, ms
-- KEYS[6+] ready     list of each class
-- ARGV[1]  token
-- ARGV[2]  group
-- ARGV[3]  batch     1 to 1000
-- ARGV[4]  attempts  that an event gets in all
-- ARGV[5]  later     ms by which what the monitor must look at is put off
-- ARGV[6]  payload   bytes; a larger envelope is the monitor's
-- ARGV[7]  steps     how many pairs of delays follow
-- ARGV[8+] two for each step: attempts below this, wait so many ms; then the class of each list in KEYS[6+]
-- Reply    as promote
-- Safe     fenced, and atomic with the compare: what is scheduled is what was read. Pushes come first; nothing is removed but
--          members without an envelope. Only the digits of `attempt` change, in the exact shape that Jackson writes: a tail
--          `,"type":"C","attempt":N,"logContext":{}}` of a JSON text is the tail of its outermost object, for no quote in it is
--          escaped. Every other shape is the monitor's. The last attempt's score ends in .5: from it the next look knows that
--          this event has had its last push.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local classes, steps = {}, tonumber(ARGV[7])
for i = 2, #KEYS do
    local want = ({nil, 'zset', 'hash', 'hash', 'zset'})[i] or 'list'
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= want then return {'type', ({nil, 'delayed', 'events', 'meta', 'aside'})[i] or 'ready', found} end
    if i > 5 then
        local name = ARGV[7 + 2 * steps + i - 5]
        classes[name] = {key = KEYS[i], lead = ',"type":"' .. name .. '","attempt":'}
    end
end
local owner = redis.call('HGET', KEYS[4], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end
local time = redis.call('TIME')
local now_us = string.format('%s%06d', time[1], time[2])
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now) .. '.999', 'LIMIT', 0, ARGV[3])
if #due == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, ''} end
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local envelopes = redis.call('HMGET', KEYS[3], unpack(due))

local limit, most = tonumber(ARGV[4]), tonumber(ARGV[6])
local TAIL = ',"logContext":{}}'
local scores_of = {} -- of each attempt, as far as they were asked for: when the one after it is due
local function score_after(attempt)
    local delay
    for i = 8, 6 + 2 * steps, 2 do
        delay = tonumber(ARGV[i + 1])
        if attempt + 1 < tonumber(ARGV[i]) then break end
    end
    scores_of[attempt] = string.format('%.0f', now + delay) .. (attempt + 1 < limit and '' or '.5')
    return scores_of[attempt]
end
local find, match, sub = string.find, string.match, string.sub
-- Where the digits of `attempt` stand, and what they say; nil for any other shape.
local function attempt_of(envelope, lead)
    local size = #envelope
    if size > most then return nil end
    local digits = match(envelope, '^"attempt":([1-9]%d?%d?%d?%d?),"logContext":{}}$', size - #TAIL - 10)
    for longer = 1, 4 do
        if digits then break end
        digits = match(envelope, '^"attempt":([1-9]%d?%d?%d?%d?),"logContext":{}}$', size - #TAIL - 10 - longer)
    end
    if not digits then return nil end
    local last = size - #TAIL - #digits
    if find(envelope, lead, last - #lead + 1, true) ~= last - #lead + 1 then return nil end
    return last, digits
end
local gone, odd, scores, fields, moved, bytes = {}, {}, {}, {}, 0, 0
for i = 1, #due do
    local member, envelope = due[i], envelopes[i]
    local cut = find(member, '###', 1, true)
    local class = cut and classes[sub(member, 1, cut - 1)]
    if not envelope then
        gone[#gone + 1] = member
    else
        local last, digits
        if class then last, digits = attempt_of(envelope, class.lead) end
        local attempt = tonumber(digits)
        local before = attempt and attempt >= limit and attempt > 1 and redis.call('ZSCORE', KEYS[2], member)
        if not attempt or (before and find(before, '.5', 1, true)) then
            odd[#odd + 1] = member
        else
            moved, bytes = moved + 1, bytes + #envelope
            class[#class + 1] = envelope
            scores[2 * moved - 1] = scores_of[attempt] or score_after(attempt)
            scores[2 * moved] = member
            fields[2 * moved - 1] = member
            fields[2 * moved] = sub(envelope, 1, last) .. attempt + 1 .. sub(envelope, last + #digits + 1)
        end
    end
end
for _, class in pairs(classes) do
    if #class > 0 then redis.call('LPUSH', class.key, unpack(class)) end
end
if moved > 0 then
    redis.call('HSET', KEYS[3], unpack(fields))
    redis.call('ZADD', KEYS[2], unpack(scores))
end
if #odd > 0 then
    local aside = {}
    for _, member in ipairs(odd) do
        aside[#aside + 1] = string.format('%.0f', now)
        aside[#aside + 1] = member
        -- by a whole number of ms, so that .5 stays
        redis.call('ZADD', KEYS[2], 'XX', 'INCR', string.format('%.0f',
            math.max(0, now + tonumber(ARGV[5]) - math.floor(tonumber(redis.call('ZSCORE', KEYS[2], member))))), member)
    end
    redis.call('ZADD', KEYS[5], unpack(aside))
end
if #gone > 0 then redis.call('ZREM', KEYS[2], unpack(gone)) end
return {'moved', moved, now_us, oldest, bytes, 0, '', 0, ''}
