#!lua flags=allow-oom
-- bull_record: writes the record of a failure that a Bull 4 worker decided. Changes no key of Bull.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset
-- KEYS[3]  recorded  the sidecar's zset; see bull_seen
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      fields `bytes`: of all values in the stream, and `entries`: their number when `bytes` was written
-- ARGV[1]  token
-- ARGV[2]  id
-- ARGV[3]  score     in failed; '' = Bull removed the job at once (removeOnFail), and only its message is known
-- ARGV[4]  most      bytes that the stream may hold
-- ARGV[5+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'gone'} retried or removed since, {'changed'} recorded already, {'full'}, {'fenced'},
--          {'type', key, found}
-- Uses     types, fence, records, now, rights
-- Safe     fenced; compares the score; checks rights before the first write, so that record and mark (the entry in recorded) are
--          written together or not at all.
local wanted = {{'failed', KEYS[2], 'zset'}, {'recorded', KEYS[3], 'zset'}, {'failures', KEYS[4], 'stream'}, {'meta', KEYS[5], 'hash'}}
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local mark = ARGV[2] .. ':' .. ARGV[3]
if ARGV[3] ~= '' then
    if redis.call('ZSCORE', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'gone'} end
    if redis.call('ZSCORE', KEYS[3], mark) then return {'changed'} end
end
local now = now_ms()
local record = {'at', now, unpack(ARGV, 5)}
local bytes, length = stream_bytes(KEYS[4], KEYS[5], record)
if bytes > tonumber(ARGV[4]) then return {'full'} end
refusal = missing_right({{'XADD', KEYS[4]}, {'HSET', KEYS[5]}, {'ZADD', ARGV[3] ~= '' and KEYS[3]}})
    or append_record(KEYS[4], KEYS[5], record, bytes, length)
if refusal then return refusal end
if ARGV[3] ~= '' then redis.call('ZADD', KEYS[3], ARGV[3], mark) end
return {'settled', 1}
