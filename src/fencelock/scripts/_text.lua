-- Fragment: numbers as text.

-- Returns a number without a fraction as text: Lua alone would write large ones with an exponent.
local function text(number) return string.format('%.0f', number) end
