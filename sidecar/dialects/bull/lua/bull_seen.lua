#!lua flags=allow-oom
-- bull_seen: where to begin reading failures of a Bull 4 queue. The first time all earlier failures count as recorded.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset, score = finishedOn by a worker's clock
-- KEYS[3]  recorded  the sidecar's zset: marks `<id>:<score>` of failures that have a record or need none; `:seen`, whose score is
--                    when the last complete read began; and `:swept`, the score of the mark at which the next removal begins
-- ARGV[1]  token
-- ARGV[2]  overlap   ms; workers' clocks may be this far behind
-- ARGV[3]  most      failures that count as recorded the first time
-- ARGV[4]  seen      ms: moves `:seen` there and removes old marks whose failures have left `failed`; '' = only read `:seen`;
--                    'off' = failures from now on count as recorded
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
-- A mark stays while its failure is in `failed`: after a clock was set back, failures are read again. Prunes a part of the marks.
local function remove_marks(oldest)
    local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
    local from = redis.call('ZSCORE', KEYS[3], ':swept') or '-inf'
    local before = '(' .. string.format('%.0f', math.min(oldest, tonumber(first or oldest)))
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', before)
    local part = redis.call('ZRANGEBYSCORE', KEYS[3], from, '(' .. string.format('%.0f', oldest), 'LIMIT', 0, 1000)
    local last = redis.call('ZSCORE', KEYS[3], part[1000] or '')
    for _, mark in ipairs(part) do
        local id, score = string.match(mark, '^(.+):([^:]*)$')
        if id and redis.call('ZSCORE', KEYS[2], id) ~= score then redis.call('ZREM', KEYS[3], mark) end
    end
    if last and last ~= from then
        redis.call('ZADD', KEYS[3], last, ':swept')
    else
        redis.call('ZREM', KEYS[3], ':swept')
    end
end
local now = tonumber(now_ms())
local function text(ms) return string.format('%.0f', ms) end
local seen, overlap = tonumber(redis.call('ZSCORE', KEYS[3], ':seen') or ''), tonumber(ARGV[2])
if not seen then
    seen = now
    local known = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', text(now - overlap), 'WITHSCORES', 'LIMIT', 0, ARGV[3])
    for from = 1, #known, 1000 do
        local marks = {}
        for i = from, math.min(from + 998, #known - 1), 2 do
            marks[#marks + 1] = known[i + 1]
            marks[#marks + 1] = known[i] .. ':' .. known[i + 1]
        end
        redis.call('ZADD', KEYS[3], unpack(marks))
    end
    -- Older failures have no mark, so they must not be read: a read begins `overlap` before `:seen`.
    if #known == 2 * tonumber(ARGV[3]) then seen = math.max(now, tonumber(known[#known]) + overlap) end
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
elseif ARGV[4] ~= '' and (tonumber(ARGV[4]) >= seen or seen > now + overlap) then
    refusal = missing_right({{'ZADD', KEYS[3]}, {'ZREM', KEYS[3]}, {'ZREMRANGEBYSCORE', KEYS[3]}, {'ZRANGEBYSCORE', KEYS[3]},
        {'ZSCORE', KEYS[3]}, {'ZSCORE', KEYS[2]}, {'ZRANGE', KEYS[2]}})
    if refusal then return refusal end
    seen = tonumber(ARGV[4])
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
    remove_marks(seen - overlap)
end
return {'seen', text(now), text(seen)}
