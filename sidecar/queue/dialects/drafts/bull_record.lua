#!lua flags=allow-oom
-- bull_record: writes the record of a failure that a Bull 4 worker decided; Bull's own keys stay as they are.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset
-- KEYS[3]  recorded  zset of ours
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      hash of ours; field `bytes`
-- ARGV[1]  token
-- ARGV[2]  id
-- ARGV[3]  score     finishedOn; '' = the job was removed at once (removeOnFail) and only its message is known
-- ARGV[4]  mark      `<id>:<finishedOn>`; of a message: its SHA-1 and when it came, to the second
-- ARGV[5]  forget    score below which marks are dropped; older failures are not read again
-- ARGV[6]  most      bytes that the stream may hold
-- ARGV[7+] names and values of the record
-- Reply    {'settled', 1}, {'gone'} retried or removed since, {'changed'} it has its record, {'full'}, {'fenced'}, {'type', ..}
-- Safe     fenced; the mark is written in the step that writes the record.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
for i, want in ipairs({{'failed', 'zset'}, {'recorded', 'zset'}, {'failures', 'stream'}, {'meta', 'hash'}}) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
if ARGV[3] ~= '' and redis.call('ZSCORE', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'gone'} end
if redis.call('ZSCORE', KEYS[3], ARGV[4]) then return {'changed'} end
local time = redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
local bytes = #now + (tonumber(string.match(redis.call('HGET', KEYS[5], 'bytes') or '', '^%d+$')) or 0)
for i = 8, #ARGV, 2 do bytes = bytes + #ARGV[i] end
if bytes > tonumber(ARGV[6]) then return {'full'} end
redis.call('XADD', KEYS[4], '*', 'at', now, unpack(ARGV, 7))
redis.call('HSET', KEYS[5], 'bytes', string.format('%.0f', bytes))
redis.call('ZADD', KEYS[3], ARGV[3] ~= '' and ARGV[3] or now, ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[5])
return {'settled', 1}
