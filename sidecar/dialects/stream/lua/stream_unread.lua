#!lua flags=no-writes
-- stream_unread: reads entries of a stream that no consumer has read yet, for people.
--
-- KEYS[1]  stream
-- ARGV[1]  from      '(' and the id before the first entry
-- ARGV[2]  count     most entries
-- ARGV[3]  most      bytes; the reply has only the size and the SHA-1 of a larger entry
-- ARGV[4]  bytes     of all entries; the one that exceeds them is the last
-- Reply    as stream_page, with consumer '', idle time 0 and 0 deliveries
-- Safe     reads only.
local from, last = ARGV[1], ''
local count, most, room = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local reply, found, bytes, step, ended = {'page', '', 0}, 0, 0, 1, false
repeat
    step = math.min(step, count - found)
    local entries = redis.pcall('XRANGE', KEYS[1], from, '+', 'COUNT', step)
    if entries.err then return entries end
    ended = #entries < step
    for _, entry in ipairs(entries) do
        local size = 0
        for _, text in ipairs(entry[2]) do size = size + #text end
        local large = size > most
        for _, value in ipairs({entry[1], '', 0, 0, size, large and redis.sha1hex(table.concat(entry[2], '\0')) or '', large and {} or entry[2]}) do
            reply[#reply + 1] = value
        end
        last, found, bytes = entry[1], found + 1, bytes + size
    end
    from, step = '(' .. last, math.min(step * 2, 32) -- the size of an entry is unknown until it is read
until ended or found >= count or bytes >= room
reply[2], reply[3] = last, ended and 1 or 0
return reply
