#!lua flags=allow-oom
-- failed_events: reads what a stream of the workers tells about failures. Changes no key of the workers.
--
-- KEYS[1]  lock
-- KEYS[2]  events    stream of the workers; each entry is one of many kinds of events
-- KEYS[3]  meta      field `failed_cursor`: id of the entry up to which all failures have a record or need none; '' = none
-- ARGV[1]  token
-- ARGV[2]  done      an id that becomes the cursor; '' = read on from the cursor, or from the end of the stream if there is none; 'off'
--                    = forget the cursor
-- ARGV[3]  count     entries to read
-- ARGV[4]  size      stop after this many bytes of entries
-- ARGV[5]  job       name of the field with the id of the job
-- ARGV[6]  error     name of the field with the error
-- ARGV[7+] names and values that the entry of a failure has
-- Reply    {'events', id of the last entry that was read, '1' = entries behind it may have been trimmed unread, else '0', '1' = there may
--          be more entries, else '0', and for each failure: ms of its entry; id; error, at most 64 KiB}, {'off'}, {'fenced'}, {'type', key,
--          found}
-- Uses     types, fence
-- Safe     fenced; the only write is that of the cursor. After a lost reply the same entries are read again.
local refusal = fenced() or wrong_type({{'events', KEYS[2], 'stream'}, {'meta', KEYS[3], 'hash'}})
if refusal then return refusal end
local function end_of_stream()
    local info = redis.call('EXISTS', KEYS[2]) == 1 and redis.call('XINFO', 'STREAM', KEYS[2]) or {}
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then return info[i + 1] end
    end
    return '0-0'
end
local cursor = redis.call('HGET', KEYS[3], 'failed_cursor')
local from = ARGV[2]
if from == '' then from = cursor ~= '' and cursor or end_of_stream() end
if from == 'off' then from = '' end
if from ~= cursor then redis.call('HSET', KEYS[3], 'failed_cursor', from) end
if from == '' then return {'off'} end
-- Returns the id and the error of a failure, nil for another event; and the bytes of the entry.
local function read(fields)
    local of, size = {}, 0
    for i = 1, #fields, 2 do
        of[fields[i]] = fields[i + 1]
        size = size + #fields[i] + #fields[i + 1]
    end
    for k = 7, #ARGV, 2 do
        if of[ARGV[k]] ~= ARGV[k + 1] then return nil, nil, size end
    end
    return of[ARGV[5]], of[ARGV[6]], size
end
local kept = from == '0-0' or #redis.call('XRANGE', KEYS[2], '-', from, 'COUNT', 1) > 0
local reply = {'events', from, '0', '1'}
local count, size, step = 0, 0, 32
-- The sizes of entries are unknown until they are read, so read few at a time.
while reply[4] == '1' and count < tonumber(ARGV[3]) and size < tonumber(ARGV[4]) do
    local part = redis.call('XRANGE', KEYS[2], '(' .. reply[2], '+', 'COUNT', step)
    for _, entry in ipairs(part) do
        local id, failure, bytes = read(entry[2])
        reply[2], size = entry[1], size + bytes
        if id then
            reply[#reply + 1], reply[#reply + 2] = string.match(entry[1], '^%d+'), id
            reply[#reply + 1] = string.sub(failure or '', 1, 65536)
        end
    end
    count = count + #part
    if #part < step then reply[4] = '0' end
end
if count > 0 and not kept then reply[3] = '1' end
return reply
