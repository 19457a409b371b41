#!lua flags=allow-oom
-- failed_seen: where to begin reading failures that workers decided. The first time all earlier failures count as recorded.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset of the workers; score = when the job failed, by a worker's clock; a member is the id of a job, or a job
-- KEYS[3]  recorded  the sidecar's zset, scores in ms: marks `<id>:<score>` of failures that have a record or need none, by the time
--                    of the failure, with the SHA-1 of a member that is a job as id; `:seen`, whose score is when the last complete
--                    read began; and `:swept`, the score of the mark at which the next removal begins
-- ARGV[1]  token
-- ARGV[2]  overlap   ms; workers' clocks may be this far behind
-- ARGV[3]  most      failures that count as recorded the first time
-- ARGV[4]  seen      ms: moves `:seen` there and removes old marks whose failures have left `failed`; '' = only read `:seen`;
--                    'off' = failures from now on count as recorded
-- ARGV[5]  unit      ms of one unit of the scores of `failed`
-- ARGV[6]  job       '1' = a member is a job
-- Reply    {'seen', now in ms, the score of `:seen`}, {'off'}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, now, rights
-- Safe     fenced; `:seen` moves forwards only, unless a wrong clock left it more than `overlap` in the future, where it would hide
--          failures that happen while no instance leads. `:seen` is written last, so a first call that failed half-way begins anew.
local refusal = fenced() or wrong_type({{'failed', KEYS[2], 'zset'}, {'recorded', KEYS[3], 'zset'}})
if refusal then return refusal end
if ARGV[4] == 'off' then
    redis.call('ZREM', KEYS[3], ':seen')
    return {'off'}
end
local unit, is_job = tonumber(ARGV[5]), ARGV[6] == '1'
-- A mark stays while its failure is in `failed`: after a clock was set back, failures are read again. Prunes a part of the marks. A
-- SHA-1 names no member of `failed`, so its mark stays while there is any failure of that time.
local function remove_marks(oldest)
    local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
    local from = redis.call('ZSCORE', KEYS[3], ':swept') or '-inf'
    local before = '(' .. string.format('%.17g', math.min(oldest, first and tonumber(first) * unit or oldest))
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', before)
    local part = redis.call('ZRANGEBYSCORE', KEYS[3], from, '(' .. string.format('%.0f', oldest), 'LIMIT', 0, 1000)
    local last = redis.call('ZSCORE', KEYS[3], part[1000] or '')
    for _, mark in ipairs(part) do
        local id, score = string.match(mark, '^(.+):([^:]*)$')
        local stays = not id
        if id and is_job then
            stays = redis.call('ZCOUNT', KEYS[2], score, score) > 0
        elseif id then
            stays = redis.call('ZSCORE', KEYS[2], id) == score
        end
        if not stays then redis.call('ZREM', KEYS[3], mark) end
    end
    if last and last ~= from then
        redis.call('ZADD', KEYS[3], last, ':swept')
    else
        redis.call('ZREM', KEYS[3], ':swept')
    end
end
-- Marks the failures from `least` on, the newest first: at most `most`, and of jobs at most 1 MiB, which are read a few at a time.
-- Returns the score of the oldest one with a mark if earlier ones have none.
local function mark_known(least, most)
    local known, bytes, oldest = 0, 0, nil
    repeat
        local step = math.min(is_job and 8 or most, most - known)
        local part = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', least, 'WITHSCORES', 'LIMIT', known, step)
        for from = 1, #part, 1000 do
            local marks = {}
            for i = from, math.min(from + 998, #part - 1), 2 do
                bytes = bytes + #part[i]
                marks[#marks + 1] = string.format('%.17g', tonumber(part[i + 1]) * unit)
                marks[#marks + 1] = (is_job and redis.sha1hex(part[i]) or part[i]) .. ':' .. part[i + 1]
            end
            redis.call('ZADD', KEYS[3], unpack(marks))
        end
        known, oldest = known + #part / 2, part[#part]
        if #part < 2 * step then return nil end
    until known >= most or is_job and bytes >= 1048576
    return tonumber(oldest)
end
local now = tonumber(now_ms())
local function text(ms) return string.format('%.0f', ms) end
local seen, overlap = tonumber(redis.call('ZSCORE', KEYS[3], ':seen') or ''), tonumber(ARGV[2])
if not seen then
    -- Failures without a mark must not be read: a read begins `overlap` before `:seen`.
    local oldest = mark_known(string.format('%.17g', (now - overlap) / unit), tonumber(ARGV[3]))
    seen = oldest and math.max(now, math.ceil(oldest * unit) + overlap) or now
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
elseif ARGV[4] ~= '' and (tonumber(ARGV[4]) >= seen or seen > now + overlap) then
    refusal = missing_right({{'ZADD', KEYS[3]}, {'ZREM', KEYS[3]}, {'ZREMRANGEBYSCORE', KEYS[3]}, {'ZRANGEBYSCORE', KEYS[3]},
        {'ZSCORE', KEYS[3]}, {'ZSCORE', not is_job and KEYS[2]}, {'ZCOUNT', is_job and KEYS[2]}, {'ZRANGE', KEYS[2]}})
    if refusal then return refusal end
    seen = tonumber(ARGV[4])
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
    remove_marks(seen - overlap)
end
return {'seen', text(now), text(seen)}
