#!lua flags=allow-oom
-- failed_record: writes the record of a failure that a worker decided. Changes no key of the workers.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset of the workers
-- KEYS[3]  recorded  the sidecar's zset; see failed_seen
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      fields `bytes`: of all values in the stream, and `entries`: their number when `bytes` was written
-- ARGV[1]  token
-- ARGV[2]  id      of the mark
-- ARGV[3]  score     of the mark `<id>:<score>`; '' = only a message tells of the failure, and it leaves no mark
-- ARGV[4]  time      of the failure, ms; '' = the score
-- ARGV[5]  compare   '1' = the record is right only while id has this score in failed; '' = the workers removed the job, or the member
--                    is the job itself
-- ARGV[6]  most      bytes that the stream may hold
-- ARGV[7]  notify    list that gets a notification; '' = none
-- ARGV[8+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'gone'} retried or removed since, {'changed'} recorded already, {'full'}, {'fenced'},
--          {'type', key, found}
-- Optional LLEN, LPUSH, LRANGE, LTRIM
-- Uses     types, fence, records, now, rights, notifications
-- Safe     fenced; compares the score; checks rights before the first write, so that record and mark (the entry in recorded) are
--          written together or not at all.
local wanted = {{'failed', KEYS[2], 'zset'}, {'recorded', KEYS[3], 'zset'}, {'failures', KEYS[4], 'stream'}, {'meta', KEYS[5], 'hash'}}
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local id, score = ARGV[2], ARGV[3]
local mark = score ~= '' and id .. ':' .. score
if ARGV[5] == '1' and redis.call('ZSCORE', KEYS[2], id) ~= score then return {'gone'} end
if mark and redis.call('ZSCORE', KEYS[3], mark) then return {'changed'} end
local now = now_ms()
local record = {'at', now, unpack(ARGV, 8)}
local bytes, length = stream_bytes(KEYS[4], KEYS[5], record)
if bytes > tonumber(ARGV[6]) then return {'full'} end
refusal = missing_right({{'XADD', KEYS[4]}, {'HSET', KEYS[5]}, {'ZADD', mark and KEYS[3]}})
    or append_record(KEYS[4], KEYS[5], record, bytes, length)
if refusal then return refusal end
if mark then redis.call('ZADD', KEYS[3], ARGV[4] ~= '' and ARGV[4] or score, mark) end
notify(ARGV[7], KEYS[5], now, {{record = record}})
return {'settled', 1}
