#!lua flags=no-writes
-- private_tails: the jobs under way in the private lists of many workers: of each list its last entry.
--
-- KEYS[1+] private   lists; what is no list counts as empty
-- ARGV[1]  most      bytes; a larger entry is told of by its size and SHA-1 alone
-- ARGV[2]  size      bytes; no further list is read once so many were
-- Reply    {lists read, and for each of them that has one: which list (from 1), its last entry or '', the size of that entry, its
--          SHA-1 where it is too large or else ''}
-- Safe     reads only; one key of the wrong type spoils no other.
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
