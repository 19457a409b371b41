#!lua flags=allow-oom
-- stamp: changes the stamps of jobs in progress. Skips a stamp that has changed since it was read.
--
-- KEYS[1]  lock
-- KEYS[2]  stamps    hash: first 16 bytes of a job's SHA-256 -> its stamp
-- KEYS[3]  meta      hash of the queue; its field `life` is the last life given
-- ARGV[1]  token
-- ARGV[2+] three for each change: digest; the stamp that was read ('' = none); the new stamp ('' = begin a life now)
-- Reply    {'stamped', now in ms, how many}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, rights
-- Safe     fenced; removes nothing; adds at most one stamp for each job in progress.
--
-- A stamp is 28 bytes, numbers with the highest byte first: born in us (8), seen (6), missing (6), retries (2), retried_at (6),
-- times in ms by Redis's clock; a value of another length is no stamp. The highest bit of retries means that the life began with
-- a requeue. The birth in us identifies a life, because it is unique in the queue.
local refusal = fenced() or wrong_type({{'stamps', KEYS[2], 'hash'}, {'meta', KEYS[3], 'hash'}})
if refusal then return refusal end
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now_us / 1000)
local life = tonumber(string.match(redis.call('HGET', KEYS[3], 'life') or '', '^%d+$')) or 0
local born = life
local asked, changes = {}, {}
for i = 2, #ARGV, 3 do asked[#asked + 1] = ARGV[i] end
local there = redis.call('HMGET', KEYS[2], unpack(asked))
for i, digest in ipairs(asked) do
    local old, new = ARGV[3 * i], ARGV[3 * i + 1]
    local was = there[i] or ''
    if #was ~= 28 then was = '' end
    if was == old then
        if new == '' then
            born = math.max(now_us, born + 1)
            new = struct.pack('>I8I6I6I2I6', born, now_ms, 0, 0, 0)
        end
        changes[#changes + 1] = digest
        changes[#changes + 1] = new
    end
end
refusal = missing_right({{'HSET', #changes > 0 and KEYS[2]}, {'HSET', born > life and KEYS[3]}})
if refusal then return refusal end
if #changes > 0 then redis.call('HSET', KEYS[2], unpack(changes)) end
if born > life then redis.call('HSET', KEYS[3], 'life', string.format('%.0f', born)) end
return {'stamped', string.format('%.0f', now_ms), #changes / 2}
