-- clock: microseconds of some clock, to measure how long this script takes. From Redis 7.2 on TIME stands still within a script;
-- these servers have os.clock. (redis src/script.c, scriptTimeSnapshot; src/script_lua.c, allow list of `os`) `time`: the reply to a
-- TIME of this moment, if there is one.
local library = rawget(_G, 'os')
local function clock_us(time)
    if library then return library.clock() * 1000000 end
    time = time or redis.call('TIME')
    return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function us_since(began) return math.max(1, math.floor(clock_us() - began)) end
