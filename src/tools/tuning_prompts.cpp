#include "tools/tuning_prompts.h"

namespace specbound {

namespace {

constexpr const char* kOpeners[] = {
    "I need a table for two tonight.",
    "Summarize this report in three sentences.\n"
    "\n"
    "The town library was closed for eight months while its roof was repaired. The work "
    "began in March, when rain had come through above the reading room and two shelves "
    "of maps had to be dried page by page. The builders found that the old beams were "
    "sound, but that the lead between the tiles had cracked along the whole north side. "
    "The town council paid two thirds of the cost, and a fund that readers had set up "
    "paid the rest. While the library was closed, volunteers lent books from a bus that "
    "stopped at the market on Tuesdays and at the school on Fridays. More than four "
    "hundred people who had never held a library card took one out on the bus. The "
    "library opens again on the first of November. The bus will go on, once a week, for "
    "those who live too far from the town to walk.",
    "Find me a cheap flight to Oslo next Friday.",
    "What will the weather be like tomorrow?",
    "What does this function return for an empty list, and how would you change it so "
    "that it does not fail? Show the whole function.\n"
    "\n"
    "```python\n"
    "def average_by_month(readings):\n"
    "    totals = {}\n"
    "    counts = {}\n"
    "    for reading in readings:\n"
    "        month = reading.date.month\n"
    "        totals[month] = totals.get(month, 0) + reading.value\n"
    "        counts[month] = counts.get(month, 0) + 1\n"
    "    averages = {}\n"
    "    for month in totals:\n"
    "        averages[month] = totals[month] / counts[month]\n"
    "    best = max(averages, key=averages.get)\n"
    "    return averages, best\n"
    "```",
    "Can you play some jazz in the living room?",
    "I would like to book a hotel room for three nights.",
    "Answer from these notes alone: when does the ferry to the island leave on a Sunday "
    "in winter, and what does it cost to take a bicycle?\n"
    "\n"
    "[1] The harbour office is open from 8:00 to 17:00. Tickets are sold there and on "
    "board.\n"
    "[2] In summer, from May to September, the ferry to the island leaves at 7:30, "
    "10:00, 13:00 and 18:30 on every day of the week.\n"
    "[3] In winter, from October to April, the ferry to the island leaves at 8:00 and "
    "16:00 on weekdays, and at 9:30 alone on Saturdays and Sundays.\n"
    "[4] A ticket to the island is 6 euros, 3 euros for children. A bicycle is 2 euros, "
    "a car 14 euros.\n"
    "[5] The ferry does not leave when the wind is above 60 kilometres an hour. The "
    "office then gives the money back.",
    "Hi, how are you today?",
    "I want to see a movie this weekend. What is on?",
    "Translate this letter into English.\n"
    "\n"
    "Sehr geehrte Frau Keller,\n"
    "\n"
    "vielen Dank für Ihre Anfrage vom 3. Mai. Das Zimmer mit Blick auf den See ist vom "
    "12. bis zum 15. Juni noch frei. Der Preis beträgt 90 Euro pro Nacht, das Frühstück "
    "ist darin enthalten. Bitte teilen Sie uns bis Ende der Woche mit, ob Sie das Zimmer "
    "nehmen möchten. Ein Parkplatz steht hinter dem Haus bereit, und vom Bahnhof holen "
    "wir Sie gern ab.\n"
    "\n"
    "Mit freundlichen Grüßen\n"
    "Anna Berger",
    "Please transfer 200 dollars to my savings account.",
    "I am looking for a two-bedroom apartment near the station.",
    "Rewrite this so that the buffer is a std::vector, and change nothing else.\n"
    "\n"
    "```cpp\n"
    "#include <cstdio>\n"
    "#include <cstdlib>\n"
    "\n"
    "int main(int argc, char** argv) {\n"
    "  const int n = argc > 1 ? std::atoi(argv[1]) : 10;\n"
    "  int* values = static_cast<int*>(std::malloc(n * sizeof(int)));\n"
    "  if (values == nullptr) return 1;\n"
    "  for (int i = 0; i < n; ++i) values[i] = i * i;\n"
    "  long sum = 0;\n"
    "  for (int i = 0; i < n; ++i) sum += values[i];\n"
    "  std::printf(\"the sum of the first %d squares is %ld\\n\", n, sum);\n"
    "  std::free(values);\n"
    "  return 0;\n"
    "}\n"
    "```",
    "Explain how a bicycle stays upright.",
    "Set an alarm for seven in the morning.",
    "Correct the spelling and grammar of this message, and leave the rest as it is.\n"
    "\n"
    "Hello everybody, as some of you allready know the meeting on thursday have been "
    "moved to friday at ten oclock, because the large room is been painted. Please bring "
    "the list of peoples who wants to come to the summer trip, we need to book the bus "
    "until the end of this month. Who can not come on friday should writes me a short "
    "message, than I send you the notes after the meeting. The coffee machine is working "
    "again, but please does not use the left button.",
    "Is there a good dentist in San Jose?",
    "Order a large pizza with mushrooms and olives.",
    "I need a ride to the airport at noon.",
    "Write a short story about a fox and a river.",
    "When does the next bus to Sacramento leave?",
    "What is the capital of France, and what is it known for?",
    "Could you recommend a book about the sea?",
    "Natalia sold 48 clips in April and half as many in May. How many did she sell in all?",
    "Who is your favourite musician?",
    "Find concerts in New York this month.",
    "My internet is slow. What should I try first?",
    "I'd like to rent a car from Monday to Thursday.",
    "Tell me something interesting about the moon.",
};
constexpr const char* kAnswers[] = {"Yes, that sounds good. Can you tell me more?",
                                    "Thanks. Is there anything else I should know?"};

}  // namespace

std::span<const char* const> tuning_openers() {
  return kOpeners;
}

std::span<const char* const> tuning_answers() {
  return kAnswers;
}

}  // namespace specbound
