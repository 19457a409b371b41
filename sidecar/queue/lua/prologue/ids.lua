-- ids: compares runs of digits: 1 when a is above b, 0 or -1. Texts, because Lua's numbers are exact up to 2^53 only.
local function compare_digits(a, b)
    a, b = string.gsub(a, '^0+', ''), string.gsub(b, '^0+', '')
    if #a ~= #b then return #a > #b and 1 or -1 end
    if a == b then return 0 end
    return a > b and 1 or -1
end
