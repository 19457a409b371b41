#!lua flags=allow-oom
-- promote: moves due jobs from delayed to ready, the oldest first, in one step.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset, score = due time
-- KEYS[3]  ready     list; jobs are pushed on the left, workers take from the right
-- KEYS[4]  meta      hash of the queue; its field `group`, if any, is the owner
-- ARGV[1]  token
-- ARGV[2]  group     the caller's
-- ARGV[3]  batch     most jobs, 1 to 5000 (unpack fails near 8000)
-- ARGV[4]  unit      'ms' or 's', of the scores
-- ARGV[5]  limit     of ready's length; 0 = none
-- ARGV[6]  payload   bytes; larger entries stay
-- ARGV[7]  skip      oversized entries at the head that are known already
-- ARGV[8]  bytes     the batch ends after this many
-- ARGV[9]  first     entries of the first read; few while sizes are unknown
-- Reply    {'moved', jobs, now in us, score of the oldest job or '', bytes read, oversized entries, and of the first of
--          these: score, bytes, SHA-1; the us that the script took, and of these the us that a smaller batch would take, too}
--          {'full', now in us}  ready is at its limit
--          {'fenced'}           the lock is not the caller's
--          {'owner', group}     the queue belongs to another group
--          {'type', key, found} `delayed`, `ready` or `meta` has a wrong type
-- Uses     types, fence, rights, clock
-- Safe     fenced; checks all preconditions and rights before the first write. One LPUSH of all jobs, then one removal: after a
--          failure the jobs are in delayed. Reads begin at -inf, so that an offset in the range is a rank in delayed.
local began = clock_us()
local refusal = fenced() or wrong_type({{'delayed', KEYS[2], 'zset'}, {'ready', KEYS[3], 'list'}, {'meta', KEYS[4], 'hash'}})
if refusal then return refusal end
local owner = redis.call('HGET', KEYS[4], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end

local time = redis.call('TIME')
local us = tonumber(time[2])
local now_us = string.format('%s%06d', time[1], us)
local now = string.format('%s.%06d', time[1], us)
if ARGV[4] == 'ms' then now = string.format('%s%03d.%03d', time[1], math.floor(us / 1000), us % 1000) end

local batch, limit, skip = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[7])
if limit > 0 then
    local room = limit - redis.call('LLEN', KEYS[3])
    if room < 1 then return {'full', now_us} end
    if room < batch then batch = room end
end
-- The size of an entry is unknown until the entry is read, so steps grow, and stay small while entries are huge.
local payload, most, step = tonumber(ARGV[6]), tonumber(ARGV[8]), math.max(1, tonumber(ARGV[9]))
local jobs, read, large, count = {}, 0, 0, 0
local fixed = us_since(began)
repeat
    if step > batch - count then step = batch - count end
    local some = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', skip + count, step)
    for i = 1, #some do
        local job = some[i]
        local size = #job
        jobs[count + i] = job
        read = read + size
        if size > payload then large = large + 1 end
    end
    count = count + #some
    local ended = #some < step
    step = step * 8
    if read > 0 then step = math.max(1, math.min(step, math.ceil((most - read) * count / read))) end
until ended or count >= batch or read >= most
if count == 0 then return {'moved', 0, now_us, '', 0, 0, '', 0, '', 0, 0} end
local oldest = redis.call('ZRANGE', KEYS[2], skip, skip, 'WITHSCORES')[2]
refusal = missing_right({{'LPUSH', KEYS[3]}, {large == 0 and 'ZREMRANGEBYRANK' or 'ZREM', KEYS[2]}})
if refusal then return refusal end
if large == 0 then
    redis.call('LPUSH', KEYS[3], unpack(jobs))
    redis.call('ZREMRANGEBYRANK', KEYS[2], skip, skip + #jobs - 1)
    return {'moved', #jobs, now_us, oldest, read, 0, '', 0, '', us_since(began), fixed}
end
local fitting, first, rank = {}, nil, 0
for i, job in ipairs(jobs) do
    if #job <= payload then
        fitting[#fitting + 1] = job
    elseif not first then
        first, rank = job, skip + i - 1
    end
end
local score = redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES')[2]
if first == jobs[1] then oldest = '' end -- a job that stays is not late
if #fitting > 0 then
    redis.call('LPUSH', KEYS[3], unpack(fitting))
    redis.call('ZREM', KEYS[2], unpack(fitting))
end
return {'moved', #fitting, now_us, oldest, read, large, score, #first, redis.sha1hex(first), us_since(began), fixed}
