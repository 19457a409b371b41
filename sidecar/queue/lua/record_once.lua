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
-- ARGV[4+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'changed'} the record exists, {'full'} the stream, {'fenced'}, {'type', key, found}
-- Uses     types, fence, records, now
-- Safe     fenced; writes the mark before the record, in one step. If Redis refuses the mark or the record, neither is
--          kept.
local refusal = fenced() or wrong_type({{'recorded', KEYS[2], 'zset'}, {'failures', KEYS[3], 'stream'}, {'meta', KEYS[4], 'hash'}})
if refusal then return refusal end
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return {'changed'} end
local now = now_ms()
local record = {'at', now, unpack(ARGV, 4)}
local bytes, length = stream_bytes(KEYS[3], KEYS[4], record)
if bytes > tonumber(ARGV[3]) then return {'full'} end
redis.call('ZADD', KEYS[2], now, ARGV[2])
local recorded = redis.pcall('XADD', KEYS[3], '*', unpack(record))
if type(recorded) == 'table' then
    redis.call('ZREM', KEYS[2], ARGV[2])
    return recorded
end
redis.call('HSET', KEYS[4], 'bytes', string.format('%.0f', bytes), 'entries', length + 1)
return {'settled', 1}
