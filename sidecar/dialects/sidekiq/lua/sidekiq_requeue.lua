#!lua
-- sidekiq_requeue: pushes a dead job of Sidekiq to its queue, as the Web UI does, at most once for each failure.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its requeue marker, as requeue.lua writes it
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  ready     list that takes the job, behind all that wait
-- KEYS[5]  queues    set of the names of Sidekiq's queues
-- KEYS[6]  dead      zset of jobs
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  by        operator
-- ARGV[3]  again     '1': ignore a marker
-- ARGV[4]  job       to push
-- ARGV[5]  name      of the queue
-- ARGV[6]  member    of dead: the job as it failed; it may be gone
-- ARGV[7]  size      bytes of all values of the record
-- ARGV[8+] names and values of the record; this script adds 'at'
-- Reply    as requeue
-- Uses     types, requeues, erasures, rights
-- Safe     as requeue: the marker admits one caller, and all checks, also of rights, come before the first write. The job is in its queue
--          before it leaves dead. No allow-oom: a full Redis refuses the script.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'stream'}, {KEYS[3], KEYS[3], 'hash'},
    {KEYS[4], KEYS[4], 'list'}, {KEYS[5], KEYS[5], 'set'}, {KEYS[6], KEYS[6], 'zset'}}) or answered(true, ARGV[3] == '1')
    or missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'SADD', KEYS[5]}, {'LPUSH', KEYS[4]}, {'ZREM', KEYS[6]}})
if refusal then return refusal end
local time = redis.call('TIME')
local at = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
add_record(at, 'requeued ' .. at .. ' ' .. ARGV[2], {unpack(ARGV, 8)}, ARGV[7])
redis.call('SADD', KEYS[5], ARGV[5])
redis.call('LPUSH', KEYS[4], ARGV[4])
redis.call('ZREM', KEYS[6], ARGV[6])
return {'done'}
