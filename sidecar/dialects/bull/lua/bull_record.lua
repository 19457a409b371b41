#!lua flags=allow-oom
-- bull_record: writes the record of a failure that a Bull 4 worker decided; Bull's own keys stay as they are.
--
-- KEYS[1]  lock
-- KEYS[2]  failed    zset
-- KEYS[3]  recorded  zset of ours, see bull_seen
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      fields `bytes`: of all values in the stream, and `entries`: how many they were when that was written
-- ARGV[1]  token
-- ARGV[2]  id
-- ARGV[3]  score     in failed; '' = the job was removed at once (removeOnFail), and only its message is known
-- ARGV[4]  most      bytes that the stream may hold
-- ARGV[5+] names and values of the record; 'at' is added here
-- Reply    {'settled', 1}, {'gone'} retried or removed since, {'changed'} it has its record, {'full'}, {'fenced'},
--          {'type', key, found}
-- Safe     fenced; by compare; the mark and the record are written in one step. The mark could be refused behind the record, by a
--          right that was taken away, so the right is tried first, by a ZADD that changes nothing.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local wanted = {{'failed', KEYS[2], 'zset'}, {'recorded', KEYS[3], 'zset'}, {'failures', KEYS[4], 'stream'}, {'meta', KEYS[5], 'hash'}}
for _, want in ipairs(wanted) do
    local found = redis.call('TYPE', want[2]).ok
    if found ~= 'none' and found ~= want[3] then return {'type', want[1], found} end
end
local mark = ARGV[2] .. ':' .. ARGV[3]
if ARGV[3] ~= '' then
    if redis.call('ZSCORE', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'gone'} end
    if redis.call('ZSCORE', KEYS[3], mark) then return {'changed'} end
end
local time = redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
local record, bytes = {'at', now}, 0
for i = 5, #ARGV do record[#record + 1] = ARGV[i] end
for i = 2, #record, 2 do bytes = bytes + #record[i] end
local function number(text) return tonumber(string.match(text or '', '^%d+$')) or 0 end
local meta, length = redis.call('HMGET', KEYS[5], 'bytes', 'entries'), redis.call('XLEN', KEYS[4])
local counted, entries = number(meta[1]), number(meta[2])
-- Who trims or deletes the stream by hand does not count: the rest has its share, or it would be full for ever.
if entries > length then counted = math.floor(counted / entries * length) end
bytes = bytes + counted
if bytes > tonumber(ARGV[4]) then return {'full'} end
redis.call('ZADD', KEYS[3], 'XX', '0', mark)

redis.call('XADD', KEYS[4], '*', unpack(record))
if ARGV[3] ~= '' then redis.call('ZADD', KEYS[3], ARGV[3], mark) end
redis.call('HSET', KEYS[5], 'bytes', string.format('%.0f', bytes), 'entries', length + 1)
return {'settled', 1}
