#!lua flags=no-writes
-- bull_failed: failures of a Bull 4 queue that have no record yet, with what a record needs.
--
-- KEYS[1]  failed    zset, score = finishedOn by the worker's clock
-- KEYS[2]  recorded  zset of ours: `<id>:<finishedOn>`
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  from      score to begin at
-- ARGV[3]  skip      entries from there on that were looked at already
-- ARGV[4]  count     entries to look at, 1 to 1000
-- ARGV[5]  size      bytes; no further job is read once so many were
-- Reply    {now in ms, entries looked at, score of the last, and for each failure without a record: id, score, its fields as in
--          bull_stalled}
-- Safe     reads only.
local FIELDS = {'name', 'data', 'opts', 'timestamp', 'delay', 'priority', 'attemptsMade', 'stalledCounter', 'processedOn',
    'failedReason', 'stacktrace', 'deid'}
local time = redis.call('TIME')
local some = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[4])
local reply = {string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000)), 0, ''}
local size = 0
for i = 1, #some, 2 do
    if size >= tonumber(ARGV[5]) then break end
    local id, score = some[i], some[i + 1]
    reply[2], reply[3] = reply[2] + 1, score
    if not redis.call('ZSCORE', KEYS[2], id .. ':' .. score) then
        local job = redis.pcall('HMGET', ARGV[1] .. id, unpack(FIELDS))
        reply[#reply + 1] = id
        reply[#reply + 1] = score
        for f = 1, #FIELDS do
            local value = job.err and (f == 1 and '!' .. job.err or '') or job[f] or ''
            size = size + #value
            reply[#reply + 1] = value
        end
    end
end
return reply
