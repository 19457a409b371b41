#!lua
-- delayed_requeue: schedules an event of fred84's delayedQueue again, due now, with attempt 1, at most once for each failure.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its requeue marker, as requeue.lua writes it
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  delayed   zset
-- KEYS[5]  events    hash: member -> envelope
-- KEYS[6]  to        meta hash of the queue that gets the event; field `types`: the classes that its leader sends (delayed_serve)
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  by        operator
-- ARGV[3]  again     '1': ignore a requeue marker
-- ARGV[4]  member
-- ARGV[5]  envelope  with attempt 1
-- ARGV[6]  size      bytes of all values of the record
-- ARGV[7]  class     of the event
-- ARGV[8+] names and values of the record; 'at' is added here
-- Reply    as requeue; {'waiting', why} if the event is scheduled: it was requeued, or the application enqueued it again;
--          {'unfit', why} if the leader does not send its class
-- Uses     types, now, requeues, erasures, rights
-- Safe     not fenced; checks everything, also the rights, before the first write, so event, record and marker are written together
--          or not at all. HSET before ZADD NX, as the library enqueues: an envelope without a member has no effect. Without
--          allow-oom: a full Redis refuses the script.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'stream'}, {KEYS[3], KEYS[3], 'hash'},
    {KEYS[4], KEYS[4], 'zset'}, {KEYS[5], KEYS[5], 'hash'}, {KEYS[6], KEYS[6], 'hash'}})
if refusal then return refusal end
local member = ARGV[4]
refusal = answered(true, ARGV[3] == '1')
if refusal then return refusal end
if redis.call('ZSCORE', KEYS[4], member) or redis.call('HGET', KEYS[5], member) then
    return {'waiting', 'it is scheduled already'}
end
local classes = redis.call('HGET', KEYS[6], 'types')
if classes and not string.find(classes, ' ' .. ARGV[7] .. ' ', 1, true) then
    return {'unfit', 'the leader does not send its class yet: let the leader read this config first (reload or restart)'}
end
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'HSET', KEYS[5]}, {'ZADD', KEYS[4]}})
if refusal then return refusal end
local now = now_ms()
add_record(now, 'requeued ' .. now .. ' ' .. ARGV[2], {unpack(ARGV, 8)}, ARGV[6])
redis.call('HSET', KEYS[5], member, ARGV[5])
redis.call('ZADD', KEYS[4], 'NX', now .. '.25', member) -- the fraction: no producer has set the score (delayed_reschedule)
return {'done'}
