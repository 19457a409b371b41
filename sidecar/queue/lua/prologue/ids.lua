-- ids: compares stream ids. compare_digits compares two numbers in decimal text: 1 = a is above b, 0 = equal, -1 = below. Lua's
-- numbers are exact only to 2^53.
local function compare_digits(a, b)
    if #a ~= #b then
        a, b = string.gsub(a, '^0+', ''), string.gsub(b, '^0+', '')
        if #a ~= #b then return #a > #b and 1 or -1 end
    end
    if a == b then return 0 end
    return a > b and 1 or -1
end
local function above(a, b) -- {ms, seq} each
    local order = compare_digits(a[1], b[1])
    if order == 0 then order = compare_digits(a[2], b[2]) end
    return order == 1
end
-- Returns {ms, seq} of the last id that the stream has given; nil, nil, error = Redis refuses the read. XINFO replies with the first and the last
-- entry, so it is asked only if the stream is empty, or if a script of an older version may have added the last record; then the
-- second value is the id as text.
local function last_id(stream, meta)
    local known = redis.pcall('HGET', meta, 'last')
    local ms, seq = string.match(type(known) == 'string' and known or '', '^(%d+)%-(%d+)$')
    local length = ms and redis.pcall('XLEN', stream)
    if type(length) == 'table' then return nil, nil, length.err end -- to raise it could come after a write
    local behind = ms and length > 0 and redis.pcall('XRANGE', stream, '(' .. known, '+', 'COUNT', 1)
    if behind and not behind.err and #behind == 0 then return {ms, seq} end
    local info = redis.pcall('XINFO', 'STREAM', stream)
    if info.err and string.find(info.err, 'no such key', 1, true) then return {'0', '0'} end
    if info.err then return nil, nil, info.err end
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then return {string.match(info[i + 1], '^(%d+)%-(%d+)$')}, info[i + 1] end
    end
end
