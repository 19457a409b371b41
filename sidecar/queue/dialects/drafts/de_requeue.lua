#!lua
-- de_requeue: schedules an event of fred84's delayedQueue anew, due now, with a count of attempts that begins again.
--
-- KEYS[1]  requeued  hash of ours: event -> what, when, by whom
-- KEYS[2]  failures  stream
-- KEYS[3]  meta      hash of ours; field `bytes`
-- KEYS[4]  delayed   zset
-- KEYS[5]  events    hash
-- ARGV[1]  event     its field in requeued
-- ARGV[2]  mark      what stands there afterwards
-- ARGV[3]  again     '1': also when the event was answered before
-- ARGV[4]  member
-- ARGV[5]  envelope  with attempt 1
-- ARGV[6+] names and values of the record
-- Reply    {'done', ms, '' or why it was not recorded}, {'answered', mark}, {'waiting'} the application has enqueued it again,
--          {'type', key, found}
-- Safe     by HSETNX; HSET before ZADD NX, as the library enqueues; an event that is there already is left alone.
for i, want in ipairs({{'requeued', 'hash'}, {'failures', 'stream'}, {'meta', 'hash'}, {'delayed', 'zset'}, {'events', 'hash'}}) do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and ARGV[3] ~= '1' then return {'answered', before} end
local member = ARGV[4]
if redis.call('HEXISTS', KEYS[5], member) == 1 or redis.call('ZSCORE', KEYS[4], member) then return {'waiting'} end
local time = redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local put = redis.pcall('HSET', KEYS[5], member, ARGV[5])
if type(put) ~= 'table' then put = redis.pcall('ZADD', KEYS[4], 'NX', now, member) end
if type(put) == 'table' then
    redis.call('HDEL', KEYS[5], member)
    redis.call('HDEL', KEYS[1], ARGV[1])
    if before then redis.call('HSET', KEYS[1], ARGV[1], before) end
    return put
end
local added = redis.pcall('XADD', KEYS[2], '*', 'at', now, unpack(ARGV, 6))
if type(added) == 'table' then return {'done', now, added.err} end
local bytes = #now + (tonumber(string.match(redis.call('HGET', KEYS[3], 'bytes') or '', '^%d+$')) or 0)
for i = 7, #ARGV, 2 do bytes = bytes + #ARGV[i] end
redis.call('HSET', KEYS[3], 'bytes', string.format('%.0f', bytes))
return {'done', now, ''}
