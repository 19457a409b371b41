#!lua flags=no-writes
-- list_end: finds reported jobs among the entries at one end of a list, without their removal and within a limit of bytes. Texts
-- stay in Redis until a job is settled. Redis copies a text to read it, so of many reports the script asks for the
-- lengths first.
--
-- KEYS[1]  list
-- KEYS[2]  errors    hash: job -> text; a text that begins with ! means: do not retry
-- ARGV[1]  side      '1' = at the head, '-1' = at the tail
-- ARGV[2]  skip      entries of that end to skip
-- ARGV[3]  count     most entries to read, at least 1
-- ARGV[4]  first     entries of the first step, because sizes are unknown until entries are read
-- ARGV[5]  most      bytes of entries and texts; the entry that exceeds them is the last one
-- Reply    {1 if the list has no entry beyond, or else 0; the number of entries read; their bytes; bytes of the largest of them; and
--          three for each reported job, from the tail to the head: job, id of the text, 1 for do not retry or else 0}
-- Optional HSTRLEN
-- Uses     report_ids
-- Safe     reads only.
local FEW = 16 -- of so few reports the monitor has read all, and knows which are large (monitor/scan/search.c, FEW_REPORTS)
local GROWTH = 8 -- the last step reads so many times the entries of the first one
local head, skip, count = ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local first, most = tonumber(ARGV[4]), tonumber(ARGV[5])
local measures = redis.call('HLEN', KEYS[2]) > FEW
local function text_length(job)
    local length = measures and redis.pcall('HSTRLEN', KEYS[2], job)
    measures = type(length) == 'number' -- Redis may refuse it
    return measures and length or 0
end
local found, read, entries, largest, texts, step, ended = {}, 0, 0, 0, 0, first, 0
while read < count and entries + texts <= most and ended == 0 do
    local wanted, before = math.min(step, count - read), entries + texts
    local from, to = skip + read, skip + read + wanted - 1
    if not head then from, to = -to - 1, -from - 1 end
    local some = redis.call('LRANGE', KEYS[1], from, to)
    local jobs, lengths = {}, 0 -- the nearest to the end first
    while #jobs < #some and entries + texts + lengths <= most do
        local job = some[head and #jobs + 1 or #some - #jobs]
        jobs[#jobs + 1] = job
        entries, largest, lengths = entries + #job, math.max(largest, #job), lengths + text_length(job)
    end
    local reports = #jobs > 0 and redis.call('HMGET', KEYS[2], unpack(jobs))
    for i, job in ipairs(jobs) do
        local text = reports[i]
        if text then
            texts = texts + #text
            found[#found + 1] = {job, report_id(text), string.sub(text, 1, 1) == '!' and 1 or 0}
        end
    end
    if #jobs == #some and #some < wanted then ended = 1 end
    read = read + #jobs
    if (entries + texts - before) * 8 < most then step = math.min(2 * step, GROWTH * first) end
end
local reply = {ended, read, entries, largest}
for n = 1, #found do
    local report = found[head and #found + 1 - n or n]
    for i = 1, 3 do reply[#reply + 1] = report[i] end
end
return reply
