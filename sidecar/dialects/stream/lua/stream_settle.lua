#!lua flags=allow-oom
-- stream_settle: retries or ends pending entries of a consumer group, each with a record in the failure stream. Answers for each entry by
-- itself.
--
-- KEYS[1]  lock
-- KEYS[2]  stamps
-- KEYS[3]  errors    hash: id of an entry -> its report
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      fields `bytes` of all values in the stream, and `entries`, its length at that time
-- KEYS[6]  stream    of the entries
-- KEYS[7]  delayed   zset; takes a retry with a delay, unless it has these bytes already; the lock again = none
-- KEYS[8]  dlq       stream that takes a copy of ended entries; the lock again = none
-- KEYS[9+] heartbeats, which entries name by number
-- ARGV[1]  token
-- ARGV[2]  unit      of scores in delayed, 'ms' or 's'
-- ARGV[3]  most      largest failure stream, bytes
-- ARGV[4]  notify    list that gets a notification of each end; '' = none
-- ARGV[5]  group
-- ARGV[6]  idle      ms; an entry without a report must have been idle for so long
-- ARGV[7]  timeout   ms: an entry of a consumer that has read within this time stays, unless it has a report; '' = none
-- ARGV[8]  field     only an entry of this one field can be delayed
-- ARGV[9]  shared    number of names and values that all records have
-- ARGV[10+] these names and values; the number of other names in the records; these names; and then for each entry:
--   kind     r retry, e end, u end of an entry that is deleted
--   id       of the entry; the ids rise
--   consumer and
--   deliveries  that the decision rests on
--   digest   its field in stamps
--   old      the stamp that the decision rests on; '' = none, or a value of another length, which is none
--   new      the stamp of a retry
--   report   id of the reported text that the decision rests on; '' = there must be no report
--   delay    of a retry in ms
--   beat     number of the heartbeat key; 0 = none
--   the values of the other names in the records; '' = the record does not have the name. This script adds 'at' and 'error'
-- Reply    as settle; 'gone': the entry is not pending, or not idle; 'changed': its consumer, deliveries, stamp or report, or it was
--          deleted. An error of all entries: the stream has no such group, or has others, too
-- Optional LTRIM
-- Uses     types, fence, records, report_ids, rights, clock, notifications, groups, consumers, deliveries, entries
-- Safe     fenced; by compare; checks preconditions and rights of all entries before the first write; adds before it removes. A copy, also
--          that for dlq, comes before its record, because only XADD notices a stream that is out of ids: its error leaves the entry pending
--          without a record. An end without a record takes its copy back. The record of an end comes before XACK. XDEL and XACK of equal
--          entries of another id do no harm.
local began = clock_us()
local stream, group, STAMP_BYTES, FIELDS_MAX = KEYS[6], ARGV[5], 28, 7000
local function other(number) return KEYS[number] ~= KEYS[1] and KEYS[number] or nil end
local delayed, dlq = other(7), other(8)
local refusal = fenced() or wrong_type({{'stamps', KEYS[2], 'hash'}, {'errors', KEYS[3], 'hash'}, {'failures', KEYS[4], 'stream'},
    {'meta', KEYS[5], 'hash'}, {'stream', stream, 'stream'}}) or
    wrong_type({delayed and {'delayed', delayed, 'zset'}}) or wrong_type({dlq and {'dlq', dlq, 'stream'}})
if refusal then return refusal end
local found, why = only_group(stream, group)
if not found then return why end

