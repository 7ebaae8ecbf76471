#include "corpus/seed_prompts.h"

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace specbound {
namespace {

constexpr const char* kAbout[] = {
    "Explain {} to someone who has never heard of it.",
    "What are the most important facts about {}?",
    "Write a short introduction to {} for a school magazine.",
    "Give me five tips about {}.",
    "What do people most often get wrong about {}?",
    "Write a dialogue between two friends about {}.",
    "I have to give a talk on {}. Draft an outline.",
    "Why does {} matter today?",
    "What speaks for {}, and what against?",
    "Describe {} step by step.",
    "Write a poem of eight lines about {}.",
    "Ask me three questions to test what I know about {}, with the answers.",
    "How was {} seen a hundred years ago, and how is it seen now?",
    "Write a short story in which {} plays a part.",
    "Where should I start if I want to learn about {}?",
    "Summarize {} in three sentences.",
    "Make a table of {} with three columns and five rows.",
    "Who should care about {}, and why?"};
constexpr const char* kTopics[] = {"the history of paper",
                                   "learning to play the guitar",
                                   "growing tomatoes on a balcony",
                                   "vaccines",
                                   "the water cycle",
                                   "saving money as a student",
                                   "black holes",
                                   "the French Revolution",
                                   "sourdough bread",
                                   "training for a marathon",
                                   "electric cars",
                                   "the immune system",
                                   "public speaking",
                                   "photosynthesis",
                                   "the Roman Empire",
                                   "a family budget",
                                   "the internet",
                                   "meditation",
                                   "plate tectonics",
                                   "solar power",
                                   "the life of bees",
                                   "job interviews",
                                   "binary numbers",
                                   "the Great Barrier Reef",
                                   "chess openings",
                                   "a healthy breakfast",
                                   "volcanoes",
                                   "the invention of the telephone",
                                   "keeping a cat indoors",
                                   "machine learning",
                                   "elections",
                                   "photography at night",
                                   "recycling",
                                   "the moons of Jupiter",
                                   "learning a language as an adult",
                                   "sleep",
                                   "airplanes",
                                   "inflation",
                                   "a trip to Japan",
                                   "jazz",
                                   "first aid",
                                   "batteries",
                                   "the Silk Road",
                                   "working from home",
                                   "earthquakes",
                                   "reading more books",
                                   "the human heart",
                                   "open-source software",
                                   "tea",
                                   "asking for a higher salary",
                                   "ancient Egypt",
                                   "cheese",
                                   "swimming lessons for children",
                                   "evolution",
                                   "repairing a bicycle",
                                   "moving to a new city",
                                   "renewable energy",
                                   "the printing press",
                                   "good manners online",
                                   "the night sky"};

constexpr const char* kInstructions[] = {
    "Summarize this text in two sentences.\n\n{}",
    "List the main points of this text.\n\n{}",
    "Answer from the text alone: who did what, and when?\n\n{}",
    "Rewrite this text so that a child of ten understands it.\n\n{}",
    "Translate this text into Spanish.\n\n{}",
    "Translate this text into French.\n\n{}",
    "{}\n\nTranslate the text above into German.",
    "{}\n\nWhich numbers does the text above name, and what do they stand for?",
    "{}\n\nWrite three questions that this text answers, each with its answer.",
    "Find a title for this text, and say in one sentence why it fits.\n\n{}",
    "Turn this text into a JSON object with the keys \"place\", \"people\" and \"events\".\n\n{}",
    "Continue this text with one more paragraph in the same style.\n\n{}",
    "Shorten this text to half its length, in its own words where you can.\n\n{}",
    "Is anything in this text surprising? Quote the sentence, then explain.\n\n{}"};
constexpr const char* kPassages[] = {
    "The lighthouse on Gull Rock was built in 1861, after three ships had been lost in one winter. "
    "Its keeper, Martin Hale, lived there with his wife and two daughters, and rowed to the "
    "village "
    "for flour and oil once a week. In 1903 a storm broke the lower stairs, and for nine days "
    "nobody could leave the tower. The family burned the chairs to keep warm, but the lamp was lit "
    "every evening. The light has worked without a keeper since 1974, and the rooms are a museum "
    "that opens from May to September.",
    "Our company made 42,000 bicycles last year, 6,000 more than the year before. Most of the "
    "growth came from children's bicycles, which are sold through 310 shops in four countries. "
    "Steel became dearer by a fifth, so the profit rose by only 2 percent. In spring we open a "
    "second workshop in Leeds, where forty people will build frames. We expect to deliver the "
    "first "
    "of them in August.",
    "Bees find their way by the sun. A bee that has found a good meadow flies back to the hive and "
    "dances on the comb: the angle of the dance to the vertical tells the others the angle of the "
    "meadow to the sun, and the length of the dance tells the distance. On cloudy days they see "
    "where the sun is by the polarized light of the sky. Karl von Frisch described the dance in "
    "the "
    "1920s and received the Nobel Prize for it in 1973.",
    "Dear neighbours, from Monday the 6th to Thursday the 9th the water in our building will be "
    "turned off between 9 in the morning and 3 in the afternoon. The old pipes in the cellar are "
    "replaced. Please fill a few bottles before, and do not use the washing machines in those "
    "hours. If you need water for medical reasons, Mrs. Okafor on the second floor has a supply. "
    "The house management thanks you for your patience.",
    "The match was decided late. Rovers had led since the twelfth minute, when Silva headed a "
    "corner into the net, and seemed safe with ten minutes to play. Then United brought on "
    "seventeen-year-old Adam Clarke, who scored with his first touch and made the second goal four "
    "minutes later. It is United's fifth win in a row and takes them to third place, one point "
    "behind Rovers. Both coaches praised the crowd of 21,400.",
    "To make the soup, chop two onions and fry them in a spoon of butter until they are soft. Add "
    "600 grams of carrots in slices and a litre of stock, and cook for twenty minutes. Blend the "
    "soup, stir in 100 millilitres of cream and season it with salt, pepper and a little ginger. "
    "It "
    "keeps for three days in the refrigerator and can be frozen before the cream goes in.",
    "In the patient group of 240 people the new drug lowered blood pressure by 11 points on "
    "average, the old one by 7. Side effects were as frequent with both, but dizziness was named "
    "more often with the new one. The study lasted six months, and a quarter of those who began it "
    "did not come to the last examination. The authors ask for a longer study with people above "
    "seventy, who were left out.",
    "When the river rose in April, the farmers of the lower valley moved their sheep to the hill "
    "above the church. The water stood in the fields for eleven days. Afterwards the wheat was "
    "lost, but the meadows grew as they had not grown in years, and in June the hay filled every "
    "barn. Old Mr. Brandt said that his grandfather had told him of such a year.",
    "[1] The museum opens at 10 from Tuesday to Sunday.\n[2] On the first Sunday of a month entry "
    "is free for all.\n[3] A ticket costs 9 euros, 5 for students, nothing for children under "
    "six.\n[4] Guided tours begin at 11 and at 15 and take an hour. They cost 4 euros more.\n[5] "
    "The "
    "tower is closed when the wind is strong.\n[6] Bags must be left in the lockers, which take a "
    "coin of 1 euro and give it back.",
    "Minutes of the meeting of March 3. Present: Ana, Ben, Chidi, Mei. Ana reported that the new "
    "website is ready but for the search. Ben will finish the search by the 14th. Mei asked for a "
    "page in Spanish; Chidi will find a translator and say on Friday what it costs. The summer "
    "party was put off to July because the garden is being dug up. The next meeting is on March "
    "17 at 4 in Chidi's office."};

constexpr const char* kProgramming[] = {
    "Write a function in {} that %.", "Write a {} program that %, with a short explanation.",
    "Show me how to test {} code that %.",
    "In {}, what is a clear and fast way to write something that %?"};
constexpr const char* kLanguages[] = {"Python", "JavaScript", "C++", "Java", "Rust"};
constexpr const char* kTasks[] = {"reverses the words of a sentence",
                                  "finds the two largest numbers of a list",
                                  "counts how often each word occurs in a text file",
                                  "checks whether brackets are balanced",
                                  "computes the n-th Fibonacci number",
                                  "reads a CSV file and prints the sum of one column",
                                  "sorts records by name, then by age",
                                  "removes duplicates and keeps the order",
                                  "checks whether a year is a leap year",
                                  "converts Roman numerals to numbers",
                                  "finds a path through a maze",
                                  "caches the results of a slow function",
                                  "merges two sorted lists",
                                  "validates an email address",
                                  "prints a multiplication table",
                                  "downloads a page and prints its title"};

constexpr const char* kSums[] = {
    "A shop sells pens for % euros each and gives one free with every five bought. How many pens "
    "does one get for {} euros?",
    "Anna has {} marbles and gives away % of them each day. After how many days has she none left?",
    "A train drives {} kilometres in % hours. How far does it drive in seven hours at that speed?",
    "In a class of {} children % wear glasses. What percentage is that? Show your work.",
    "Tom saves {} dollars a week and spends % dollars of it. How much has he after a year?",
    "A garden is {} metres long and % metres wide. How long is the fence around it, and what is "
    "its area?",
    "A recipe for % people takes {} grams of flour. How much is needed for ten people?",
    "What is {} times %? Explain how to do it in the head."};

struct Abroad {
  std::span<const char*const> about, topics;
};
constexpr const char* kGerman[] = {"Erkläre mir bitte {} in einfachen Worten.",
                                   "Nenne fünf wichtige Tatsachen über {}.",
                                   "Schreibe eine kurze Geschichte über {}.",
                                   "Schreibe eine freundliche E-Mail: Es geht um {}.",
                                   "Was sollte man über {} wissen?",
                                   "Übersetze ins Englische: Wir sprachen über {}."};
constexpr const char* kGermanTopics[] = {
    "das Wetter", "den Garten",          "die Eisenbahn", "gesundes Essen",
    "die Schule", "eine Reise ans Meer", "den Umzug",     "die Zukunft der Arbeit",
    "Musik",      "das Internet"};
constexpr const char* kFrench[] = {"Explique-moi {} avec des mots simples.",
                                   "Donne cinq faits importants sur {}.",
                                   "Écris une courte histoire sur {}.",
                                   "Écris un message poli à propos de {}.",
                                   "Que faut-il savoir sur {} ?",
                                   "Traduis en anglais : Nous avons parlé de {}."};
constexpr const char* kFrenchTopics[] = {
    "la météo",         "la cuisine française", "le train",   "les vacances", "l'école", "la mer",
    "le vélo en ville", "l'histoire de Paris",  "la musique", "le sommeil"};
constexpr const char* kSpanish[] = {
    "Explícame {} con palabras sencillas.", "Dame cinco datos importantes sobre {}.",
    "Escribe un cuento corto sobre {}.",    "Escribe un mensaje amable sobre {}.",
    "¿Qué hay que saber sobre {}?",         "Traduce al inglés: Ayer hablamos sobre {}."};
constexpr const char* kSpanishTopics[] = {
    "el clima",  "la comida sana", "los volcanes",       "la escuela", "un viaje a la montaña",
    "el fútbol", "los gatos",      "el trabajo en casa", "la música",  "el agua"};
constexpr Abroad kAbroad[] = {
    {kGerman, kGermanTopics}, {kFrench, kFrenchTopics}, {kSpanish, kSpanishTopics}};

constexpr const char* kTalk[] = {
    "Hi! How are you?",
    "I feel a bit tired today. Any ideas?",
    "Tell me a joke.",
    "What is your favourite season, and why?",
    "Can you help me plan my weekend?",
    "I had an argument with a friend. What should I say to her?",
    "Good morning!",
    "Recommend me a film for a rainy evening.",
    "I am bored. What could I do?",
    "What can you help me with?",
    "Wish my grandmother a happy birthday in four lines.",
    "I need a table for two tonight.",
    "Set a reminder for my dentist on Tuesday at nine.",
    "What should I cook with eggs, spinach and rice?",
    "Help me decide between tea and coffee.",
    "I lost my keys. Where should I look first?",
    "Pretend to be a pirate and greet me.",
    "You are a travel agent. Ask me what you need to know to find me a trip.",
    "Write a letter of complaint about a late parcel.",
    "Write an invitation to a garden party.",
    "Correct this sentence: He don't know where is the station.",
    "Which word does not belong: apple, pear, chair, plum?",
    "Sort these by size: mouse, elephant, horse, cat.",
    "Give me a synonym for each: fast, happy, cold, begin.",
    "What is the capital of Australia?",
    "Who wrote Romeo and Juliet?",
    "How many continents are there, and which?",
    "Is it true that goldfish forget everything?",
    "Say in one word whether this review is good or bad: The soup was cold and the waiter rude.",
    "Write a tagline for a shop that repairs shoes."};

std::string filled(std::string_view pattern, char mark, std::string_view with) {
  std::string text(pattern);
  const std::string_view hole = mark == '{' ? "{}" : "%";
  const size_t at = text.find(hole);
  return at == std::string::npos ? text : text.replace(at, hole.size(), with);
}

}  // namespace

Corpus seed_prompts(bool chat) {
  std::vector<std::string> prompts(std::begin(kTalk), std::end(kTalk));
  const auto cross = [&](std::span<const char* const> patterns, std::span<const char* const> with) {
    for (const char* pattern : patterns) {
      for (const char* one : with) prompts.push_back(filled(pattern, '{', one));
    }
  };
  cross(kAbout, kTopics);
  cross(kInstructions, kPassages);
  for (const Abroad& abroad : kAbroad) cross(abroad.about, abroad.topics);
  for (const char* pattern : kProgramming) {
    for (const char* language : kLanguages) {
      for (const char* task : kTasks) {
        prompts.push_back(filled(filled(pattern, '{', language), '%', task));
      }
    }
  }
  for (const char* pattern : kSums) {
    for (int i = 1; i <= 12; ++i) {
      const std::string large = std::to_string(12 + 17 * i), small = std::to_string(2 + i % 7);
      prompts.push_back(filled(filled(pattern, '{', large), '%', small));
    }
  }
  Corpus corpus;
  for (std::string& prompt : prompts) {
    for (const char c : prompt) {
      corpus.hash = (corpus.hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;  // FNV
    }
    CorpusText& text = corpus.texts.emplace_back();
    if (chat) {
      text.messages = {{ChatMessage::Role::kUser, std::move(prompt)},
                       {ChatMessage::Role::kAssistant, ""}};
    } else {
      text.text = std::move(prompt);
    }
  }
  corpus.dialogues = chat ? std::ssize(corpus.texts) : 0;
  return corpus;
}

}  // namespace specbound
