-- notifications: one small JSON for each recorded failure, pushed to the list of `on_failure`. All calls by pcall: no trouble with the
-- list may keep a job from ending. It stays out of KEYS, because Redis refuses a whole call for a key without a right.
local NOTIFICATIONS, TEXT_BYTES = 10000, 1024 -- most entries of the list; most bytes of a value
local MARK = '\239\191\189' -- U+FFFD
-- Returns a function that writes the notification of a record. All that it needs is made here, because most scripts tell nobody.
local function notification_writer()
    -- A table of replacements for the parts of a text; false = the part itself. The table asks `of` once for each part. A function in its
    -- place, which gsub asks each time, takes Redis two to four times as long for texts with many quotes or letters that are no ASCII.
    local function replacements(known, of)
        return setmetatable(known, {__index = function(_, part)
            known[part] = of(part)
            return known[part]
        end})
    end
    -- The rest of a UTF-8 character by its first byte: the number of bytes, and the range of the first of them.
    local function utf8_rest(first)
        if first >= 194 and first < 224 then return 1, 128, 191 end
        if first >= 224 and first < 240 then return 2, first == 224 and 160 or 128, first == 237 and 159 or 191 end
        if first >= 240 and first < 245 then return 3, first == 240 and 144 or 128, first == 244 and 143 or 191 end
        return 0, 0, 0
    end
    local repaired = replacements({}, function(character)
        local count, low, high = utf8_rest(string.byte(character))
        local second, more = string.byte(character, 2), #character - 1 - count
        if count == 0 or more < 0 or second < low or second > high then return MARK end
        return more > 0 and string.sub(character, 1, count + 1) .. MARK
    end)
    local escaped = replacements({['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\t'] = '\\t'}, function(byte)
        return string.format('\\u%04x', string.byte(byte))
    end)
    -- A text as a JSON string. Bytes that are no UTF-8 become U+FFFD.
    local function json_string(text)
        if #text > TEXT_BYTES then text = string.gsub(string.sub(text, 1, TEXT_BYTES), '[\192-\255][\128-\191]*$', '') end
        text = string.gsub(text, '[\128-\255][\128-\191]*', repaired)
        return '"' .. string.gsub(text, '[%z\1-\31"\\\127]', escaped) .. '"'
    end
    -- As event_ref() in model/event.c: five hex digits have the bits of four digits in base 32.
    local function event_ref(id)
        local digits, ref = 'abcdefghijklmnopqrstuvwxyz234567', {}
        for at = 1, 11, 5 do
            local bits = tonumber(string.sub(id, at, at + 4), 16) or 0
            for shift = 15, 0, -5 do
                local digit = math.floor(bits / 2 ^ shift) % 32 + 1
                ref[#ref + 1] = string.sub(digits, digit, digit)
            end
        end
        return table.concat(ref)
    end
    -- nil: the record is of no failure. A job whose id is the digest of its bytes has no id for people, and the digest may be hidden.
    return function(record)
        local of = {}
        for i = 1, #record, 2 do of[record[i]] = record[i + 1] end
        if of.kind ~= 'failed' then return nil end
        of.ref, of.job_id = event_ref(of.event or ''), of.job ~= of.sha256 and of.job
        local out = {}
        for i, name in ipairs({'ref', 'queue', 'group', 'type', 'job_id', 'reason', 'traceparent', 'error'}) do
            out[i] = '"' .. name .. '":' .. json_string(of[name] or '')
        end
        return string.format('{%s,"attempts":%.0f,"failed_at":%s}', table.concat(out, ','), number(of.attempts), of.at)
    end
end
-- Tells of the failures among the jobs that were recorded (job.record). Notes in the meta hash why notifications were lost. To make
-- room only notifications go, and no more than come: jobs of somebody may stand in the list by mistake.
local function notify(list, meta, now, jobs)
    if list == '' then return end
    local new, notification = {}, notification_writer()
    for _, job in ipairs(jobs) do new[#new + 1] = job.record and notification(job.record) or nil end
    if #new == 0 then return end
    local length = redis.pcall('LLEN', list)
    local surplus = type(length) == 'number' and math.max(0, math.min(length + #new - NOTIFICATIONS, #new))
    local oldest = surplus and redis.pcall('LRANGE', list, -math.max(surplus, 1), -1) or length
    local reply, why = oldest, surplus and surplus > 0 and 'it is full, and loses its oldest entries'
    for _, entry in ipairs(oldest) do
        if string.sub(entry, 1, 8) ~= '{"ref":"' then reply, why = {}, 'an entry at its end is no notification' end
    end
    if reply == oldest and not oldest.err then
        reply = redis.pcall('LTRIM', list, 0, -surplus - 1)
        if not reply.err then reply = redis.pcall('LPUSH', list, unpack(new)) end
    end
    why = type(reply) == 'table' and reply.err or why
    if why then redis.pcall('HSET', meta, 'notification_lost', now .. ' ' .. string.sub(why, 1, 200)) end
end
