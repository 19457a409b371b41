#!lua flags=allow-oom
-- bull_seen: from where the failures of a Bull 4 queue are read. The first time everything that has failed before counts as known.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset, score = finishedOn by a worker's clock
-- KEYS[3]  recorded  zset of ours: `<id>:<score>` of failures that have their record, or want none; and `:seen`, whose score is when
--                    we last began to read all there was, and came to the end
-- ARGV[1]  token
-- ARGV[2]  overlap   ms; workers' clocks may be so far behind
-- ARGV[3]  most      failures that are taken as known the first time
-- ARGV[4]  seen      ms, moves `:seen` there, and forgets what is never read again; '' = only asks; 'off' = failures are not
--                    recorded now, and what fails meanwhile will count as known
-- Reply    {'seen', now in ms, the score of `:seen`}, {'off'}, {'fenced'}, {'type', key, found}
-- Uses     types
-- Safe     fenced; `:seen` moves forwards only, but for one that a clock has left more than `overlap` in the future: it would let
--          nothing be forgotten, and hide what fails while nobody leads. It is written last: a begin that was refused half-way
--          begins anew. A mark is forgotten when no look reaches down to it any more.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local refusal = wrong_type({{'failed', KEYS[2], 'zset'}, {'recorded', KEYS[3], 'zset'}})
if refusal then return refusal end
if ARGV[4] == 'off' then
    redis.call('ZREM', KEYS[3], ':seen')
    return {'off'}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
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
    -- What lies below those that were taken is not read: a look begins `overlap` before `:seen`.
    if #known == 2 * tonumber(ARGV[3]) then seen = math.max(now, tonumber(known[#known]) + overlap) end
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
elseif ARGV[4] ~= '' and (tonumber(ARGV[4]) >= seen or seen > now + overlap) then
    seen = tonumber(ARGV[4])
    redis.call('ZADD', KEYS[3], text(seen), ':seen')
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(seen - overlap))
end
return {'seen', text(now), text(seen)}
