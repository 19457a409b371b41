#!lua
-- bull_requeue: puts a failed job of a Bull 4 queue back to its workers, as Bull's own Job.retry() does; at most once an event.
--
-- KEYS[1]  requeued  hash of ours: event -> what, when, by whom
-- KEYS[2]  failures  stream
-- KEYS[3]  meta      hash of ours; field `bytes`
-- KEYS[4]  job       its hash
-- KEYS[5]  job lock
-- KEYS[6]  failed    zset
-- KEYS[7]  wait      list
-- KEYS[8]  paused    list
-- KEYS[9]  meta-paused
-- KEYS[10] active    list
-- KEYS[11] delayed   zset
-- ARGV[1]  event     its field in requeued
-- ARGV[2]  mark      what stands there afterwards
-- ARGV[3]  again     '1': also when the event was answered before
-- ARGV[4]  id
-- ARGV[5]  push      LPUSH, or RPUSH of a lifo job
-- ARGV[6]  fields    how many names and values follow: of the hash, where it is gone
-- ARGV[7+] these, then names and values of the record
-- Reply    {'done', ms or '', '' or why it was not recorded}, {'answered', mark}, {'locked'} {'waiting'} a worker has it, or will,
--          {'type', key, found}
-- Safe     by HSETNX; everything is looked at before the first write; the job is pushed before it leaves failed; the mark is
--          taken back when the push is refused. No allow-oom: refused up front.
local wanted = {{'requeued', 'hash'}, {'failures', 'stream'}, {'meta', 'hash'}, {'job', 'hash'}, {'job lock', 'string'},
    {'failed', 'zset'}, {'wait', 'list'}, {'paused', 'list'}, {'meta-paused', 'string'}, {'active', 'list'}, {'delayed', 'zset'}}
for i, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
local id, target = ARGV[4], redis.call('EXISTS', KEYS[9]) == 1 and KEYS[8] or KEYS[7]
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and ARGV[3] ~= '1' then return {'answered', before} end
if redis.call('EXISTS', KEYS[5]) == 1 then return {'locked'} end
local failed = redis.call('ZSCORE', KEYS[6], id)
local there = redis.call('EXISTS', KEYS[4]) == 1
-- A job that is not failed is somewhere else, if it is at all; then Bull refuses as well.
if there and not failed then return {'waiting'} end
if redis.call('LPOS', KEYS[10], id) or redis.call('ZSCORE', KEYS[11], id) then return {'waiting'} end
local time = redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
local record = 7 + tonumber(ARGV[6])

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if not there and record > 7 then redis.call('HSET', KEYS[4], unpack(ARGV, 7, record - 1)) end
redis.call('HSET', KEYS[4], 'retriedOn', now)
local pushed = redis.pcall(ARGV[5], target, id)
if type(pushed) == 'table' then
    redis.call('HDEL', KEYS[1], ARGV[1])
    if before then redis.call('HSET', KEYS[1], ARGV[1], before) end
    if not there then redis.call('DEL', KEYS[4]) end
    return pushed
end
redis.call('HDEL', KEYS[4], 'finishedOn', 'processedOn', 'failedReason')
redis.call('ZREM', KEYS[6], id)
redis.pcall('PUBLISH', KEYS[7] .. 'ing@sidecar', id)
local added = redis.pcall('XADD', KEYS[2], '*', 'at', now, unpack(ARGV, record))
if type(added) == 'table' then return {'done', now, added.err} end
local bytes = #now + (tonumber(string.match(redis.call('HGET', KEYS[3], 'bytes') or '', '^%d+$')) or 0)
for i = record + 1, #ARGV, 2 do bytes = bytes + #ARGV[i] end
redis.call('HSET', KEYS[3], 'bytes', string.format('%.0f', bytes))
return {'done', now, ''}
