#!lua flags=allow-oom
-- dead_letters: what workers have put on the dead letter list that has no record yet. The list itself is theirs and stays.
--
-- KEYS[1]  lock
-- KEYS[2]  dlq       list
-- KEYS[3]  recorded  zset of ours: SHA-1 of an entry -> when it was last met, in ms
-- ARGV[1]  token
-- ARGV[2]  skip      entries from the head; negative: so many from the tail
-- ARGV[3]  count     entries to look at, from there on; near the tail the last ones first
-- ARGV[4]  most      bytes; a larger entry is told of by its size and SHA-1 alone
-- ARGV[5]  size      bytes; the rest is left for the next call once so many were read
-- ARGV[6]  renew     ms: a mark that is older is made new, so that only those of entries that are gone grow old
-- ARGV[7]  forget    ms: marks that are older go, once the end of the list was seen; '' = none
-- Reply    {'letters', now in ms, entries looked at, 1 at the end of the list or else 0, and three for each that is not recorded:
--          it or '', its size, its SHA-1}, {'fenced'}, {'type', key, found}
-- Uses     types
-- Safe     fenced; the list is only read, and a mark is made by record_once alone.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local refusal = wrong_type({{'dlq', KEYS[2], 'list'}, {'recorded', KEYS[3], 'zset'}})
if refusal then return refusal end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local reply = {'letters', string.format('%.0f', now), 0, 0}
local low, high, size, chunk = tonumber(ARGV[2]), tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1, 0, 8
local at_tail = low < 0 -- where what is new stands last, so that is read first
-- In small steps: nobody knows how large entries are before they are read.
while low <= high and size < tonumber(ARGV[5]) do
    local from = at_tail and math.max(high - chunk + 1, low) or low
    local to = at_tail and high or math.min(low + chunk - 1, high)
    local found = redis.call('LRANGE', KEYS[2], from, to)
    local looked = 0
    while looked < #found and size < tonumber(ARGV[5]) do
        looked = looked + 1
        local entry = found[at_tail and #found + 1 - looked or looked]
        local mark = redis.sha1hex(entry)
        local met = redis.call('ZSCORE', KEYS[3], mark)
        size = size + #entry
        if not met then
            for _, value in ipairs({#entry > tonumber(ARGV[4]) and '' or entry, #entry, mark}) do reply[#reply + 1] = value end
        elseif tonumber(met) < now - tonumber(ARGV[6]) then
            redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', now), mark)
        end
    end
    reply[3] = reply[3] + looked
    if not at_tail and looked == #found and #found < to - from + 1 then
        reply[4] = 1
        break
    end
    if at_tail then high = from - 1 else low = to + 1 end
end
if reply[4] == 1 and ARGV[7] ~= '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.0f', now - tonumber(ARGV[7])))
end
return reply
