#!lua flags=no-writes
-- jobs_page: reads a page of the jobs of a zset or a list for people: the next one to be due, to be taken or to be overdue first. Looks
-- for text and cuts large entries here, so that neither the call nor its reply is long.
--
-- KEYS[1]  jobs      zset, read from the lowest score; or list, read from one of its ends. Places count from there
-- KEYS[2]  details   hash: entry -> its payload; KEYS[1] again = none
-- ARGV[1]  kind      'zset'; 'list' or 'head', a list that is read from its tail or from its head
-- ARGV[2]  prefix    of the hashes of jobs, which the entries name; '' = none
-- ARGV[3]  count     most jobs in the reply
-- ARGV[4]  examine   most entries to read
-- ARGV[5]  most      bytes of the reply; the value that exceeds them is the last one
-- ARGV[6]  slice     us that the script may take
-- ARGV[7]  whole     bytes of the largest value that the reply has whole
-- ARGV[8]  head      bytes of a larger one in the reply
-- ARGV[9]  longest   bytes of the last entry in the reply, for the next page
-- ARGV[10] least     score; only jobs of this score or a higher one
-- ARGV[11] below     score; only jobs of a lower one; '' = all
-- ARGV[12] place     of the last entry of the page before; -1 = this is the first page
-- ARGV[13] score     of that entry
-- ARGV[14] size      of that entry
-- ARGV[15] id        of that entry, see id_of
-- ARGV[16] bytes     of that entry, or its beginning
-- ARGV[17] texts     number of texts; 0 = all jobs match
-- ARGV[18+] these: a job matches if its entry or one of its values has one of them; and then the names of the fields of the hash
--          prefix .. entry
-- Reply    {now in us, 1 if this was the last page, 1 if jobs may be missing, entries read, place, score, size, id and bytes of the last
--          entry; and for each job: score or '', bytes of its payload, 1 if that is cut, and the values: the entry, and its details,
--          the payload first}
-- Uses     types, clock
-- Optional HGET, HMGET, LRANGE, ZCARD, ZRANGE
-- Safe     reads only.
local time = redis.call('TIME')
local began = clock_us(time)
local key, zset, head_first, prefix = KEYS[1], ARGV[1] == 'zset', ARGV[1] == 'head', ARGV[2]
local hash = KEYS[2] ~= KEYS[1] and KEYS[2]
local refusal = wrong_type({{key, key, zset and 'zset' or 'list'}, hash and {hash, hash, 'hash'} or nil})
if refusal then return refusal end
local BACK, AHEAD, LOOK, ID_BYTES = 1024, 32, 1048576, 65536
local sub, byte, find = string.sub, string.byte, string.find
local count, examine, most, slice = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local whole, head, longest = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local least, below = tonumber(ARGV[10]), tonumber(ARGV[11])
local place, score, size, id, anchor = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14]), ARGV[15], ARGV[16]

