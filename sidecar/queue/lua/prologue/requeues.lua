-- requeues: the end of a requeue. KEYS[1], ARGV[1] is its mark, KEYS[2] the stream, KEYS[3] the meta hash. A refusal removes the
-- mark. `size` is the bytes of all values of the record without `at`.
local function take_back(mark, why)
    local undone = mark and redis.pcall('HSET', KEYS[1], ARGV[1], mark) or redis.pcall('HDEL', KEYS[1], ARGV[1])
    local kept = type(undone) == 'table' and undone.err
    return {'failed', kept and why .. '; its mark could not be taken back (' .. kept .. '): use --again' or why}
end
local function add_record(at, record, size)
    local added = redis.pcall('XADD', KEYS[2], '*', 'at', at, unpack(record))
    if type(added) == 'table' then return {'unrecorded', added.err} end
    local bytes = tonumber(string.match(redis.call('HGET', KEYS[3], 'bytes') or '', '^%d+$')) or 0
    redis.pcall('HSET', KEYS[3], 'bytes', string.format('%.0f', bytes + #at + size))
    return {'done'}
end
