#!lua flags=allow-oom
-- promote: moves due jobs of some queues from delayed to ready, the oldest first, in one step.
--
-- KEYS[1]  lock
-- KEYS[2+] of each queue: delayed, zset, score = due time; ready, list; meta, hash: its field `group`, if any, is the owner
-- ARGV[1]  token
-- ARGV[2]  group     the caller's
-- ARGV[3]  slice     us that the script may take; it begins the first queue anyway
-- ARGV[4+] of each queue:
--   batch     most jobs, 1 to 5000 (unpack fails near 8000)
--   unit      'ms' or 's', of the scores
--   limit     of ready's length; 0 = none
--   payload   bytes; larger entries stay
--   skip      oversized entries at the head that are known already
--   bytes     the batch ends after this many
--   first     entries of the first read; few while sizes are unknown
--   take      'right' or 'left', the end of ready from which workers take; jobs are pushed to the other end
-- Reply    {'fenced'}           the lock is not the caller's; or for each queue
--          {'moved', jobs, now in us, score of the oldest job or '', bytes read, oversized entries, and of the first of
--          these: score, bytes, SHA-1; if jobs were moved whose score is no time, then from the 12th value on: their number, and
--          the score of the first}
--          {'more', ...}        the same; the slice was over before the batch
--          {'later'}            the slice was over before this queue
--          {'full', now in us}  ready is at its limit
--          {'owner', group}     the queue belongs to another group
--          {'type', key, found} `delayed`, `ready` or `meta` has a wrong type
--          an error
-- Optional RPUSH
-- Uses     types, fence, rights, clock
-- Safe     fenced; an error of one queue leaves the others valid. A batch is some chunks: for each, one push of its jobs, then one
--          removal. The push is the first write: if Redis refuses it, for the type of `ready` say, the jobs are in delayed. The right to
--          remove is checked before. Reads begin at -inf, so that an offset in the range is a rank in delayed.
local time = redis.call('TIME')
local began = clock_us(time)
local refusal = fenced()
if refusal then return refusal end
local now_us = string.format('%s%06d', time[1], time[2])

-- Returns the time as a score, exact to the microsecond.
local function now_score(unit)
    local digits = unit == 's' and 6 or 3
    return string.sub(now_us, 1, -1 - digits) .. '.' .. string.sub(now_us, -digits)
end

-- Work is counted in small jobs. The clock costs as much as some jobs, so it is read only after LOOK of them.
local LOOK, QUEUE, KIB, CHUNK, STEP = 64, 8, 1 / 1024, 128, 16
local SCORED = 8 -- a read of so few entries also reads their scores
local slice = tonumber(ARGV[3])
local left, work, per_work = slice, 0, 1 -- us of the slice at the last look; work since; us of this work
local function add_work(more)
    work = work + more
    if work < LOOK then return end
    local before = left
    left = began + slice - clock_us()
    per_work = math.max(before - left, 1) / work
    work = 0
end

-- Reads at most `most` entries behind the first `from`. The size of an entry is unknown until the entry is read, so steps grow, and
-- stay small while entries are huge. Returns the entries, their number and bytes, whether these are the last due ones, how many are
-- oversized, and the score of the first if it was read.
local function read_chunk(delayed, till, from, step, most, bytes, payload)
    local jobs, read, large, count, score, ended = {}, 0, 0, 0, nil, false
    repeat
        step = math.max(1, math.min(step, most - count))
        local scored = count == 0 and step <= SCORED
        local some, each = nil, 1
        if scored then
            some, each = redis.call('ZRANGEBYSCORE', delayed, '-inf', till, 'WITHSCORES', 'LIMIT', from, step), 2
            score = some[2]
        else
            some = redis.call('ZRANGEBYSCORE', delayed, '-inf', till, 'LIMIT', from + count, step)
        end
        local found = #some / each
        if count == 0 and not scored then jobs = some end -- spares a copy of each
        for i = 1, found do
            local job = some[(i - 1) * each + 1]
            local size = #job
            if jobs ~= some then jobs[count + i] = job end
            read = read + size
            if size > payload then large = large + 1 end
        end
        count = count + found
        ended = found < step
        step = step * 8
        if read > 0 then step = math.min(step, math.ceil((bytes - read) * count / read)) end
    until ended or count >= most or read >= bytes
    return jobs, count, read, ended, large, score
end

