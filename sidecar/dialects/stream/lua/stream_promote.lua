#!lua flags=allow-oom
-- stream_promote: moves due jobs of one queue from delayed to its stream, the oldest first.
--
-- KEYS[1]  lock
-- KEYS[2]  delayed   zset, score = due time
-- KEYS[3]  stream    gets an entry of one field for each job; is never trimmed
-- KEYS[4]  meta      hash; its field `group`, if any, is the owner
-- ARGV[1]  token
-- ARGV[2]  owner     the caller's group
-- ARGV[3]  batch     most jobs
-- ARGV[4]  unit      'ms' or 's', of the scores
-- ARGV[5]  payload   bytes; larger entries stay
-- ARGV[6]  skip      oversized entries at the head that are known already
-- ARGV[7]  bytes     the batch ends after this many
-- ARGV[8]  first     entries of the first read; few while sizes are unknown
-- ARGV[9]  group     consumer group: without it nothing is moved
-- ARGV[10] field     of an entry, that has the job
-- Reply    as promote, for one queue
-- Uses     types, fence, rights, clock
-- Safe     fenced; checks types, rights and the group before the first write. XADD would make a stream that is gone, but without the group, whose
--          next reader may begin behind the job. Jobs leave delayed after they are added; if the stream is out of ids, those before it do.
local STEP = 128
local time = redis.call('TIME')
local began = clock_us(time)
local delayed, stream, group, field = KEYS[2], KEYS[3], ARGV[9], ARGV[10]
local refusal = fenced() or wrong_type({{'delayed', delayed, 'zset'}, {'stream', stream, 'stream'}, {'meta', KEYS[4], 'hash'}})
if refusal then return refusal end
local owner = redis.call('HGET', KEYS[4], 'group')
if owner and owner ~= ARGV[2] then return {'owner', owner} end
local entries = redis.pcall('XPENDING', stream, group, '-', '-', 1)
if entries.err then return entries end
local now_us = string.format('%s%06d', time[1], time[2])
local batch, payload, skip, most = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local digits = ARGV[4] == 's' and 6 or 3
local till = string.sub(now_us, 1, -1 - digits) .. '.' .. string.sub(now_us, -digits)
local function score_at(place) return redis.call('ZRANGE', delayed, place, place, 'WITHSCORES')[2] end
refusal = missing_right({{'ZREMRANGEBYRANK', delayed}, {'ZREM', delayed}, {'XADD', stream}})
if refusal then return refusal end

local moved, total, read, stay, oldest, named, failure = 0, 0, 0, 0, '', {'', 0, ''}, nil
-- Adds entries until one fails. Returns the jobs that were added, and how many of the others are oversized.
local function add(jobs, from)
    local added, large = {}, 0
    for i, job in ipairs(jobs) do
        read = read + #job
        if #job > payload then
            if stay + large == 0 then named = {score_at(from + i - 1), #job, redis.sha1hex(job)} end
            large = large + 1
        else
            local id = redis.pcall('XADD', stream, '*', field, job)
            failure = type(id) == 'table' and id or nil
            if failure then break end
            added[#added + 1] = job
        end
    end
    return added, large
end
local step = tonumber(ARGV[8])
repeat
    step = math.max(1, math.min(step, STEP, batch - total))
    local from = skip + stay
    local jobs = redis.call('ZRANGEBYSCORE', delayed, '-inf', till, 'LIMIT', from, step)
    local score = total == 0 and #jobs > 0 and #jobs[1] <= payload and score_at(from)
    local added, large = add(jobs, from)
    if failure and moved + #added == 0 then return failure end
    if #added == #jobs and #jobs > 0 then
        redis.call('ZREMRANGEBYRANK', delayed, from, from + #jobs - 1)
    elseif #added > 0 then
        redis.call('ZREM', delayed, unpack(added))
    end
    oldest = score or oldest
    moved, total, stay = moved + #added, total + #jobs, stay + large
    local ended = failure or #jobs < step or total >= batch or read >= most
    step = step * 8
    if read > 0 then step = math.min(step, math.ceil((most - read) * total / read)) end
until ended
return {'moved', moved, now_us, oldest, read, stay, named[1], named[2], named[3], us_since(began), 0}
