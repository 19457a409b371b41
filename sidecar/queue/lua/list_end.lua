#!lua flags=no-writes
-- list_end: reads entries at one end of a list, without their removal and within a limit of bytes.
--
-- KEYS[1]  list
-- ARGV[1]  side      '1' = at the head, '-1' = at the tail
-- ARGV[2]  skip      entries of that end to skip
-- ARGV[3]  count     most entries, at least 1
-- ARGV[4]  most      bytes; the reply ends with the entries that exceed them
-- Reply    {1 if the list has no entry beyond, or else 0; and entries, from the tail to the head}
-- Safe     reads only.
local FIRST, LAST = 8, 64 -- entries of one LRANGE: sizes are unknown until entries are read
local head, skip, count, most = ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local found, bytes, step, ended = {}, 0, FIRST, 0
while count > 0 and bytes <= most and ended == 0 do
    local wanted, before = math.min(step, count), bytes
    local from, to = skip, skip + wanted - 1
    if not head then from, to = -to - 1, -from - 1 end
    local some = redis.call('LRANGE', KEYS[1], from, to)
    for i = 1, #some do
        found[#found + 1] = head and some[i] or some[#some + 1 - i] -- the nearest to the end first
        bytes = bytes + #found[#found]
    end
    if #some < wanted then ended = 1 end
    skip, count = skip + wanted, count - wanted
    if (bytes - before) * 8 < most then step = math.min(2 * step, LAST) end
end
local reply = {ended}
for i = 1, #found do reply[i + 1] = head and found[#found + 1 - i] or found[i] end
return reply
