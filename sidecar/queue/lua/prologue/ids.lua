-- ids: compares two numbers in decimal text: 1 = a is above b, 0 = equal, -1 = below. Lua's numbers are exact only to 2^53.
local function compare_digits(a, b)
    a, b = string.gsub(a, '^0+', ''), string.gsub(b, '^0+', '')
    if #a ~= #b then return #a > #b and 1 or -1 end
    if a == b then return 0 end
    return a > b and 1 or -1
end
