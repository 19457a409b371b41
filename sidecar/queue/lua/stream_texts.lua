#!lua flags=no-writes
-- stream_texts: finds the entries of a failure stream that have a payload or an error.
--
-- KEYS[1]  failures  stream
-- ARGV[1]  from      id; '-' = the first entry, '(' and an id = behind that entry
-- ARGV[2]  bytes     of values; reading ends after about this many,
-- ARGV[3]  most      or after this many entries
-- Reply    {id of the last entry that was read, or '' = there is none; for each entry with such a text: id, event, queue, job; the
--          latter two only of a retry, else ''}, or {'type', key, found}
-- Uses     types
-- Safe     reads only.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'stream'}})
if refusal then return refusal end
local reply, size, left = {''}, tonumber(ARGV[2]), tonumber(ARGV[3])
local bytes, read, from, step = 0, 0, ARGV[1], 1
while bytes < size and left > 0 do
    step = math.min(step, left)
    local entries = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', step)
    for _, entry in ipairs(entries) do
        local has, found = {}, entry[2]
        for i = 1, #found, 2 do
            has[found[i]] = found[i + 1]
            bytes = bytes + #found[i + 1]
        end
        local retry = has.kind == 'retried'
        if (has.payload or has.error or has.traceparent) and has.event then
            for _, text in ipairs({entry[1], has.event, retry and has.queue or '', retry and has.job or ''}) do
                reply[#reply + 1] = text
            end
        end
        reply[1] = entry[1]
    end
    if #entries < step then return reply end
    read, left = read + step, left - step
    from, step = '(' .. reply[1], math.min(8 * step, math.ceil((size - bytes) * read / (bytes + 1))) -- `size` at this average
end
return reply
