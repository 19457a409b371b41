#!lua flags=no-writes
-- list_page: reads entries of a list from its tail, within a limit of bytes. LRANGE has none, and sizes are unknown until entries
-- are read.
--
-- KEYS[1]  list
-- ARGV[1]  skip      entries of the tail to skip
-- ARGV[2]  count     most entries to read, at least 1
-- ARGV[3]  longest   most entries of one step; the first one has an eighth of them, and steps double while entries are small
-- ARGV[4]  most      bytes of entries; the entry that exceeds them is the last one,
-- ARGV[5]  least     but not before so many entries
-- Reply    {1 if the list has no entry beyond, or else 0; and the entries, from the tail to the head}
-- Safe     reads only.
local skip, count, longest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local most, least = tonumber(ARGV[4]), tonumber(ARGV[5])
local step = math.ceil(longest / 8)
local reply, bytes, read = {0}, 0, 0
local function goes_on() return bytes <= most or #reply - 1 < least end
while read < count and goes_on() and reply[1] == 0 do
    local wanted, before = math.min(step, count - read), bytes
    local some = redis.call('LRANGE', KEYS[1], -skip - read - wanted, -skip - read - 1)
    local taken = 0
    while taken < #some and goes_on() do
        local entry = some[#some - taken]
        reply[#reply + 1] = entry
        bytes, taken = bytes + #entry, taken + 1
    end
    if taken == #some and #some < wanted then reply[1] = 1 end
    read = read + taken
    if (bytes - before) * 8 < most then step = math.min(2 * step, longest) end
end
return reply
