-- records: the failure stream. `record` is names and values in turns. record_bytes returns the bytes of its values.
local function number(text) return tonumber(string.match(text or '', '^%d+$')) or 0 end
local function record_bytes(record)
    local bytes = 0
    for i = 2, #record, 2 do bytes = bytes + #record[i] end
    return bytes
end
-- record_form: what the records of a call have in common, from position `at` of ARGV on: the number of names and values that all
-- records have, and these; the number of other names, and these. Returns the form and the position behind it.
local function record_form(at)
    local shared = {unpack(ARGV, at + 1, at + tonumber(ARGV[at]))}
    at = at + 1 + #shared
    local names = {unpack(ARGV, at + 1, at + tonumber(ARGV[at]))}
    return {shared = shared, names = names}, at + 1 + #names
end
-- new_record: a record of `now`, and of the values of the form's names, which stand in ARGV from `first` on; '' = the record does not
-- have the name.
local function new_record(now, form, first)
    local record, names = {'at', now, unpack(form.shared)}, form.names
    local count = #record
    for i = 1, #names do
        local value = ARGV[first + i - 1]
        if value ~= '' then
            record[count + 1], record[count + 2] = names[i], value
            count = count + 2
        end
    end
    return record
end
-- stream_bytes: returns the bytes of all values in the stream after `record` is added, and the length of the stream now. After a
-- trim by hand the count shrinks in proportion; otherwise the stream would stay full.
local function stream_bytes(stream, meta, record)
    local counted, length = redis.call('HMGET', meta, 'bytes', 'entries'), redis.call('XLEN', stream)
    local bytes, entries = number(counted[1]), number(counted[2])
    if entries > length then bytes = math.floor(bytes / entries * length) end
    return bytes + record_bytes(record), length
end
-- add_to_stream: adds the record. Returns nil, 'full' if the stream has its highest possible id, or an error.
local function add_to_stream(stream, record)
    local added = redis.pcall('XADD', stream, '*', unpack(record))
    if type(added) ~= 'table' then return nil, added end
    return string.find(added.err, 'last possible ID', 1, true) and 'full' or added
end
-- last_id believes `last`: to ask the stream costs Redis time for the bytes of its newest entry.
local function store_counts(meta, bytes, entries, last)
    redis.call('HSET', meta, 'bytes', string.format('%.0f', bytes), 'entries', entries, 'last', last)
end
-- append_record: adds the record and stores its counts. Returns nil, {'full'} if the stream has its highest possible id, or an error.
local function append_record(stream, meta, record, bytes, length)
    local failure, id = add_to_stream(stream, record)
    if failure then return failure == 'full' and {'full'} or failure end
    store_counts(meta, bytes, length + 1, id)
end
-- record_jobs: adds the records of jobs that are about to be settled (job.record; none = a job without a record), and stores the counts
-- once. `bytes` includes all these records. Returns the jobs that go on, with the answer 'settled' or 'unrecorded'. The others stay:
-- their answer is 'full' or an error. A retry goes on without a record if the stream has its highest possible id.
local function record_jobs(stream, meta, jobs, bytes, length)
    local kept, written, last = {}, 0, nil
    for _, job in ipairs(jobs) do
        local failure, id
        if job.record then failure, id = add_to_stream(stream, job.record) end
        last = id or last
        if failure then bytes = bytes - record_bytes(job.record) end
        if failure and (job.ends or failure ~= 'full') then
            job.answer = failure
        else
            local recorded = job.record and not failure
            job.answer = recorded and 'settled' or 'unrecorded'
            written = written + (recorded and 1 or 0)
            kept[#kept + 1] = job
        end
    end
    if written > 0 then store_counts(meta, bytes, length + written, last) end
    return kept
end
-- answers_of: the answers of all jobs, in their order.
local function answers_of(jobs)
    local answers = {}
    for i, job in ipairs(jobs) do answers[i] = job.answer end
    return unpack(answers)
end
