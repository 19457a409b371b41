-- consumers: whether a consumer has read within `timeout` ms; '' = nobody asks. Reads the consumers at the first call.
local idles
local function consumer_is_alive(stream, group, name, timeout)
    if timeout == '' then return false end
    if not idles then
        idles = {}
        for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
            local of = {}
            for at = 1, #fields, 2 do of[fields[at]] = fields[at + 1] end
            idles[of.name] = of.idle
        end
    end
    return (idles[name] or math.huge) < tonumber(timeout)
end
