#!lua flags=allow-oom
-- stamp: changes the stamps of jobs in progress. Skips a stamp that has changed since it was read.
--
-- KEYS[1]  lock
-- KEYS[2]  stamps    hash: first 16 bytes of a job's SHA-256 -> its stamp
-- KEYS[3]  meta      hash of the queue; field `life`: the last birth given
-- ARGV[1]  token
-- ARGV[2+] three for each change: digest; the stamp that was read ('' = none); the new stamp (birth 0 = begin a life now)
-- Reply    {'stamped', now in ms, how many}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, rights
-- Safe     fenced; removes nothing; adds at most one stamp for each job in progress.
--
-- A stamp is 28 bytes, numbers with the highest byte first: birth in us (8), seen (6), missing (6), retries (2), retried_at (6),
-- times in ms by Redis's clock; a value of another length is no stamp. The highest bit of retries means that the life began with
-- a requeue. The birth identifies a life: the time in ms, with a count of births (000 to 999) in place of the us, or the time in
-- us if a reported job without a stamp was settled. So two lives of equal jobs differ, even if the clock is set back, and the
-- age of a job is true.
local refusal = fenced() or wrong_type({{'stamps', KEYS[2], 'hash'}, {'meta', KEYS[3], 'hash'}})
if refusal then return refusal end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local number, birth = tonumber(string.match(redis.call('HGET', KEYS[3], 'life') or '', '%d%d?%d?$')) or 0, nil
local asked, changes = {}, {}
local last, rest -- most new stamps of a call are equal: cut each kind once
for i = 2, #ARGV, 3 do asked[#asked + 1] = ARGV[i] end
local there = redis.call('HMGET', KEYS[2], unpack(asked))
for i, digest in ipairs(asked) do
    local old, new = ARGV[3 * i], ARGV[3 * i + 1]
    local was = there[i] or ''
    if #was ~= 28 then was = '' end
    if was == old then
        if new ~= last then last, rest = new, string.match(new, '^%z%z%z%z%z%z%z%z(.*)') end
        if rest then
            number = (number + 1) % 1000
            birth = now_ms * 1000 + number
            new = struct.pack('>I8', birth) .. rest
        end
        changes[#changes + 1] = digest
        changes[#changes + 1] = new
    end
end
refusal = missing_right({{'HSET', #changes > 0 and KEYS[2]}, {'HSET', birth and KEYS[3]}})
if refusal then return refusal end
if #changes > 0 then redis.call('HSET', KEYS[2], unpack(changes)) end
if birth then redis.call('HSET', KEYS[3], 'life', string.format('%.0f', birth)) end
return {'stamped', string.format('%.0f', now_ms), #changes / 2}
