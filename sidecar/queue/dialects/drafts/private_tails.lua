#!lua flags=no-writes
-- private_tails: the jobs under way in the private lists of many workers: of each its last entry.
--
-- KEYS[1+] private   lists; what is no list counts as empty
-- ARGV[1]  most      bytes; a larger entry is told of by its size and SHA-1 alone
-- ARGV[2]  size      bytes; no further list is read once so many were
-- Reply    {now in ms, lists read, and for each: entries, its last entry or '', the size of that entry, its SHA-1 where it is too large}
-- Safe     reads only; one wrong type spoils no other.
local time = redis.call('TIME')
local reply, size = {string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000)), 0}, 0
for i, key in ipairs(KEYS) do
    if size >= tonumber(ARGV[2]) then break end
    local tail = redis.pcall('LINDEX', key, -1)
    local length = 0
    if type(tail) == 'string' then length = redis.call('LLEN', key) else tail = '' end
    local large = #tail > tonumber(ARGV[1])
    reply[2] = i
    reply[#reply + 1] = length
    reply[#reply + 1] = large and '' or tail
    reply[#reply + 1] = #tail
    reply[#reply + 1] = large and redis.sha1hex(tail) or ''
    size = size + #tail
end
return reply
