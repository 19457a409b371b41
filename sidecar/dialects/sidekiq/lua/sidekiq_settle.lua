#!lua flags=allow-oom
-- sidekiq_settle: gives a job of a process that is gone back to its queue, or ends it, with a record in the failure stream.
--
-- KEYS[1]  lock
-- KEYS[2]  process   hash; its time left proves that its beat has ended
-- KEYS[3]  work      hash: thread -> its job
-- KEYS[4]  ready     list of the job's queue; workers take from its right end
-- KEYS[5]  queues    set of the names of Sidekiq's queues
-- KEYS[6]  dead      zset of Sidekiq; takes a job that ends
-- KEYS[7]  stamps
-- KEYS[8]  failures  stream
-- KEYS[9]  meta      fields `bytes` of all values in the stream, and `entries`, its length at that time
-- KEYS[10] recorded  the sidecar's zset: marks of recorded failures; see failed_seen
-- ARGV[1]  token
-- ARGV[2]  left      ms: a process whose keys last longer is alive
-- ARGV[3]  field     of work
-- ARGV[4]  value     of that field, that the decision rests on
-- ARGV[5]  job       its bytes
-- ARGV[6]  name      of the queue
-- ARGV[7]  stamp     its field in stamps
-- ARGV[8]  old       the stamp that the decision rests on; '' = none, or a value of another length, which is none
-- ARGV[9]  new       the stamp of a job that is given back; '' = the job ends
-- ARGV[10] most      bytes that the stream may hold
-- ARGV[11] notify    list that gets a notification of an end; '' = none
-- ARGV[12+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'settled', 0} given back, but the stream took no record, {'gone'} its field has changed, or the job waits in its
--          queue, {'alive'}, {'changed'} the stamp, {'full'} the job was not ended, {'fenced'}, {'type', key, found}
-- Optional LTRIM
-- Uses     types, fence, records, now, rights, notifications
-- Safe     fenced; compares; checks rights before the first write; adds before it removes. The field of work is the mark: who removes it has
--          given the job back, and a process that comes back writes the hash anew. A process that is stopped pushes its jobs back by itself,
--          at the right end (lib/sidekiq/fetch.rb, bulk_requeue), and may be killed before it removes its fields.
local refusal = fenced() or wrong_type({{'process', KEYS[2], 'hash'}, {'work', KEYS[3], 'hash'}, {'ready', KEYS[4], 'list'},
    {'queues', KEYS[5], 'set'}, {'dead', KEYS[6], 'zset'}, {'stamps', KEYS[7], 'hash'}, {'failures', KEYS[8], 'stream'},
    {'meta', KEYS[9], 'hash'}, {'recorded', KEYS[10], 'zset'}})
if refusal then return refusal end
local job, ends = ARGV[5], ARGV[9] == ''
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[4] then return {'gone'} end
for _, key in ipairs({KEYS[2], KEYS[3]}) do
    local left = redis.call('PTTL', key)
    if left == -1 or left > tonumber(ARGV[2]) then return {'alive'} end
end
local stamp = redis.call('HGET', KEYS[7], ARGV[7]) or ''
if #stamp ~= 28 then stamp = '' end
if stamp ~= ARGV[8] then return {'changed'} end
local waits = redis.call('LPOS', KEYS[4], job, 'RANK', -1, 'MAXLEN', 10000)
local now = now_ms()
local record = {'at', now, unpack(ARGV, 12)}
local bytes, length = stream_bytes(KEYS[8], KEYS[9], record)
local room = bytes <= tonumber(ARGV[10])
if ends and not room and not waits then return {'full'} end
refusal = missing_right({{'XADD', KEYS[8]}, {'HSET', KEYS[9]}, {'ZADD', ends and KEYS[6]}, {'ZADD', ends and KEYS[10]}, {'ZSCORE', ends and KEYS[6]}, {'RPUSH', not ends and KEYS[4]},
    {'SADD', not ends and KEYS[5]}, {'HSET', KEYS[7]}, {'HDEL', KEYS[7]}, {'HDEL', KEYS[3]}})
if refusal then return refusal end
if waits then
    redis.call('HDEL', KEYS[3], ARGV[3])
    return {'gone'}
end
local failure = not room and {'full'} or append_record(KEYS[8], KEYS[9], record, bytes, length)
if failure and (ends or failure[1] ~= 'full') then return failure end
if ends then
    redis.call('ZADD', KEYS[6], string.format('%.3f', now / 1000), job)
    redis.call('ZADD', KEYS[10], now, redis.sha1hex(job) .. ':' .. redis.call('ZSCORE', KEYS[6], job))
    redis.call('HDEL', KEYS[7], ARGV[7])
else
    redis.call('SADD', KEYS[5], ARGV[6])
    redis.call('RPUSH', KEYS[4], job)
    redis.call('HSET', KEYS[7], ARGV[7], ARGV[9])
end
redis.call('HDEL', KEYS[3], ARGV[3])
notify(ARGV[11], KEYS[9], now, {{record = not failure and record}})
return {'settled', failure and 0 or 1}
