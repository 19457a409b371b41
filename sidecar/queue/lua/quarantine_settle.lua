#!lua flags=allow-oom
-- quarantine_settle: ends quarantined members with a record each, or sends them, or only removes them from quarantine. Answers for
-- each member by itself.
--
-- KEYS[1]  lock
-- KEYS[2]  aside     zset
-- KEYS[3]  delayed   zset
-- KEYS[4]  events    hash: member -> envelope; KEYS[3] again = the queue has no envelopes (bull)
-- KEYS[5]  failures  stream
-- KEYS[6]  meta      hash; fields `bytes` and `entries` as settle.lua counts them
-- KEYS[7+] lists and hashes, which members name by number; 0 = none
-- ARGV[1]  token
-- ARGV[2]  most      largest stream, bytes
-- ARGV[3]  notify    list that gets a notification of each end; '' = none
-- ARGV[4]  shared    number of names and values that all records have
-- ARGV[5+] these names and values; the number of other names in the records; these names; and then for each member:
--   member
--   score    that was read in delayed; '' = not there
--   verdict  'end', 'push' or 'forget'
--   envelope end, push: the envelope that was read; '' = no hash
--   list     push: the list; end: the list in which the last push of the event may still wait
--   hash     end: the hash of a job that must still have no `name` (bull)
--   next     push: the envelope of the next attempt
--   delay    push: ms until the next attempt
--   last     push: '.5' for the last push, else '.25'; ends the score
--   pushed   end, push: the envelope of the last push, for which `list` is searched; '' = none
--   the values of the other names in the records; '' = the record does not have the name. This script adds 'at'
-- Reply    {'settled', us that the script took, 0, and one answer for each member}, {'fenced'}, {'type', key, found}. An answer is
--          'settled'; 'changed' score, envelope or `hash`; 'alive' `pushed` waits, or its list is too long to search; 'full' the
--          stream takes no record; {'type', key, found}; or an error
-- Optional LRANGE, LTRIM
-- Uses     types, fence, records, now, rights, clock, notifications
-- Safe     fenced; by compare of score and envelope; checks preconditions and rights of all members before the first write; adds
--          before it removes. The records come first: only XADD notices a stream that is out of ids.
local events = KEYS[4] ~= KEYS[3]
local wanted = {{'aside', KEYS[2], 'zset'}, {'delayed', KEYS[3], 'zset'}, {'failures', KEYS[5], 'stream'}, {'meta', KEYS[6], 'hash'}}
if events then wanted[#wanted + 1] = {'events', KEYS[4], 'hash'} end
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local began = clock_us()
local SCORE, VERDICT, ENVELOPE, LIST, HASH, NEXT, DELAY, LAST, PUSHED, RECORD = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local form, first_member = record_form(4)

local jobs = {}
for at = first_member, #ARGV, RECORD + #form.names do
    jobs[#jobs + 1] = {at = at, member = ARGV[at], ends = ARGV[at + VERDICT] == 'end', pushes = ARGV[at + VERDICT] == 'push',
        list = KEYS[tonumber(ARGV[at + LIST])], hash = KEYS[tonumber(ARGV[at + HASH])]}
end

local now, most = now_ms(), tonumber(ARGV[2])
local kinds = {} -- by verdict and list: why Redis refuses a write, or false
local function kind_refusal(job)
    local kind = ARGV[job.at + VERDICT] .. ARGV[job.at + LIST]
    if kinds[kind] == nil then
        local ends, pushes = job.ends, job.pushes
        kinds[kind] = missing_right({{'XADD', ends and KEYS[5]}, {'HSET', ends and KEYS[6]}, {'ZADD', pushes and KEYS[3]},
            {'LPUSH', pushes and job.list}, {'HSET', pushes and KEYS[4]}, {'ZREM', ends and KEYS[3]},
            {'HDEL', ends and events and KEYS[4]}, {'ZREM', KEYS[2]}}) or false
    end
    return kinds[kind] or nil
end
local bytes, length = stream_bytes(KEYS[5], KEYS[6], {})
local asked = {} -- members that this call settles

-- Returns why the member stays where it is; nil = its writes may begin.
local function refused(job)
    local member, envelope = job.member, ARGV[job.at + ENVELOPE]
    if asked[member] or (redis.call('ZSCORE', KEYS[3], member) or '') ~= ARGV[job.at + SCORE] then return 'changed' end
    if not job.ends and not job.pushes then return kind_refusal(job) end
    if events and (redis.call('HGET', KEYS[4], member) or '') ~= envelope then return 'changed' end
    if job.ends and job.hash and type(redis.pcall('HGET', job.hash, 'name')) == 'string' then return 'changed' end
    local wrong = job.list and wrong_type({{'ready', job.list, 'list'}})
    if wrong then return wrong end
    local pushed = ARGV[job.at + PUSHED]
    if pushed ~= '' and (redis.call('LLEN', job.list) > 2000 or redis.call('LPOS', job.list, pushed, 'RANK', -1)) then return 'alive' end
    job.record = job.ends and new_record(now, form, job.at + RECORD)
    local total = bytes + (job.record and record_bytes(job.record) or 0)
    if job.ends and total > most then return 'full' end
    local missing = kind_refusal(job)
    if missing then return missing end
    bytes = total
end

local settled = {}
for _, job in ipairs(jobs) do
    job.answer = refused(job)
    if not job.answer then
        asked[job.member] = true
        settled[#settled + 1] = job
    end
end
local kept = record_jobs(KEYS[5], KEYS[6], settled, bytes, length)

-- One call for each command and key, with the values of all members.
local scores, envelopes, ended, done, lists = {}, {}, {}, {}, {}
for _, job in ipairs(kept) do
    job.answer = 'settled'
    done[#done + 1] = job.member
    if job.ends then ended[#ended + 1] = job.member end
    if job.pushes then
        local due = string.format('%.0f', tonumber(now) + tonumber(ARGV[job.at + DELAY])) .. ARGV[job.at + LAST]
        scores[#scores + 1], scores[#scores + 2] = due, job.member
        envelopes[#envelopes + 1], envelopes[#envelopes + 2] = job.member, ARGV[job.at + NEXT]
        if not lists[job.list] then
            lists[job.list] = {}
            lists[#lists + 1] = {job.list, lists[job.list]}
        end
        table.insert(lists[job.list], ARGV[job.at + ENVELOPE])
    end
end
if #scores > 0 then redis.call('ZADD', KEYS[3], unpack(scores)) end
for _, list in ipairs(lists) do redis.call('LPUSH', list[1], unpack(list[2])) end
if #envelopes > 0 then redis.call('HSET', KEYS[4], unpack(envelopes)) end
if #ended > 0 then redis.call('ZREM', KEYS[3], unpack(ended)) end
if #ended > 0 and events then redis.call('HDEL', KEYS[4], unpack(ended)) end
if #done > 0 then redis.call('ZREM', KEYS[2], unpack(done)) end
notify(ARGV[3], KEYS[6], now, kept)
return {'settled', us_since(began), 0, answers_of(jobs)}
