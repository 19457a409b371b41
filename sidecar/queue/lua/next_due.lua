#!lua flags=no-writes
-- next_due: the next due score of many queues in one request. After CLIENT CACHING YES it also arms wake-ups.
--
-- KEYS[1+] delayed   zset of each queue
-- ARGV[1+] skip      for each: entries at its head to skip (see promote)
-- Reply    {now in us, for each queue: its next score, a space and the bytes of the entry; '' for an empty queue; '!' and
--          the error}
-- Safe     reads only; an error of one key leaves the others valid.
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
