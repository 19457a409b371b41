-- types: the reply to give when a key holds another type than it should. `wanted` is {{name, key, type}, ...}; nil = all are right.
local function wrong_type(wanted)
    for _, want in ipairs(wanted) do
        local found = redis.call('TYPE', want[2]).ok
        if found ~= 'none' and found ~= want[3] then return {'type', want[1], found} end
    end
end
