-- types: returns {'type', name, found type} for the first key of a wrong type; nil = none. `wanted` is {{name, key, type}, ...}.
local function wrong_type(wanted)
    for _, want in ipairs(wanted) do
        local found = redis.call('TYPE', want[2]).ok
        if found ~= 'none' and found ~= want[3] then return {'type', want[1], found} end
    end
end
