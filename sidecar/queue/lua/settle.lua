#!lua flags=allow-oom
-- settle: retries or ends jobs in progress, each with a record in the failure stream. Answers for each job by itself.
--
-- KEYS[1]  lock
-- KEYS[2]  stamps
-- KEYS[3]  errors    hash: job -> its report
-- KEYS[4]  failures  stream
-- KEYS[5]  meta      fields `bytes` of all values in the stream, and `entries`, its length at that time
-- KEYS[6]  delayed   zset; takes a retry with a delay, unless it has these bytes already; the lock again = none
-- KEYS[7]  dlq       list that takes the bytes of ended jobs; the lock again = none
-- KEYS[8]  done      set; drops a job whose `done` it has, without retry or end; the lock again = none
-- KEYS[9]  recorded  zset: SHA-1 of a job in dlq -> when it came there; the lock again = none
-- KEYS[10+] lists, marks and heartbeats, which jobs name by number; 0 = none
-- ARGV[1]  token
-- ARGV[2]  unit      of scores in delayed, 'ms' or 's'
-- ARGV[3]  most      largest stream, bytes
-- ARGV[4]  notify    list that gets a notification of each end; '' = none
-- ARGV[5]  blank     '1': a heartbeat of white space is none
-- ARGV[6]  near      entries of a list to read at once, because they are small; 0 = search for each job
-- ARGV[7]  skip      entries at the end of the list to skip before these; above 0 only if all jobs have the flag `i`
-- ARGV[8]  columns   names of the optional values that each job has, in their order, each followed by a space
-- ARGV[9]  shared    number of names and values that all records have
-- ARGV[10+] these names and values; the number of other names in the records; these names; and then for each job, the nearest to the
--          end of its list first:
--   kind     'FROM,READY,MARK,DEPTH,ALONE,FLAGS'. FROM: list that holds the job. READY: list for a retry. MARK: set that loses
--            `mark` at the end. DEPTH: entries to search, from the tail if negative. ALONE: entries among which an ended job
--            must be the only one of its bytes; 0 = it may have duplicates. FLAGS: e end, r retry, d retry with a delay; also f a
--            retry leaves no stamp, x there must be a report, o the job has an id in `done`, p the record gets the job as payload,
--            i read in place: the job must be among the entries to read at once, or it is gone; ALONE then counts from the head,
--            l a retry goes to the left end of READY, because workers take from there; otherwise to the right end
--   job      its bytes
--   digest   its field in stamps
--   old      the stamp that the decision rests on; '' = none, or a value of another length, which is none
--   new      the stamp of a retry
--   the values of `columns`:
--     report   id of the reported text that the decision rests on; '' = there must be no report
--     delay    of a retry in ms
--     again    bytes that a retry pushes; '' = the job
--     beat     number of the heartbeat key; 0 = none
--     mark     id in MARK
--     done     id in KEYS[8]
--   the values of the other names in the records; '' = the record does not have the name. This script adds 'at' and 'error'
-- Reply    {'settled', us that the script took, replaced, and one answer for each job}, {'fenced'}, {'type', key, found}. replaced:
--          entries of the tail took the places of so many removed jobs, of those nearest to the tail. An answer is
--          'settled'; 'unrecorded' a retry of which the stream took no record; 'dropped' KEYS[8] has `done`; 'gone' not in the
--          list; 'changed' stamp or report; 'alive' has a heartbeat; 'duplicates' twice in the list; 'full' the stream takes no
--          record; {'type', key, found}; or an error
-- Optional GETRANGE, LSET, LTRIM, SISMEMBER, SREM
-- Uses     types, fence, records, report_ids, rights, clock, notifications
-- Safe     fenced; by compare; checks preconditions and rights of all jobs before the first write; adds before it removes. Only
--          XADD notices a stream that is out of ids, so XADD comes first: its error changes nothing of that job. No later write
--          may fail, so the script ignores a bad value in `bytes`.
local began = clock_us()
local refusal = fenced() or wrong_type({{'stamps', KEYS[2], 'hash'}, {'errors', KEYS[3], 'hash'},
    {'failures', KEYS[4], 'stream'}, {'meta', KEYS[5], 'hash'}})
if refusal then return refusal end
local NONE, STAMP_BYTES = KEYS[1], 28
local form, first_job = record_form(9)
local JOB, DIGEST, OLD, NEW, RECORD = 1, 2, 3, 4, 5 -- places of the values of a job; columns stand before the record's
local columns = {}
for name in string.gmatch(ARGV[8], '%a+') do columns[name], RECORD = RECORD, RECORD + 1 end
local function value(job, column) return columns[column] and ARGV[job.at + columns[column]] or '' end

