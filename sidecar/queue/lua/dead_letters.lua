#!lua flags=allow-oom
-- dead_letters: finds entries of the workers' dead letter list that have no record yet. Does not change the list.
--
-- KEYS[1]  lock
-- KEYS[2]  letters   list
-- KEYS[3]  recorded  zset of the sidecar: mark (SHA-1 of an entry) -> when the entry was last seen, ms
-- ARGV[1]  token
-- ARGV[2]  skip      entries from the head; negative: from the tail
-- ARGV[3]  count     entries at most; from the tail, the last entry first
-- ARGV[4]  most      bytes; the reply has only size and SHA-1 of a larger entry
-- ARGV[5]  size      bytes; stop after this many
-- ARGV[6]  renew     ms: renew older marks, so that only marks of removed entries grow old
-- ARGV[7]  forget    ms: at the end of the list remove older marks; '' = remove none
-- Reply    {'letters', now in ms, entries looked at, 1 at the end of the list or else 0, and for each entry without a record: the
--          entry or '', its size, its SHA-1}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, now, rights
-- Safe     fenced; reads the list; only record_once adds marks.
local refusal = fenced() or wrong_type({{KEYS[2], KEYS[2], 'list'}, {KEYS[3], KEYS[3], 'zset'}})
if refusal then return refusal end
refusal = missing_right({{'LRANGE', KEYS[2]}, {'ZSCORE', KEYS[3]}, {'ZADD', KEYS[3]}, {'ZREMRANGEBYSCORE', KEYS[3]}})
if refusal then return refusal end
local now = tonumber(now_ms())
local reply = {'letters', string.format('%.0f', now), 0, 0}
local low, high, size, chunk = tonumber(ARGV[2]), tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1, 0, 8
local at_tail = low < 0 -- the newest entries are last: read backwards
-- Read in small steps, because the size of an entry is unknown until the entry is read.
while low <= high and size < tonumber(ARGV[5]) do
    local from = at_tail and math.max(high - chunk + 1, low) or low
    local to = at_tail and high or math.min(low + chunk - 1, high)
    local found = redis.call('LRANGE', KEYS[2], from, to)
    local looked = 0
    while looked < #found and size < tonumber(ARGV[5]) do
        looked = looked + 1
        local entry = found[at_tail and #found + 1 - looked or looked]
        local mark = redis.sha1hex(entry)
        local seen = redis.call('ZSCORE', KEYS[3], mark)
        size = size + #entry
        if not seen then
            for _, value in ipairs({#entry > tonumber(ARGV[4]) and '' or entry, #entry, mark}) do reply[#reply + 1] = value end
        elseif tonumber(seen) < now - tonumber(ARGV[6]) then
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
