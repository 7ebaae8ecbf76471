// What people begin chats with: the built-in prompts of tuning.
#pragma once

#include <span>

namespace specbound {

// Short ones, and between the first of them long ones with a text or a program to work on: any
// first part has both.
std::span<const char* const> tuning_openers();

// Answers that fit most replies: a second and a third turn.
std::span<const char* const> tuning_answers();

}  // namespace specbound
