#!lua flags=no-writes
-- sizes: measures many keys in one request. Redis gives an entry only as a whole, so the script ends behind a key that made it read
-- many bytes, and leaves the next ones to another call.
--
-- KEYS[1+] key       of any type
-- ARGV[1+] measure   for each: `length` of a list, or with ` zset` of a zset; `alone`: length of a list, and its only entry if this entry has at most
--                    1,024 bytes; `due`: members of a zset, and its lowest score; `records` of a stream; `bytes` or `marker`:
--                    fields of a hash; `active <prefix>`: length of a list of ids, and `processedOn` of <prefix><last id>;
--                    `group <name>` of a stream: entries that no consumer has read (at most UNREAD where Redis does not count them; -1 = unknown),
--                    pending entries, and the idle time of the first of these, ms; -1 = none
-- Reply    {now in us, for each key that was read its measures, separated by a space; or '!' and the error}
-- Optional XINFO, XPENDING, XRANGE
-- Safe     reads only; an error of one key leaves the others valid.
local MOST = 131072 -- bytes; the entry that exceeds them is the last one
local measures, bytes = {}, 0
function measures.length(key, kind)
    if kind == 'zset' then return redis.pcall('ZCARD', key) end
    return redis.pcall('LLEN', key)
end
function measures.records(key) return redis.pcall('XLEN', key) end
function measures.bytes(key)
    local of = redis.pcall('HMGET', key, 'bytes', 'entries')
    if of.err then return of end
    return (of[1] or '0') .. ' ' .. (of[2] or '')
end
function measures.alone(key)
    local length = redis.pcall('LLEN', key)
    if length ~= 1 then return length end
    local entry = redis.pcall('LRANGE', key, 0, 0)
    if entry.err then return entry end
    bytes = bytes + #(entry[1] or '')
    return entry[1] and #entry[1] <= 1024 and '1 ' .. entry[1] or 1
end
function measures.due(key)
    local count = redis.pcall('ZCARD', key)
    if count == 0 or type(count) == 'table' then return count end
    local head = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head.err then return head end
    bytes = bytes + #(head[1] or '')
    return string.format('%.0f', count) .. ' ' .. (head[2] or '')
end
function measures.marker(key)
    local of = redis.pcall('HMGET', key, 'n', 'random')
    if of.err then return of end
    return (of[1] or '0') .. ' ' .. (of[2] or '')
end
function measures.active(key, prefix)
    local length = redis.pcall('LLEN', key)
    if length == 0 or type(length) == 'table' then return length end
    local last = redis.pcall('LRANGE', key, -1, -1)
    if last.err then return last end
    local id = last[1]
    local since = id and redis.pcall('HGET', prefix .. id, 'processedOn')
    if type(since) == 'table' then return since end
    return string.format('%.0f', length) .. ' ' .. (since or '')
end
local UNREAD, STEP = 1000, 100
local function unread(key, last)
    local count, from = 0, '(' .. last
    repeat
        local entries = redis.pcall('XRANGE', key, from, '+', 'COUNT', STEP)
        if entries.err then return -1 end
        count = count + #entries
        for _, entry in ipairs(entries) do
            from = '(' .. entry[1]
            for _, text in ipairs(entry[2]) do bytes = bytes + #text end
        end
    until #entries < STEP or count >= UNREAD or bytes > MOST
    return count
end
function measures.group(key, name)
    local groups = redis.pcall('XINFO', 'GROUPS', key)
    if groups.err then return string.find(groups.err, 'no such key', 1, true) and '0 0 -1' or groups end
    for _, fields in ipairs(groups) do
        local of = {}
        for i = 1, #fields, 2 do of[fields[i]] = fields[i + 1] end
        if of.name == name then
            local first = of.pending > 0 and redis.pcall('XPENDING', key, name, '-', '+', 1) or {}
            -- XTRIM leaves `lag` as it is (redis 7.0 t_stream.c, streamTrim).
            local ready = of.lag and math.min(of.lag, redis.call('XLEN', key)) or unread(key, of['last-delivered-id'])
            return string.format('%.0f %.0f %.0f', ready, of.pending, first[1] and first[1][3] or -1)
        end
    end
    return '-1 0 -1'
end

local time = redis.call('TIME')
local reply = {string.format('%s%06d', time[1], time[2])}
for i, key in ipairs(KEYS) do
    local measure, prefix = string.match(ARGV[i], '^(%l+) ?(.*)$') -- or the name of a group, or a type
    local found = measures[measure](key, prefix)
    if type(found) == 'table' then
        found = '!' .. found.err
    elseif type(found) == 'number' then
        found = string.format('%.0f', found)
    end
    reply[i + 1] = found or ''
    if bytes > MOST then break end
end
return reply