local form, first_job = record_form(9)
local RECORD, jobs, digests = 10, {}, {} -- RECORD: values of a job before those of its record
for at = first_job, #ARGV, RECORD + #form.names do
    local kind = ARGV[at]
    local id, consumer, deliveries, digest, old, new, report, delay, beat = unpack(ARGV, at + 1, at + RECORD - 1)
    jobs[#jobs + 1] = {at = at, ends = kind ~= 'r', deleted = kind == 'u', id = id, consumer = consumer, deliveries = tonumber(deliveries),
        digest = digest, old = old, new = new, report = report, delay = tonumber(delay), beat = KEYS[tonumber(beat)]}
    digests[#digests + 1] = digest
end
local stamps, reports = redis.call('HMGET', KEYS[2], unpack(digests)), redis.call('HLEN', KEYS[3]) > 0
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local at_text, most = string.format('%.0f', now), tonumber(ARGV[3])
local bytes, length = stream_bytes(KEYS[4], KEYS[5], {})

local function is_alive(job)
    if job.report ~= '' then return false end
    return job.beat and redis.call('EXISTS', job.beat) == 1 or consumer_is_alive(stream, group, job.consumer, ARGV[7])
end
-- One XPENDING of all costs less than one of each. Between them may be others, so what it does not tell is asked for again.
local idle, known = tonumber(ARGV[6]), {}
for _, pending in ipairs(redis.call('XPENDING', stream, group, jobs[1].id, jobs[#jobs].id, 2 * #jobs)) do known[pending[1]] = pending end
local function pending_of(job)
    local pending = known[job.id] or redis.call('XPENDING', stream, group, job.id, job.id, 1)[1]
    return pending and (job.report ~= '' or pending[3] >= idle) and pending
end
local asked = {} -- digests of entries in this call: the first one of equal ones changes the stamp
-- Returns what has changed since the decision; nil = nothing, and job.record is the record.
local function change(job, stamp)
    if not stamp or #stamp ~= STAMP_BYTES then stamp = '' end
    if stamp ~= job.old or asked[job.digest] then return 'changed' end
    local text = reports and redis.call('HGET', KEYS[3], job.id)
    if (text and report_id(text) or '') ~= job.report then return 'changed' end
    if is_alive(job) then return 'alive' end
    local pending = pending_of(job)
    if not pending then return 'gone' end
    if pending[2] ~= job.consumer or deliveries_of(pending) ~= job.deliveries then return 'changed' end
    job.fields = fields_of(stream, job.id, jobs[#jobs].id)
    if (job.fields == nil) ~= job.deleted then return 'changed' end
    if job.fields and #job.fields > FIELDS_MAX then return {err = 'entry ' .. job.id .. ' has too many fields to be copied'} end
    job.record = new_record(at_text, form, job.at + RECORD)
    if text then job.record[#job.record + 1], job.record[#job.record + 2] = 'error', string.sub(text, 1, REPORT_HEAD) end
end
-- Returns an error if Redis refuses a later write to the user. Most entries of a call are of one kind.
local proven = {}
local function right_refusal(job, room)
    local kind = (job.ends and 1 or 0) + (room and 2 or 0) + (job.report ~= '' and 4 or 0)
    if proven[kind] then return end
    local missing = missing_right({{'XADD', room and KEYS[4]}, {'HSET', room and KEYS[5]}, {'XACK', stream}, {'XDEL', stream},
        {'XADD', not job.ends and stream}, {'ZADD', not job.ends and delayed}, {'HSET', not job.ends and KEYS[2]},
        {'XADD', job.ends and dlq}, {'XDEL', job.ends and dlq}, {'HDEL', job.ends and KEYS[2]}, {'HDEL', job.report ~= '' and KEYS[3]}})
    proven[kind] = not missing
    return missing
end
-- Returns why the entry stays where it is; nil = its writes may begin.
local function refused(job, stamp)
    local why = change(job, stamp)
    if why then return why end
    local total = bytes + record_bytes(job.record)
    local room = total <= most
    if job.ends and not room then return 'full' end
    local missing = right_refusal(job, room)
    if missing then return missing end
    if room then bytes = total else job.record = nil end
end
local function is_delayed(job)
    if not delayed or job.delay <= 0 or #job.fields ~= 2 or job.fields[1] ~= ARGV[8] then return false end
    local due = now + job.delay
    if ARGV[2] == 's' then due = due / 1000 end
    return redis.call('ZADD', delayed, 'NX', string.format('%.3f', due), job.fields[2]) == 1
end
-- Adds the copy of a retry, or that of an end for dlq. Returns an error.
local function copy(job)
    local to = job.ends and dlq or not job.ends and not is_delayed(job) and stream
    if not to or not job.fields then return end
    local id = redis.pcall('XADD', to, '*', unpack(job.fields))
    if type(id) == 'table' then return {err = 'cannot add to the stream "' .. to .. '": ' .. id.err} end
    job.letter = job.ends and id
end

local settled = {}
for i, job in ipairs(jobs) do
    job.answer = refused(job, stamps[i])
    if not job.answer then asked[job.digest] = true end
end
for _, job in ipairs(jobs) do
    job.copies = not job.answer
    job.answer = job.answer or copy(job)
    if not job.answer then
        settled[#settled + 1] = job
    elseif job.copies and job.record then
        bytes = bytes - record_bytes(job.record)
    end
end
record_jobs(KEYS[4], KEYS[5], settled, bytes, length)
local stamped, unstamped, answered, ids, ended = {}, {}, {}, {}, {}
for _, job in ipairs(settled) do
    local done = not job.ends or job.answer == 'settled'
    if job.letter and not done then redis.call('XDEL', dlq, job.letter) end
    if done then
        ids[#ids + 1] = job.id
        if job.report ~= '' then answered[#answered + 1] = job.id end
        if job.ends then
            unstamped[#unstamped + 1], ended[#ended + 1] = job.digest, job
        else
            stamped[#stamped + 1], stamped[#stamped + 2] = job.digest, job.new
        end
    end
end
if #stamped > 0 then redis.call('HSET', KEYS[2], unpack(stamped)) end
if #ids > 0 then
    redis.call('XACK', stream, group, unpack(ids))
    redis.call('XDEL', stream, unpack(ids))
end
if #unstamped > 0 then redis.call('HDEL', KEYS[2], unpack(unstamped)) end
if #answered > 0 then redis.call('HDEL', KEYS[3], unpack(answered)) end
notify(ARGV[4], KEYS[5], at_text, ended)
return {'settled', us_since(began), 0, answers_of(jobs)}
