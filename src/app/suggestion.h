// What was probably meant by a name that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// How many letters must be put in, left out, replaced or exchanged with their neighbour to make one
// word of the other.
size_t letters_apart(std::string_view a, std::string_view b);

// The one among `known` that is nearest to `word`; empty when none is near enough to be meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace specbound
