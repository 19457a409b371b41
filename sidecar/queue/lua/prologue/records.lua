-- records: returns the bytes of all values in the failure stream after `record` (names and values in turns) is added, and the
-- length of the stream now. After a trim by hand the count shrinks in proportion; otherwise the stream would stay full.
local function number(text) return tonumber(string.match(text or '', '^%d+$')) or 0 end
local function stream_bytes(stream, meta, record)
    local counted, length = redis.call('HMGET', meta, 'bytes', 'entries'), redis.call('XLEN', stream)
    local bytes, entries = number(counted[1]), number(counted[2])
    if entries > length then bytes = math.floor(bytes / entries * length) end
    for i = 2, #record, 2 do bytes = bytes + #record[i] end
    return bytes, length
end
-- append_record: adds the record and stores its counts. Returns nil, {'full'} if the stream has its highest possible id, or an error.
local function append_record(stream, meta, record, bytes, length)
    local added = redis.pcall('XADD', stream, '*', unpack(record))
    if type(added) == 'table' then return string.find(added.err, 'last possible ID', 1, true) and {'full'} or added end
    redis.call('HSET', meta, 'bytes', string.format('%.0f', bytes), 'entries', length + 1)
end
