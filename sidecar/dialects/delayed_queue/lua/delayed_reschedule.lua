#!lua flags=allow-oom
-- delayed_reschedule: after Redis's clock was set back, gives events that were sent while the clock was ahead the time that they would
-- have if they were sent now. Reads one page; a pass of several pages reads all events.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset
-- KEYS[3]  events    hash: member -> envelope
-- KEYS[4]  meta      hash; field `sent`: the latest time of a send, ms (delayed_promote); later than now = the clock was set back
-- KEYS[5]  aside     zset of the sidecar: quarantined member -> when it was added, ms
-- ARGV[1]  token
-- ARGV[2]  began     what the last page has returned; '' = begin a pass if the clock was set back, or if nobody knows
-- ARGV[3]  from      score, as the last page has returned it; '' = from the lowest
-- ARGV[4]  skip      members of this score to skip, as the last page has returned it
-- ARGV[5]  count     members at most
-- ARGV[6]  bytes     the page ends after this many
-- ARGV[7]  later     ms by which delayed_promote postpones a quarantined event
-- ARGV[8+] for each delay: the attempt below which the delay applies, and the delay in ms
-- Reply    {'settled', changed members, began, from, skip}; began is '' after the last page
--          {'fenced'}, {'type', key, found}
-- Uses     types, fence, now, rights
-- Safe     fenced; checks the rights before the first write. Only brings scores forward, never below now + delay: so no event comes
--          sooner than a delay after it was sent. Changes a score only if a send has set it: the attempt is above 1, or the score
--          has a fraction. Producers write whole ms and attempt 1, and may schedule an event for any time.
local refusal = fenced() or wrong_type({{'delayed', KEYS[2], 'zset'}, {'events', KEYS[3], 'hash'}, {'meta', KEYS[4], 'hash'}, {'aside', KEYS[5], 'zset'}})
if refusal then return refusal end
local now, count, most = tonumber(now_ms()), tonumber(ARGV[5]), tonumber(ARGV[6])
local sent = redis.call('HGET', KEYS[4], 'sent') or ''
if ARGV[2] == '' and sent ~= '' and now >= (tonumber(sent) or math.huge) then return {'settled', 0, '', '', 0} end
local began = ARGV[2] ~= '' and ARGV[2] or 'after ' .. sent

local later = tonumber(ARGV[7])
local shortest, longest = later, later
for i = 8, #ARGV, 2 do
    shortest = math.min(shortest, tonumber(ARGV[i + 1]))
    longest = math.max(longest, tonumber(ARGV[i + 1]))
end
local function delay_of(attempt)
    local delay = 0
    for i = 8, #ARGV, 2 do
        delay = tonumber(ARGV[i + 1])
        if attempt < tonumber(ARGV[i]) then break end
    end
    return delay
end
-- Returns the longest time that a send may have set; nil = the application has set it.
local function longest_wait(member, envelope, fraction)
    if fraction and redis.call('ZSCORE', KEYS[5], member) then return later end
    local attempt = string.match(string.sub(envelope, -40), '"attempt":([1-9]%d?%d?%d?%d?),"logContext":{}}$')
    if attempt and tonumber(attempt) > 1 then return delay_of(tonumber(attempt)) end
    return fraction and longest
end
local function text(number) return string.format('%.0f', number) end

local from, skip, read, ended = ARGV[3], tonumber(ARGV[4]), 0, true
local scores, since = {}, {}
local page = redis.call('ZRANGEBYSCORE', KEYS[2], from ~= '' and from or '(' .. text(now + shortest), '+inf', 'WITHSCORES', 'LIMIT', skip, count)
for i = 1, #page, 2 do
    local member, score = page[i], page[i + 1]
    local envelope = redis.call('HGET', KEYS[3], member) or ''
    local fraction = string.match(score, '%.[27]?5$')
    local wait = longest_wait(member, envelope, fraction)
    read = read + #member + #envelope
    if wait and tonumber(score) >= now + wait + 1 then
        scores[#scores + 1] = text(now + wait) .. (fraction or '')
        scores[#scores + 1] = member
    else
        skip = score == from and skip + 1 or 1
        from = score
    end
    if read >= most then
        ended = false
        break
    end
end
local future = redis.call('ZRANGEBYSCORE', KEYS[5], '(' .. text(now), '+inf', 'LIMIT', 0, count)
for _, member in ipairs(future) do
    since[#since + 1] = text(now)
    since[#since + 1] = member
end
ended = ended and #page < 2 * count and #future < count
local mark = ended and began == 'after ' .. sent -- otherwise the clock went ahead again meanwhile: another pass follows

refusal = missing_right({{'ZADD', #scores > 0 and KEYS[2]}, {'ZADD', #since > 0 and KEYS[5]}, {'HSET', mark and KEYS[4]}})
if refusal then return refusal end
if #scores > 0 then redis.call('ZADD', KEYS[2], 'XX', unpack(scores)) end
if #since > 0 then redis.call('ZADD', KEYS[5], 'XX', unpack(since)) end
if mark then redis.call('HSET', KEYS[4], 'sent', text(now)) end
return {'settled', (#scores + #since) / 2, ended and '' or began, from, skip}
