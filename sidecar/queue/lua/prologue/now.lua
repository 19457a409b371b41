-- now: ms since 1970 by Redis's clock, as text.
local function now_ms()
    local time = redis.call('TIME')
    return string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
end
