#!lua flags=no-writes
-- bull_stalled: which jobs of a Bull 4 queue were marked one interval ago and have no lock now, with what a record needs.
--
-- KEYS[1]  stalled   set of ids
-- KEYS[2]  active    list of ids
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  most      jobs to tell of
-- ARGV[3]  size      bytes; no further job is read once so many were
-- Reply    {now in ms, how many there are, and for each told: id, its fields as HMGET (see FIELDS), '' for what it lacks, or
--          '!' and the error in place of the first}
-- Safe     reads only; one bad hash spoils no other. A decision that rests on this is checked again by bull_settle.
local FIELDS = {'name', 'data', 'opts', 'timestamp', 'delay', 'priority', 'attemptsMade', 'stalledCounter', 'processedOn',
    'failedReason', 'stacktrace', 'deid'}
local time = redis.call('TIME')
local reply = {string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000)), 0}
local marked = redis.call('SMEMBERS', KEYS[1])
local active, count, size = {}, 0, 0
if #marked > 0 then
    for _, id in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do active[id] = true end
end
for _, id in ipairs(marked) do
    local key = ARGV[1] .. id
    if active[id] and redis.call('EXISTS', key .. ':lock') == 0 then
        reply[2] = reply[2] + 1
        if count < tonumber(ARGV[2]) and size < tonumber(ARGV[3]) then
            count = count + 1
            reply[#reply + 1] = id
            local job = redis.pcall('HMGET', key, unpack(FIELDS))
            for i = 1, #FIELDS do
                local value = job.err and (i == 1 and '!' .. job.err or '') or job[i] or ''
                size = size + #value
                reply[#reply + 1] = value
            end
        end
    end
end
return reply
