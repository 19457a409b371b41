#!lua flags=no-writes
-- failed_page: finds failures that have no record yet, with what a record needs.
--
-- KEYS[1]  failed    zset of the workers; score = when the job failed, by a worker's clock; a member is the id of a job, or a job
-- KEYS[2]  recorded  the sidecar's zset; see failed_seen
-- ARGV[1]  prefix    of the keys of jobs
-- ARGV[2]  from      score to begin at; '' = look up the given ids
-- ARGV[3]  skip      entries to skip from that score on
-- ARGV[4]  count     entries to read
-- ARGV[5]  jobs      stop after this many failures without a record, 1 to 1000
-- ARGV[6]  size      stop after this many bytes of these; of members that are jobs, after this many bytes of all that were read
-- ARGV[7]  most      bytes of a job; of a larger job the reply has only small fields
-- ARGV[8]  fields    number of field names that follow; 0 = a member is a job
-- ARGV[9+] field names, then ids
-- Reply    {now in ms, entries read, score of the last one, how many of them have that score, and for each failure without a
--          record: id; score, '' = not in failed; state and fields as prologue/hash_jobs.lua appends them. If a member is a job,
--          the id is the member's SHA-1, the state is '' or 'large N', and the only field is the member, '' if it is large}
-- Uses     hash_jobs, now
-- Safe     reads only; a key that is not a hash does not affect other jobs.
local fields, most, is_job = {}, tonumber(ARGV[7]), ARGV[8] == '0'
for i = 9, 8 + ARGV[8] do fields[#fields + 1] = ARGV[i] end
local most_found, most_size = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Entries of members that are jobs. Their sizes are unknown until they are read, so they are read a few at a time.
local function jobs_of_page()
    local asked, size, part = {}, 0, nil
    repeat
        local skip = string.format('%.0f', ARGV[3] + #asked / 2)
        part = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', skip, 8)
        for _, text in ipairs(part) do
            asked[#asked + 1] = text
            size = size + #text
        end
    until #part < 16 or size >= most_size or #asked / 2 >= tonumber(ARGV[4])
    return asked
end

local asked = {}
if ARGV[2] == '' then
    for i = 9 + ARGV[8], #ARGV do
        asked[#asked + 1] = ARGV[i]
        asked[#asked + 1] = redis.call('ZSCORE', KEYS[1], ARGV[i]) or ''
    end
elseif is_job then
    asked = jobs_of_page()
else
    asked = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[4])
end
local reply = {now_ms(), 0, '', 0}
local found, size = 0, 0

for i = 1, #asked, 2 do
    if found >= most_found or size >= most_size then break end
    local member, score = asked[i], asked[i + 1]
    local id = is_job and redis.sha1hex(member) or member
    reply[2] = reply[2] + 1
    reply[4] = score == reply[3] and reply[4] + 1 or 1
    reply[3] = score
    if score == '' or not redis.call('ZSCORE', KEYS[2], id .. ':' .. score) then
        reply[#reply + 1], reply[#reply + 2] = id, score
        found = found + 1
        if not is_job then
            size = size + add_job(reply, ARGV[1] .. id, fields, most, false)
        else
            local large = #member > most
            reply[#reply + 1] = large and string.format('large %.0f', #member) or ''
            reply[#reply + 1] = large and '' or member
        end
    end
end
return reply
