#!lua flags=allow-oom
-- bull_settle: gives one stalled job of a Bull 4 queue back to the workers, or ends it, with a record in the failure stream.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set; the id must still be marked
-- KEYS[3]  active    list
-- KEYS[4]  wait      list
-- KEYS[5]  paused    list
-- KEYS[6]  meta-paused
-- KEYS[7]  failed    zset
-- KEYS[8]  recorded  zset of ours: `<id>:<finishedOn>` of failures that have their record
-- KEYS[9]  failures  stream
-- KEYS[10] meta      hash of ours; field `bytes`
-- KEYS[11] job       its hash; the queue's prefix and the id
-- KEYS[12] job lock
-- KEYS[13] job logs
-- KEYS[14] debounce  `de:` and the job's deid; the lock again where it has none
-- ARGV[1]  token
-- ARGV[2]  id
-- ARGV[3]  counter   stalledCounter that the decision rests on; '' = it has none
-- ARGV[4]  verdict   retry, end, or broken: the hash is none, or no job's
-- ARGV[5]  reason    for failedReason
-- ARGV[6]  message   of the failed event: JSON
-- ARGV[7]  remove    '1': removeOnFail is true or 0
-- ARGV[8]  most      bytes that the stream may hold
-- ARGV[9+] names and values of the record
-- Reply    as settle: settled, gone, changed, alive, full, fenced, type
-- Safe     fenced; by compare; adds before it removes, the record first of all; PUBLISH last and by pcall.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local broken = ARGV[4] == 'broken'
local wanted = {{'stalled', 'set'}, {'active', 'list'}, {'wait', 'list'}, {'paused', 'list'}, {'meta-paused', 'string'},
    {'failed', 'zset'}, {'recorded', 'zset'}, {'failures', 'stream'}, {'meta', 'hash'}}
if not broken then wanted[#wanted + 1] = {'job', 'hash'} end
for i, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local id, ends = ARGV[2], ARGV[4] ~= 'retry'
if redis.call('SISMEMBER', KEYS[2], id) == 0 or not redis.call('LPOS', KEYS[3], id) then return {'gone'} end
if redis.call('EXISTS', KEYS[12]) == 1 then return {'alive'} end
local job = redis.pcall('HMGET', KEYS[11], 'name', 'stalledCounter')
if (job.err ~= nil or not job[1]) ~= broken then return {'changed'} end
if not broken and (job[2] or '') ~= ARGV[3] then return {'changed'} end

local time = redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
local record, bytes = {'at', now}, #now
for i = 9, #ARGV do record[#record + 1] = ARGV[i] end
for i = 10, #ARGV, 2 do bytes = bytes + #ARGV[i] end
bytes = bytes + (tonumber(string.match(redis.call('HGET', KEYS[10], 'bytes') or '', '^%d+$')) or 0)
local room = bytes <= tonumber(ARGV[8])
if ends and not room then return {'full'} end
if room then
    redis.call('XADD', KEYS[9], '*', unpack(record))
    redis.call('HSET', KEYS[10], 'bytes', string.format('%.0f', bytes))
end
local count = (tonumber(job[2]) or 0) + 1
if not ends then
    redis.call('HSET', KEYS[11], 'stalledCounter', string.format('%.0f', count))
    redis.call('RPUSH', redis.call('EXISTS', KEYS[6]) == 1 and KEYS[5] or KEYS[4], id)
elseif not broken and ARGV[7] ~= '1' then
    redis.call('HSET', KEYS[11], 'stalledCounter', string.format('%.0f', count), 'failedReason', ARGV[5], 'finishedOn', now)
    redis.call('ZADD', KEYS[8], now, id .. ':' .. now)
    redis.call('ZADD', KEYS[7], now, id)
end
redis.call('LREM', KEYS[3], 1, id)
redis.call('SREM', KEYS[2], id)
if ends and not broken then
    if ARGV[7] == '1' then redis.call('DEL', KEYS[11], KEYS[13]) end
    if KEYS[14] ~= KEYS[1] then -- as removeDebounceKeyIfNeeded of Bull 4.16
        local pttl = redis.call('PTTL', KEYS[14])
        if pttl == 0 or pttl == -1 then redis.call('DEL', KEYS[14]) end
    end
    redis.pcall('PUBLISH', KEYS[7], ARGV[6])
elseif not ends then
    redis.pcall('PUBLISH', KEYS[2] .. '@', id)
end
return {'settled', room and 1 or 0}