-- A large entry costs Redis much time for a digest of the whole.
local function id_of(entry) return redis.sha1hex(#entry > ID_BYTES and sub(entry, 1, ID_BYTES) or entry) end
-- Returns the entries from a place on, and the scores of a zset.
local function read(from, number)
    local entries, scores = {}, {}
    local found
    if zset then
        found = redis.call('ZRANGE', key, from, from + number - 1, 'WITHSCORES')
        for i = 1, #found, 2 do entries[#entries + 1], scores[#scores + 1] = found[i], found[i + 1] end
    elseif head_first then
        entries = redis.call('LRANGE', key, from, from + number - 1)
    else
        found = redis.call('LRANGE', key, -from - number, -from - 1)
        for i = #found, 1, -1 do entries[#entries + 1] = found[i] end
    end
    return entries, scores
end
local function is_last(entry, its_score)
    return #entry == size and (not zset or tonumber(its_score) == score) and id_of(entry) == id
end
-- Whether an entry of a zset stands behind the last entry, or begins as it does and `equal`. Redis compares bytes, but Lua by the
-- locale.
local function stands_behind(entry, its_score, equal)
    if tonumber(its_score) ~= score then return tonumber(its_score) > score end
    local both = math.min(#entry, #anchor)
    for at = 1, both, 256 do
        local to = math.min(at + 255, both)
        if sub(entry, at, to) ~= sub(anchor, at, to) then
            while byte(entry, at) == byte(anchor, at) do at = at + 1 end
            return byte(entry, at) > byte(anchor, at)
        end
    end
    if #anchor == size then return #entry > #anchor end
    return #entry >= #anchor and equal
end
-- The first place of the zset whose entry stands behind the last entry.
local function first_behind(equal)
    local from, to = 0, redis.call('ZCARD', key)
    while from < to do
        local middle = math.floor((from + to) / 2)
        local entries, scores = read(middle, 1)
        if stands_behind(entries[1], scores[1], equal) then to = middle else from = middle + 1 end
    end
    return from
end
-- Jobs leave at the lowest place, and retries come there, so the last entry has moved. Returns the place behind it; nil = not found.
local function look_for_last(from)
    local step, bytes, seen = 1, 0, 0
    while from >= 0 and seen < BACK and bytes < LOOK do
        local first = math.max(0, from - step + 1)
        local entries, scores = read(first, from - first + 1)
        for i = #entries, 1, -1 do
            if is_last(entries[i], scores[i]) then return first + i end
            bytes = bytes + #entries[i]
        end
        seen, from, step = seen + from - first + 1, first - 1, math.min(step * 2, 128)
    end
end
-- Returns where this page begins, and whether jobs may be missing.
local function beginning()
    if place < 0 then return 0, 0 end
    local entries, scores = read(place, 1)
    if entries[1] and is_last(entries[1], scores[1]) then return place + 1, 0 end
    if zset and #anchor == size then return first_behind(false), 0 end
    local found = look_for_last(place + AHEAD)
    if found then return found, 0 end
    if not zset then return place + 1, 1 end
    return math.max(first_behind(true), math.min(place + 1, first_behind(false))), 1
end

local rest, text_count = {unpack(ARGV, 18)}, tonumber(ARGV[17])
local texts, fields = {unpack(rest, 1, text_count)}, {unpack(rest, text_count + 1)}
local function values_of(entry)
    if hash then return {entry, redis.call('HGET', hash, entry) or ''} end
    if prefix == '' then return {entry} end
    local values, found = {entry}, redis.pcall('HMGET', prefix .. entry, unpack(fields))
    for i = 1, #fields do values[i + 1] = not found.err and found[i] or '' end
    return values
end
local function matches(values)
    for _, text in ipairs(texts) do
        for _, value in ipairs(values) do
            if find(value, text, 1, true) then return true end
        end
    end
    return #texts == 0
end

local at, missing = beginning()
local reply = {string.format('%s%06d', time[1], time[2]), 0, missing, 0, ARGV[12], ARGV[13], ARGV[14], id, anchor}
local examined, found, bytes_read, bytes_sent, step, last, last_score = 0, 0, 0, 0, 1, nil, nil
local function add(values, its_score)
    local payload, from = values[2] or values[1], #reply
    reply[from + 1], reply[from + 2], reply[from + 3] = its_score, #payload, #payload > whole and 1 or 0
    for i, value in ipairs(values) do
        if #value > whole then value = sub(value, 1, head) end
        reply[from + 3 + i] = value
        bytes_sent = bytes_sent + #value
    end
    found = found + 1
end
local function goes_on()
    return found < count and examined < examine and bytes_sent <= most and bytes_read <= 4 * LOOK and clock_us() - began < slice
end
repeat
    local entries, scores = read(at, step)
    local ended, enough = #entries < step, false
    for i, entry in ipairs(entries) do
        local its_score = scores[i] or ''
        if below and tonumber(its_score) >= below then
            ended = true
            break
        end
        last, last_score, at, examined = entry, its_score, at + 1, examined + 1
        local wanted = not zset or tonumber(its_score) >= least
        local values = wanted and values_of(entry)
        for _, value in ipairs(values or {entry}) do bytes_read = bytes_read + #value end
        if wanted and matches(values) then add(values, its_score) end
        enough = found >= count or bytes_sent > most
        if enough then
            ended = ended and i == #entries
            break
        end
    end
    if ended then reply[2] = 1 end
    step = math.max(1, math.min(step * 2, 32, math.floor((LOOK - bytes_read) * examined / math.max(1, bytes_read))))
until ended or enough or not goes_on()
if last then
    reply[5], reply[6], reply[7], reply[8], reply[9] = at - 1, last_score, #last, id_of(last), sub(last, 1, longest)
end
reply[4] = examined
return reply
