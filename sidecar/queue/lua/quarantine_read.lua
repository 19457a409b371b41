#!lua flags=no-writes
-- quarantine_read: reads quarantined members, for the monitor.
--
-- KEYS[1]  aside     zset: member of delayed -> time of its quarantine, ms
-- KEYS[2]  delayed   zset
-- KEYS[3]  events    hash: member -> envelope; KEYS[2] again = the queue has no envelopes (bull)
-- ARGV[1]  skip      members to skip
-- ARGV[2]  count     most members, at least 1
-- ARGV[3]  size      bytes; the reply ends after this many
-- ARGV[4]  payload   bytes; a larger envelope is not returned
-- Reply    {now in ms, and for each: member, time, its score ('' = not in delayed), its envelope (0 = none, another number = the
--          size of an oversized one)}
--          {'type', key, found}
-- Uses     types, now
-- Safe     reads only.
local events = KEYS[3] ~= KEYS[2]
local refusal = wrong_type({{'aside', KEYS[1], 'zset'}, {'delayed', KEYS[2], 'zset'}, {'events', KEYS[3], events and 'hash' or 'zset'}})
if refusal then return refusal end
local reply, size = {now_ms()}, 0
local some = redis.call('ZRANGE', KEYS[1], ARGV[1], tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1, 'WITHSCORES')
for i = 1, #some, 2 do
    if size >= tonumber(ARGV[3]) then break end
    local envelope = events and redis.call('HGET', KEYS[3], some[i])
    size = size + #some[i] + (envelope and #envelope or 0)
    if envelope and #envelope > tonumber(ARGV[4]) then envelope = #envelope end
    reply[#reply + 1] = some[i]
    reply[#reply + 1] = some[i + 1]
    reply[#reply + 1] = redis.call('ZSCORE', KEYS[2], some[i]) or ''
    reply[#reply + 1] = envelope or 0
end
return reply
