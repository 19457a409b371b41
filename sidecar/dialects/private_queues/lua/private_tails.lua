#!lua flags=no-writes
-- private_tails: reads the running jobs of many workers: the last entry of each private list.
--
-- KEYS[1+] private   lists; a key of another type counts as empty
-- ARGV[1]  most      bytes; the reply has only size and SHA-1 of a larger entry
-- ARGV[2]  size      bytes; no further list is read after this many
-- Reply    {lists read, and for each list that is not empty: its index from 1, its last entry ('' = larger than `most`), the size of
--          that entry, its SHA-1 if it is larger than `most`, else ''}
-- Safe     reads only; one key of the wrong type does not affect others.
local reply, size = {0}, 0
for i, key in ipairs(KEYS) do
    if size >= tonumber(ARGV[2]) then break end
    reply[1] = i
    local tail = redis.pcall('LINDEX', key, -1)
    if type(tail) == 'table' and string.sub(tail.err, 1, 9) ~= 'WRONGTYPE' then return tail end
    if type(tail) == 'string' then
        local large = #tail > tonumber(ARGV[1])
        for _, value in ipairs({i, large and '' or tail, #tail, large and redis.sha1hex(tail) or ''}) do
            reply[#reply + 1] = value
        end
        size = size + #tail
    end
end
return reply
