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
