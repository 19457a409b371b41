#!lua flags=allow-oom
-- record_once: writes one record of a failure that workers decided. Leaves the keys of the workers unchanged.
--
-- KEYS[1]  lock
-- KEYS[2]  recorded  zset: mark -> when the mark was written, or when a scan last saw the failure
-- KEYS[3]  failures  stream
-- KEYS[4]  meta      hash; fields `bytes` and `entries`, see settle
-- ARGV[1]  token
-- ARGV[2]  mark      identifies the failure
-- ARGV[3]  most      largest stream, bytes
-- ARGV[4]  notify    list that gets a notification; '' = none
-- ARGV[5+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'changed'} the record exists, {'full'} the stream, {'fenced'}, {'type', key, found}
-- Optional LLEN, LPUSH, LRANGE, LTRIM
-- Uses     types, fence, records, now, rights, notifications
-- Safe     fenced; checks preconditions and rights before the first write. The record comes first: only XADD notices a stream at
--          its last id.
local refusal = fenced() or wrong_type({{'recorded', KEYS[2], 'zset'}, {'failures', KEYS[3], 'stream'}, {'meta', KEYS[4], 'hash'}})
if refusal then return refusal end
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return {'changed'} end
local now = now_ms()
local record = {'at', now, unpack(ARGV, 5)}
local bytes, length = stream_bytes(KEYS[3], KEYS[4], record)
if bytes > tonumber(ARGV[3]) then return {'full'} end
refusal = missing_right({{'XADD', KEYS[3]}, {'HSET', KEYS[4]}, {'ZADD', KEYS[2]}})
if refusal then return refusal end
refusal = append_record(KEYS[3], KEYS[4], record, bytes, length)
if refusal then return refusal end
redis.call('ZADD', KEYS[2], now, ARGV[2])
notify(ARGV[4], KEYS[4], now, {{record = record}})
return {'settled', 1}