local function split_chunk(jobs, payload)
    local fitting, first = {}, nil
    for i, job in ipairs(jobs) do
        if #job <= payload then
            fitting[#fitting + 1] = job
        else
            first = first or i
        end
    end
    return fitting, first
end

-- The score of a job is no time if it is above 0 and below this: see schedule.c.
local NO_TIME = {ms = 1e11, s = 1e9}

-- Returns how many of these entries are moved although their score is no time, the score of the first, and whether the next entries
-- may be such. Reads again what it needs, because such scores are rare. score: of the first entry, or nil.
local function count_early(delayed, from, count, unit, payload, score)
    local early, first, to = 0, nil, from + count - 1
    local last = tonumber(count == 1 and score or redis.call('ZRANGE', delayed, to, to, 'WITHSCORES')[2])
    local entries = last > 0 and redis.call('ZRANGE', delayed, from, to, 'WITHSCORES') or {}
    for i = 2, #entries, 2 do
        local at = tonumber(entries[i])
        if at > 0 and at < NO_TIME[unit] and #entries[i - 1] <= payload then early, first = early + 1, first or entries[i] end
    end
    return early, first, last < NO_TIME[unit]
end

local function promote(delayed, ready, meta, batch, unit, limit, payload, skip, bytes, step, take)
    local owner = redis.call('HGET', meta, 'group')
    if owner and owner ~= ARGV[2] then return {'owner', owner} end
    batch, limit, payload, skip = tonumber(batch), tonumber(limit), tonumber(payload), tonumber(skip)
    bytes, step = tonumber(bytes), tonumber(step)
    if limit > 0 then
        local room = limit - redis.call('LLEN', ready)
        if room < 1 then return {'full', now_us} end
        if room < batch then batch = room end
    end
    add_work(QUEUE)
    local till = now_score(unit)
    local moved, total, bytes_read, stay, oldest, named = 0, 0, 0, 0, '', {}
    local early, early_score, suspect = 0, nil, false -- suspect: scores may be no time
    local chunk, units, ended, more = CHUNK, CHUNK, false, false -- of the next chunk: entries, and work with their bytes
    repeat
        local most, from, room = math.min(chunk, batch - total, 5000), skip + stay, math.min(bytes - bytes_read, units / KIB)
        local jobs, count, read, all, large, score = read_chunk(delayed, till, from, step, most, room, payload)
        if count == 0 then break end
        if total == 0 and not score then score = redis.call('ZRANGE', delayed, from, from, 'WITHSCORES')[2] end
        if total == 0 then suspect = tonumber(score) < NO_TIME[unit] end
        local more_early, of_first = 0, nil
        if suspect then more_early, of_first, suspect = count_early(delayed, from, count, unit, payload, score) end
        local fitting, first = jobs, nil
        if large > 0 then fitting, first = split_chunk(jobs, payload) end
        if first and stay == 0 then
            local rank, entry = from + first - 1, jobs[first]
            named = {redis.call('ZRANGE', delayed, rank, rank, 'WITHSCORES')[2], #entry, redis.sha1hex(entry)}
        end
        -- Without the right to remove, the jobs would be in both places.
        local check, command = redis.acl_check_cmd, large == 0 and 'ZREMRANGEBYRANK' or 'ZREM'
        local refused = not (check and check(command, delayed, 0, 0)) and missing_right({{command, delayed}})
        if refused and total == 0 then return refused end
        if refused then break end
        if #fitting > 0 and take == 'left' then
            redis.call('RPUSH', ready, unpack(fitting))
        elseif #fitting > 0 then
            redis.call('LPUSH', ready, unpack(fitting))
        end
        if large == 0 then
            redis.call('ZREMRANGEBYRANK', delayed, from, from + count - 1)
        elseif #fitting > 0 then
            redis.call('ZREM', delayed, unpack(fitting))
        end
        if total == 0 and first ~= 1 then oldest = score end -- a job that stays is not late
        moved, total, bytes_read, stay = moved + #fitting, total + count, bytes_read + read, stay + large
        early, early_score = early + more_early, early_score or of_first
        add_work(count + read * KIB)
        units = left / per_work - work
        chunk = math.floor(units / (1 + read * KIB / count))
        step = STEP -- the next entries may be much longer
        ended = all or bytes_read >= bytes or total >= batch
        more = not ended and chunk < 1
    until ended or more
    local reply = {more and 'more' or 'moved', moved, now_us, oldest, bytes_read, stay, unpack(named)}
    if early == 0 then return reply end
    for i = #reply + 1, 11 do reply[i] = '' end
    reply[12], reply[13] = early, early_score
    return reply
end

-- Redis itself compares the types. Which key it was, TYPE tells.
local function explained(failure, delayed, ready, meta, take)
    return wrong_type({{'delayed', delayed, 'zset'}, {'ready', ready, 'list'}, {'meta', meta, 'hash'}}) or
        missing_right({{take == 'left' and 'RPUSH' or 'LPUSH', ready}}) or type(failure) == 'table' and failure or {err = failure}
end

local replies = {}
for arg = 4, #ARGV, 8 do
    local queue = (arg + 4) / 8
    local at = 3 * queue - 1
    local delayed, ready, meta = KEYS[at], KEYS[at + 1], KEYS[at + 2]
    if queue > 1 and left <= 0 then
        replies[queue] = {'later'}
    else
        local ok, reply = pcall(promote, delayed, ready, meta, unpack(ARGV, arg, arg + 7))
        replies[queue] = ok and reply or explained(reply, delayed, ready, meta, ARGV[arg + 7])
    end
end
return replies
