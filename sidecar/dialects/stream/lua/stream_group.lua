#!lua flags=no-writes
-- stream_group: reads the state of a consumer group before a scan.
--
-- KEYS[1]  stream
-- KEYS[2]  errors    hash of reports
-- KEYS[3]  stamps    hash
-- ARGV[1]  group
-- Reply    {'group', now in ms, pending entries, consumers, reports, stamps, id of the last entry that a consumer has read}, {'type', key,
--          found}; or an error: the stream has no such group, or has others, too
-- Uses     types, now, groups
-- Safe     reads only.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'stream'}, {KEYS[2], KEYS[2], 'hash'}, {KEYS[3], KEYS[3], 'hash'}})
if refusal then return refusal end
local group, why = only_group(KEYS[1], ARGV[1])
if not group then return why end
local of = {}
for i = 1, #group, 2 do of[group[i]] = group[i + 1] end
return {'group', now_ms(), of.pending, of.consumers, redis.call('HLEN', KEYS[2]), redis.call('HLEN', KEYS[3]), of['last-delivered-id']}
