#!lua flags=no-writes
-- bull_failed: finds failures of a Bull 4 queue that have no record yet, with the fields for one.
--
-- KEYS[1]  failed    zset, score = finishedOn by a worker's clock
-- KEYS[2]  recorded  the sidecar's zset; see bull_seen
-- ARGV[1]  prefix    of the keys of jobs
-- ARGV[2]  from      score to begin at; '' = look up the given ids
-- ARGV[3]  skip      entries to skip from that score on
-- ARGV[4]  count     entries to read
-- ARGV[5]  jobs      stop after this many failures without a record, 1 to 1000
-- ARGV[6]  size      stop after this many bytes of these
-- ARGV[7]  most      bytes of a job; of a larger job the reply has only small fields
-- ARGV[8]  fields    number of field names that follow
-- ARGV[9+] field names, then ids
-- Reply    {now in ms, entries read, score of the last one, how many of them have that score, and for each failure without a
--          record: id; score, '' = not in failed; state and fields as prologue/jobs.lua appends them}
-- Uses     jobs, now
-- Safe     reads only; a key that is not a hash does not affect other jobs.
local fields, most = {}, tonumber(ARGV[7])
for i = 9, 8 + ARGV[8] do fields[#fields + 1] = ARGV[i] end
local asked = {}
if ARGV[2] ~= '' then
    asked = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[4])
else
    for i = 9 + ARGV[8], #ARGV do
        asked[#asked + 1] = ARGV[i]
        asked[#asked + 1] = redis.call('ZSCORE', KEYS[1], ARGV[i]) or ''
    end
end
local reply = {now_ms(), 0, '', 0}
local found, size = 0, 0

for i = 1, #asked, 2 do
    if found >= tonumber(ARGV[5]) or size >= tonumber(ARGV[6]) then break end
    local id, score = asked[i], asked[i + 1]
    reply[2] = reply[2] + 1
    reply[4] = score == reply[3] and reply[4] + 1 or 1
    reply[3] = score
    if score == '' or not redis.call('ZSCORE', KEYS[2], id .. ':' .. score) then
        reply[#reply + 1], reply[#reply + 2] = id, score
        size = size + add_job(reply, ARGV[1] .. id, fields, most, false)
        found = found + 1
    end
end
return reply
