-- groups: the consumer group of a stream. only_group returns its part of XINFO GROUPS, whose second value is the name, or nil and an error. `unfit`: nobody may
-- add copies of entries, because there is no such group, or a copy would reach another group, too.
local function only_group(stream, group)
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    local first = groups[1]
    if #groups == 1 and first[2] == group then return first end
    if groups.err and not string.find(groups.err, 'no such key', 1, true) then return nil, groups end
    local names, found = {}, false
    for i, fields in ipairs(groups.err and {} or groups) do
        names[i] = '"' .. fields[2] .. '"'
        found = found or fields[2] == group
    end
    if not found then
        local others = #names > 0 and ', only ' .. table.concat(names, ', ', 1, math.min(#names, 5)) or ''
        return nil, {unfit = true, err = 'the stream "' .. stream .. '" has no group "' .. group .. '"' .. others ..
            ': correct `group`, or make it: XGROUP CREATE ' .. stream .. ' ' .. group .. ' 0 MKSTREAM'}
    end
    return nil, {unfit = true, err = string.format('the stream "%s" has %d groups (%s), and a copy of an entry would reach each of them: give each group ' ..
        'a stream of its own', stream, #names, table.concat(names, ', ', 1, math.min(#names, 5)))}
end
