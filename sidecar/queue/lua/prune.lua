#!lua flags=allow-oom
-- prune: removes stamps and reports of jobs that are not in progress.
--
-- KEYS[1]  lock
-- KEYS[2]  hash      stamps or errors, a hash
-- ARGV[1]  token
-- ARGV[2]  by        what to compare: 'value', or 'report' = its id
-- ARGV[3+] two for each entry: field; the value or report id that was read
-- Reply    {'pruned', how many, of the last report: bytes of its text, the first 200 of them}, {'fenced'}, {'type', key, found}
-- Uses     types, fence, report_ids
-- Safe     fenced, by compare: keeps a changed value.
local refusal = fenced() or wrong_type({{'hash', KEYS[2], 'hash'}})
if refusal then return refusal end
local gone, bytes, head = {}, 0, ''
for i = 3, #ARGV, 2 do
    local value = redis.call('HGET', KEYS[2], ARGV[i])
    if value and ARGV[2] == 'report' then
        bytes, head = #value, string.sub(value, 1, 200)
        value = report_id(value)
    end
    if value == ARGV[i + 1] then gone[#gone + 1] = ARGV[i] end
end
if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
return {'pruned', #gone, bytes, head}
