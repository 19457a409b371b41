-- requeues: ends a requeue. Field ARGV[1] of the hash KEYS[1] is the requeue marker, KEYS[2] the stream, KEYS[3] the meta hash.
-- take_back undoes the write of the marker after a refusal. `size` is the bytes of all values of the record without `at`.
local function take_back(mark, why)
    local restored = mark and redis.pcall('HSET', KEYS[1], ARGV[1], mark) or redis.pcall('HDEL', KEYS[1], ARGV[1])
    local refusal = type(restored) == 'table' and restored.err
    return {'failed', refusal and why .. '; cannot remove the requeue marker (' .. refusal .. '): use --again' or why}
end
local function add_record(at, record, size)
    local added = redis.pcall('XADD', KEYS[2], '*', 'at', at, unpack(record))
    if type(added) == 'table' then return {'unrecorded', added.err} end
    local bytes = tonumber(string.match(redis.call('HGET', KEYS[3], 'bytes') or '', '^%d+$')) or 0
    redis.pcall('HSET', KEYS[3], 'bytes', string.format('%.0f', bytes + #at + size))
    return {'done'}
end
