#!lua flags=no-writes
-- reports: what workers reported, without the texts: those stay in Redis until a job is settled.
--
-- KEYS[1]  errors    hash: job -> text; a text that begins with ! means: do not retry
-- ARGV[1]  cursor    0 at the beginning
-- ARGV[2]  count     about so many
-- Reply    {next cursor, and three for each report: job, SHA-1 of the text, 1 for do not retry or else 0}
-- Safe     reads only.
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local reply = {found[1]}
for i = 1, #found[2], 2 do
    local text = found[2][i + 1]
    reply[#reply + 1] = found[2][i]
    reply[#reply + 1] = redis.sha1hex(text)
    reply[#reply + 1] = string.sub(text, 1, 1) == '!' and 1 or 0
end
return reply
