#!lua flags=no-writes
-- reports: reads the reports of workers without their texts, which stay in Redis until a job is settled.
--
-- KEYS[1]  errors    hash: job -> text; a text that begins with ! means: do not retry
-- ARGV[1]  cursor    0 at the beginning
-- ARGV[2]  skip      reports at this cursor that were read before
-- ARGV[3]  count     reports to read, roughly
-- ARGV[4]  most      bytes of jobs; one more job may follow
-- Reply    {next cursor, next skip, next count, and three for each report: job, id of the text, 1 for do not retry or else 0}.
--          The end is a cursor of 0 and a skip of 0. If the hash changes meanwhile, a report may come twice, or only in the
--          next walk.
-- Uses     report_ids
-- Safe     reads only.
local cursor, skip, count, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function scan()
    local found, bytes, texts = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', count), 0, 0
    for i = 1, #found[2], 2 do
        bytes = bytes + #found[2][i]
        texts = texts + #found[2][i + 1]
    end
    return found, bytes, texts
end
local found, bytes, texts = scan()
if bytes > most and count > 1 and skip == 0 then -- sizes are unknown until the jobs are read
    count = 1
    found, bytes, texts = scan()
end
local reply, told = {found[1], 0, count}, 0
for i = 2 * skip + 1, #found[2], 2 do
    if told > most then
        reply[1], reply[2] = cursor, (i - 1) / 2
        break
    end
    local text = found[2][i + 1]
    reply[#reply + 1] = found[2][i]
    reply[#reply + 1] = report_id(text)
    reply[#reply + 1] = string.sub(text, 1, 1) == '!' and 1 or 0
    told = told + #found[2][i]
end
if reply[2] == 0 and bytes > 0 and (bytes + texts) * 8 < most then reply[3] = math.min(4 * count, 128) end
if texts > most then reply[3] = 1 end
return reply
