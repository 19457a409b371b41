#!lua flags=no-writes
-- aside: what a promote has left to the monitor.
--
-- KEYS[1]  aside     zset: member of delayed -> when it was put off, ms
-- KEYS[2]  delayed   zset
-- KEYS[3]  events    hash: member -> envelope; delayed again where there is none (bull)
-- ARGV[1]  skip      members to pass over
-- ARGV[2]  count     members to tell of, 1 to 500
-- ARGV[3]  size      bytes; no further envelope is read once so many were
-- Reply    {now in ms, and for each: member, when, its score or '' when it is no longer there, envelope or ''}
-- Safe     reads only.
local time = redis.call('TIME')
local reply, size = {string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))}, 0
local some = redis.call('ZRANGE', KEYS[1], ARGV[1], tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1, 'WITHSCORES')
for i = 1, #some, 2 do
    if size >= tonumber(ARGV[3]) then break end
    local envelope = KEYS[3] ~= KEYS[2] and redis.call('HGET', KEYS[3], some[i]) or ''
    size = size + #envelope
    reply[#reply + 1] = some[i]
    reply[#reply + 1] = some[i + 1]
    reply[#reply + 1] = redis.call('ZSCORE', KEYS[2], some[i]) or ''
    reply[#reply + 1] = envelope
end
return reply