local function other(number) return KEYS[number] ~= NONE and KEYS[number] or nil end
local delayed, dlq, done, recorded = other(6), other(7), other(8), other(9)

-- Most jobs of a call are of one kind, so types and rights are checked once for each kind.
local kinds = {}
local function kind_of(spec)
    local kind = kinds[spec]
    if kind then return kind end
    local from, ready, mark, depth, alone, flags = string.match(spec, '^(%d+),(%d+),(%d+),(%-?%d+),(%d+),(%a+)$')
    local function has(flag) return string.find(flags, flag, 1, true) ~= nil end
    -- Numbers stay texts: to write a number as text takes Redis longer than the search in a list.
    kind = {from = KEYS[tonumber(from)], ready = KEYS[tonumber(ready)], depth = string.match(depth, '%d+'),
        side = string.match(depth, '^%-') and '-1' or '1', alone = alone, ends = has('e'), delays = has('d'), forgets = has('f'),
        reported = has('x'), payload = has('p'), done = has('o') and done, in_place = has('i'), left = has('l')}
    kind.mark = kind.ends and KEYS[tonumber(mark)]
    local wanted = {{'backup', kind.from, 'list'}, {'ready', kind.ready, 'list'}}
    if kind.delays then wanted[#wanted + 1] = {'delayed', delayed, 'zset'} end
    if kind.mark then wanted[#wanted + 1] = {'mark', kind.mark, 'set'} end
    if kind.done then wanted[#wanted + 1] = {'done', done, 'set'} end
    if kind.ends and dlq then wanted[#wanted + 1] = {'dlq', dlq, 'list'} end
    if kind.ends and recorded then wanted[#wanted + 1] = {'recorded', recorded, 'zset'} end
    kind.refusal = wrong_type(wanted)
    kinds[spec] = kind
    return kind
end
-- Returns an error if Redis refuses a later write to the user.
local function kind_refusal(kind, room)
    if room and not kind.may_record then
        local missing = missing_right({{'XADD', KEYS[4]}, {'HSET', KEYS[5]}})
        if missing then return missing end
        kind.may_record = true
    end
    if kind.missing == nil then
        local ends, retries = kind.ends, not kind.ends
        kind.missing = missing_right({{'LPUSH', ends and dlq}, {'ZADD', ends and recorded}, {'ZADD', kind.delays and delayed},
            {'RPUSH', retries and not kind.left and kind.ready}, {'LPUSH', retries and kind.left and kind.ready},
            {'HSET', retries and not kind.forgets and KEYS[2]}, {'LREM', kind.from},
            {'HDEL', (ends or kind.forgets) and KEYS[2]}, {'HDEL', kind.reported and KEYS[3]},
            {'SREM', kind.mark}}) or false
    end
    return kind.missing or nil
end

local jobs, digests, beats, small = {}, {}, {}, {}
for at = first_job, #ARGV, RECORD + #form.names do
    local job = {kind = kind_of(ARGV[at]), at = at, bytes = ARGV[at + JOB]}
    job.beat = columns.beat and KEYS[tonumber(value(job, 'beat'))]
    job.large = string.find(value(job, 'report'), ':', 1, true)
    jobs[#jobs + 1] = job
    digests[#digests + 1] = ARGV[at + DIGEST]
    beats[#beats + 1] = job.beat
    if not job.large then
        small[#small + 1] = job.bytes
        job.small = #small
    end
end
local stamps = redis.call('HMGET', KEYS[2], unpack(digests))
local reports = redis.call('HLEN', KEYS[3]) > 0
local texts = reports and #small > 0 and redis.call('HMGET', KEYS[3], unpack(small)) or {}
local heartbeats = #beats > 0 and redis.pcall('EXISTS', unpack(beats)) ~= 0

-- A large text is read last: Redis copies it only for a call that will not be refused.
local function report_changed(job)
    job.text = texts[job.small] or job.large and redis.call('HGET', KEYS[3], job.bytes)
    return (job.text and report_id(job.text) or '') ~= value(job, 'report')
end
local function is_alive(job)
    if not job.beat or not heartbeats then return false end
    local beat = ARGV[5] == '1' and redis.pcall('GETRANGE', job.beat, 0, 255)
    local blank = type(beat) == 'string' and not string.find(beat, '[^%z\1-\32]')
    return not blank and redis.call('EXISTS', job.beat) == 1
end
-- Returns how often each entry stands among those to read at once, and the index of the nearest one to the end of the list; nil =
-- none were read. One LRANGE costs less than an LPOS for each job.
local near, skip, ends, indexes = tonumber(ARGV[6]), tonumber(ARGV[7]), {}, {}
local function end_of(kind)
    if near == 0 or kind.depth == '1' then return end
    local id = kind.side .. kind.from
    if not ends[id] then
        local tail = kind.side == '-1'
        local entries = redis.call('LRANGE', kind.from, tail and -skip - near or skip, tail and -skip - 1 or skip + near - 1)
        local before, counts, nearest = tail and skip + #entries + 1 or 1 - skip, {}, {}
        for i, entry in ipairs(entries) do
            counts[entry] = (counts[entry] or 0) + 1
            if tail or not nearest[entry] then nearest[entry] = i - before end
        end
        ends[id], indexes[id] = counts, nearest
    end
    return ends[id], indexes[id]
end
-- Whether the other end of the list has a duplicate of the job. Workers push new jobs there, and no scan may have met them yet.
local function has_new_duplicate(job)
    local rank = redis.call('LPOS', job.kind.from, job.bytes, 'MAXLEN', job.kind.alone)
    return rank and rank ~= redis.call('LLEN', job.kind.from) + job.index
end
-- Returns how often the job was found. More than 1 = an ended job has duplicates.
local function places(job)
    local kind, found = job.kind, 0
    local entries, nearest = end_of(kind)
    local ends = kind.ends and kind.alone ~= '0'
    if entries then found, job.index = entries[job.bytes] or 0, nearest[job.bytes] end
    if kind.in_place then
        if found == 1 and ends and has_new_duplicate(job) then found = 2 end
    else
        if ends and not (entries and near >= tonumber(kind.alone)) then
            found = #redis.call('LPOS', kind.from, job.bytes, 'RANK', kind.side, 'COUNT', '2', 'MAXLEN', kind.alone)
        end
        if found == 0 and redis.call('LPOS', kind.from, job.bytes, 'RANK', kind.side, 'MAXLEN', kind.depth) then found = 1 end
    end
    return ends and found or math.min(found, 1)
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local at_text, most = string.format('%.0f', now), tonumber(ARGV[3])
local function record_of(job)
    local record = new_record(at_text, form, job.at + RECORD)
    if job.kind.payload then record[#record + 1], record[#record + 2] = 'payload', job.bytes end
    if job.kind.reported then record[#record + 1], record[#record + 2] = 'error', job.large and '' or job.text end
    return record
end
local bytes, length = stream_bytes(KEYS[4], KEYS[5], {})
local asked = {} -- digests of jobs in this call: the first job of equal ones changes the stamp

-- Returns why the job stays where it is; nil = its writes may begin.
local function refused(job, stamp)
    local kind, digest = job.kind, ARGV[job.at + DIGEST]
    if kind.refusal then return kind.refusal end
    if not stamp or #stamp ~= STAMP_BYTES then stamp = '' end
    if stamp ~= ARGV[job.at + OLD] or asked[digest] then return 'changed' end
    if not job.large and report_changed(job) then return 'changed' end
    if is_alive(job) then return 'alive' end
    local found = places(job)
    if found == 0 then return 'gone' end
    if found > 1 then return 'duplicates' end
    if kind.done and redis.call('SISMEMBER', done, value(job, 'done')) == 1 then
        job.dropped = true
        return missing_right({{'LREM', kind.from}, {'HDEL', KEYS[2]}})
    end
    job.record = record_of(job)
    local total = bytes + record_bytes(job.record) + (job.large and REPORT_HEAD or 0)
    local room = total <= most
    if kind.ends and not room then return 'full' end
    local missing = kind_refusal(kind, room)
    if missing then return missing end
    if job.large then
        if report_changed(job) then return 'changed' end
        job.record[#job.record] = string.sub(job.text, 1, REPORT_HEAD)
    end
    if room then bytes = total else job.record = nil end
end

local settled = {}
for i, job in ipairs(jobs) do
    job.ends = job.kind.ends
    job.answer = refused(job, stamps[i])
    if not job.answer then
        asked[ARGV[job.at + DIGEST]] = true
        settled[#settled + 1] = job
    end
end
-- How to remove the jobs. LREM of each job would pass the same entries again and again. Far from an end it would even pass all
-- entries behind `skip`.
local FAR = 256
local function one_by_one(jobs)
    for _, job in ipairs(jobs) do redis.call('LREM', job.kind.from, job.kind.side, job.bytes) end
end
-- LSET puts the token, which is no job, in the place of each job, and one LREM removes all of them.
local function at_once(jobs)
    local from, side = jobs[1].kind.from, jobs[1].kind.side
    for _, job in ipairs(jobs) do redis.call('LSET', from, string.format('%d', job.index), ARGV[1]) end
    redis.call('LREM', from, string.format('%d', tonumber(side) * #jobs), ARGV[1])
end
-- Goes from the tail to the head. Moves the last entry of the list to the place of each job. The entries behind `skip` are never jobs
-- of this call, so a moved entry is never one that is still to be removed. A place counted from the head stays the same. Redis never
-- splits a node of a list, so a larger entry may not take the place of a job: from such an entry on jobs are searched.
local LARGER, replaced = 64, 0
local function by_the_tail(jobs)
    local from = jobs[1].kind.from
    local length, rest = redis.call('LLEN', from), {}
    table.sort(jobs, function(a, b) return a.index > b.index end)
    for _, job in ipairs(jobs) do
        local last = #rest == 0 and redis.call('LRANGE', from, '-1', '-1')[1]
        if last and #last <= #job.bytes + LARGER then
            redis.call('LSET', from, string.format('%d', length + job.index), last)
            redis.call('LREM', from, '-1', last)
            replaced = replaced + 1
        else
            rest[#rest + 1] = job
        end
    end
    one_by_one(rest)
end
local function way_to_remove()
    if #settled == 0 or (skip == 0 and (near < FAR or #settled < 2)) then return one_by_one end
    local kind = settled[1].kind
    for _, job in ipairs(settled) do
        if not job.index or job.kind.from ~= kind.from or job.kind.side ~= kind.side then return one_by_one end
    end
    local moves = skip > 0 and kind.from
    if missing_right({{'LSET', kind.from}, {'LLEN', moves}, {'LRANGE', moves}}) then return one_by_one end
    return skip > 0 and by_the_tail or at_once
end
local remove = way_to_remove()
local kept = record_jobs(KEYS[4], KEYS[5], settled, bytes, length)

-- One call for each command and key, with the values of all jobs.
local letters, times, stamped, unstamped, answered = {}, {}, {}, {}, {}
local pushes, left_pushes, marks = {}, {}, {} -- {key, values} each; also by key
local function put(groups, key, value)
    if not groups[key] then
        groups[key] = {}
        groups[#groups + 1] = {key, groups[key]}
    end
    table.insert(groups[key], value)
end
local function retry(job)
    local again = value(job, 'again') ~= '' and value(job, 'again') or job.bytes
    if job.kind.delays then
        local due = now + tonumber(value(job, 'delay'))
        if ARGV[2] == 's' then due = due / 1000 end
        if redis.call('ZADD', delayed, 'NX', string.format('%.3f', due), again) == 1 then return end
    end
    put(job.kind.left and left_pushes or pushes, job.kind.ready, again)
end
local function finish(job)
    letters[#letters + 1] = job.bytes
    if recorded then
        times[#times + 1] = at_text
        times[#times + 1] = redis.sha1hex(job.bytes)
    end
    if job.kind.mark then put(marks, job.kind.mark, value(job, 'mark')) end
end
for _, job in ipairs(kept) do
    local kind, digest = job.kind, ARGV[job.at + DIGEST]
    if job.dropped then job.answer = 'dropped' end
    if kind.reported and not job.dropped then answered[#answered + 1] = job.bytes end
    if not job.dropped then (kind.ends and finish or retry)(job) end
    if job.dropped or kind.ends or kind.forgets then
        unstamped[#unstamped + 1] = digest
    else
        stamped[#stamped + 1] = digest
        stamped[#stamped + 1] = ARGV[job.at + NEW]
    end
end
if dlq and #letters > 0 then redis.call('LPUSH', dlq, unpack(letters)) end
if #times > 0 then redis.call('ZADD', recorded, unpack(times)) end
for _, push in ipairs(pushes) do redis.call('RPUSH', push[1], unpack(push[2])) end
for _, push in ipairs(left_pushes) do redis.call('LPUSH', push[1], unpack(push[2])) end
if #stamped > 0 then redis.call('HSET', KEYS[2], unpack(stamped)) end
if #kept > 0 then remove(kept) end
if #unstamped > 0 then redis.call('HDEL', KEYS[2], unpack(unstamped)) end
if #answered > 0 then redis.call('HDEL', KEYS[3], unpack(answered)) end
for _, mark in ipairs(marks) do redis.call('SREM', mark[1], unpack(mark[2])) end
notify(ARGV[4], KEYS[5], at_text, kept)
return {'settled', us_since(began), replaced, answers_of(jobs)}
