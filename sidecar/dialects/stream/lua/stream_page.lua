#!lua flags=no-writes
-- stream_page: walks a part of the pending entries of a consumer group, and returns those that may need an action.
--
-- KEYS[1]  stream
-- KEYS[2]  errors    hash: id of an entry -> its report
-- ARGV[1]  group
-- ARGV[2]  from      start of the walk: '-', or '(' and the last id of the page before
-- ARGV[3]  to        end of the walk: '+', or an id
-- ARGV[4]  idle      ms; younger entries are skipped, unless they have a report
-- ARGV[5]  count     most entries of the reply
-- ARGV[6]  slice     us that the walk may take
-- ARGV[7]  most      bytes; the reply has only the size and the SHA-1 of a larger entry
-- ARGV[8]  bytes     of all entries; the one that exceeds them is the last
-- ARGV[9]  timeout   ms: skips entries of a consumer that has read within this time; '' = none
-- Reply    {'page', the last id of the walk or '', 1 at the end of the pending entries or else 0, and for each entry: its id, consumer, idle
--          time in ms, deliveries, bytes of its names and values, SHA-1 if it is larger than `most` or else '', and an array
--          of its names and values, empty if it is larger or deleted}
-- Uses     clock, consumers, deliveries
-- Safe     reads only. Counts limit each XPENDING: with IDLE, Redis would read all entries in one step to find none.
local STEP = 64 -- entries: Lua takes some 2 us for each
local LOOK = 8 -- entries that are added, each 6 us and more, between two looks at the clock
local began = clock_us()
local stream, group, from, last = KEYS[1], ARGV[1], ARGV[2], ''
local idle, count, slice, most, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local reply, found, bytes, ended = {'page', '', 0}, 0, 0, false
local reports = redis.pcall('HLEN', KEYS[2])
if type(reports) == 'table' then return reports end
local function add(pending)
    local entry = redis.call('XRANGE', stream, pending[1], pending[1])[1]
    local fields, size = entry and entry[2] or {}, 0
    for _, text in ipairs(fields) do size = size + #text end
    local large = size > most
    for _, value in ipairs({pending[1], pending[2], pending[3], deliveries_of(pending), size, large and redis.sha1hex(table.concat(fields, '\0')) or '',
        large and {} or fields}) do reply[#reply + 1] = value end
    found, bytes = found + 1, bytes + size
end
local function wanted(pending)
    if reports > 0 and redis.call('HEXISTS', KEYS[2], pending[1]) == 1 then return true end
    return pending[3] >= idle and not consumer_is_alive(stream, group, pending[2], ARGV[9])
end
local function late() return clock_us() - began >= slice end
repeat
    local step, at, full = redis.pcall('XPENDING', stream, group, from, ARGV[3], STEP), 0, false
    if step.err then return step end
    while at < #step and not full do
        at = at + 1
        last = step[at][1]
        if wanted(step[at]) then
            add(step[at])
            full = found >= count or bytes >= room or found % LOOK == 0 and late()
        end
    end
    ended, from = #step < STEP and at == #step, '(' .. last
until ended or full or late()
reply[2], reply[3] = last, ended and 1 or 0
return reply
