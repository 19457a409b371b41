#!lua flags=no-writes
-- next_due: the next due score of many queues in one request. After CLIENT CACHING YES it also arms wake-ups.
--
-- KEYS[1+] delayed   zset of each queue
-- ARGV[1+] skip      for each: its first entries to skip (see promote)
-- Reply    {now in us, for each queue: its next score, a space and the bytes of the entry; '' for an empty queue; '!' and
--          the error}
-- Safe     reads only; an error of one key leaves the others valid.
local time = redis.call('TIME')
local reply = {string.format('%s%06d', time[1], time[2])}
for i, key in ipairs(KEYS) do
    local first = redis.pcall('ZRANGE', key, ARGV[i], ARGV[i], 'WITHSCORES')
    if first.err then
        reply[i + 1] = '!' .. first.err
    else
        reply[i + 1] = first[2] and first[2] .. ' ' .. #first[1] or ''
    end
end
return reply
