-- requeues: adds the record of a requeue and sets the requeue marker. KEYS[1] is the hash of markers, KEYS[2] the stream, KEYS[3] the
-- meta hash. `size` is the bytes of all values of the record without `at`. Only XADD notices a stream without further ids, so XADD is the
-- first write of the script: an error of XADD changes nothing.
local function add_record(at, marker, record, size)
    local bytes = tonumber(string.match(redis.call('HGET', KEYS[3], 'bytes') or '', '^%d+$')) or 0
    local id = redis.call('XADD', KEYS[2], '*', 'at', at, unpack(record))
    redis.call('HSET', KEYS[3], 'bytes', string.format('%.0f', bytes + #at + size), 'last', id)
    redis.call('HSET', KEYS[1], ARGV[1], marker)
end
