#!lua
-- jobs_cancel: ends a delayed job, with a record in the failure stream.
--
-- KEYS[1]  delayed   zset, score = due time
-- KEYS[2]  failures  stream
-- KEYS[3]  meta      hash; fields `bytes` and `entries`, see settle
-- KEYS[4]  stamps    hash
-- ARGV[1]  job
-- ARGV[2]  score     that the decision rests on
-- ARGV[3]  digest    the job's field in stamps
-- ARGV[4]  stamp     that the decision rests on; '' = none
-- ARGV[5]  ends      '1': the stamp is of this job, which was retried, and ends with it
-- ARGV[6]  most      largest stream, bytes
-- ARGV[7]  notify    list that gets a notification; '' = none
-- ARGV[8]  error     of the record; '' = none
-- ARGV[9+] names and values of the record; this script adds 'at', 'error' and 'payload'
-- Reply    {'done'}, {'gone'} not in the zset: promoted or ended meanwhile, {'changed'} its score or its stamp, {'full'} the stream,
--          {'type', key, found}
-- Optional LLEN, LPUSH, LRANGE, LTRIM
-- Uses     types, records, now, rights, notifications
-- Safe     not fenced: an operator asks for it, under any leader. By compare; checks everything, also the rights, before the first
--          write. The record comes first, since only XADD notices a stream at its last id. So record and removal are done together
--          or not at all. Has no allow-oom, so a full Redis 7 refuses the script.
local delayed, stream, meta, stamps = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local refusal = wrong_type({{delayed, delayed, 'zset'}, {stream, stream, 'stream'}, {meta, meta, 'hash'}, {stamps, stamps, 'hash'}})
if refusal then return refusal end
local ends = ARGV[5] == '1'
refusal = missing_right({{'ZSCORE', delayed}, {'HGET', stamps}, {'XADD', stream}, {'HSET', meta}, {'ZREM', delayed},
    {'HDEL', ends and stamps}})
if refusal then return refusal end
local score = redis.call('ZSCORE', delayed, ARGV[1])
if not score then return {'gone'} end
if tonumber(score) ~= tonumber(ARGV[2]) or (redis.call('HGET', stamps, ARGV[3]) or '') ~= ARGV[4] then return {'changed'} end
local now = now_ms()
local record = {'at', now, 'payload', ARGV[1], unpack(ARGV, 9)}
if ARGV[8] ~= '' then record[#record + 1], record[#record + 2] = 'error', ARGV[8] end
local bytes, length = stream_bytes(stream, meta, record)
if bytes > tonumber(ARGV[6]) then return {'full'} end
refusal = append_record(stream, meta, record, bytes, length)
if refusal then return refusal end
redis.call('ZREM', delayed, ARGV[1])
if ends then redis.call('HDEL', stamps, ARGV[3]) end
notify(ARGV[7], meta, now, {{record = record}})
return {'done'}
