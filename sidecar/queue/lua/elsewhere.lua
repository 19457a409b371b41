#!lua flags=no-writes
-- elsewhere: looks for keys of the same names in the other databases. Channels and messages of client tracking name no database.
--
-- KEYS[1+] key       of any type
-- ARGV[1]  database  the caller's
-- Reply    {others, database, index}: other databases that it has met; the first of them that holds one of KEYS, -1 = none;
--          which of KEYS, 0 = more databases have keys than the script looks at, and it ended at this one
-- Safe     reads only. SELECT in a script is over when the script ends.
local MOST = 64
local others = 0
local function find(number)
    if others > MOST then return 0 end
    redis.call('SELECT', number)
    for i, key in ipairs(KEYS) do
        if redis.call('EXISTS', key) == 1 then return i end
    end
end
for number in string.gmatch(redis.call('INFO', 'keyspace'), 'db(%d+):') do
    if number ~= ARGV[1] then
        others = others + 1
        local index = find(number)
        if index then return {others, tonumber(number), index} end
    end
end
return {others, -1, 0}
