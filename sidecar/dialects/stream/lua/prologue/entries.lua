-- entries: returns names and values of an entry; nil = it was deleted. The caller asks for rising ids up to `last`. One XRANGE of some
-- entries costs less than one of each. Other entries may stand between, as large as they like: if one does, no more is read ahead.
local entries, step, ahead, unused = {}, 1, 4, 0
local function fields_of(stream, id, last)
    if not entries[id] then
        if unused > 0 then ahead = 1 end
        local count = math.min(step, ahead)
        entries, step, unused = {}, step * 2, 0
        for _, entry in ipairs(redis.call('XRANGE', stream, id, count > 1 and last or id, 'COUNT', count)) do
            entries[entry[1]], unused = entry[2], unused + 1
        end
    end
    if entries[id] then unused = unused - 1 end
    return entries[id]
end
