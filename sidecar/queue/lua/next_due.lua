#!lua flags=no-writes
-- next_due: the next due score of many queues in one request. After CLIENT CACHING YES it is also what arms their wake-ups.
--
-- KEYS[1+] delayed   zset of each queue
-- ARGV[1+] skip      of each: entries at its head to look past (see promote)
-- Reply    {now in us, for each queue: its next score, a space and the bytes of that entry, or '' when there is none, or '!' and
--          the error}
-- Safe     reads only; one key of the wrong type spoils no other.
local time = redis.call('TIME')
local reply = {string.format('%s%06d', time[1], time[2])}
for i, key in ipairs(KEYS) do
    local head = redis.pcall('ZRANGE', key, ARGV[i], ARGV[i], 'WITHSCORES')
    if head.err then
        reply[i + 1] = '!' .. head.err
    else
        reply[i + 1] = head[2] and head[2] .. ' ' .. #head[1] or ''
    end
end
return reply
