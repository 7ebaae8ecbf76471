#include "corpus/seed_prompts.h"

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "corpus/seed_texts.h"

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
    "Is anything in this text surprising? Quote the sentence, then explain.\n\n{}",
    "Summarize this text in one sentence.\n\n{}",
    "Sum this up for me in bullet points, at most five.\n\n{}",
    "{}\n\nWhat happened or is to be done first, what next, what last?",
    "{}\n\nWhat would a reader still want to know that the text above does not say?",
    "Copy out word for word the two sentences of this text that matter most.\n\n{}",
    "Rewrite this text in a more formal style, without leaving anything out.\n\n{}"};

// Over numbered sources: {} is the question, % what a search has found.
constexpr const char* kAnswers[] = {
    "Use only the sources below, and say so if they do not say.\n\nQuestion: {}\n\n%",
    "%\n\nAnswer with the numbers of the sources that you rely on: {}",
    "{}\n\nHere is what a search found:\n%",
    "Context:\n%\n\nQuestion: {}\nAnswer in one or two sentences."};
// % is the language.
constexpr const char* kTranslations[] = {"Translate % to English: {}",
                                         "Translate this % sentence into English.\n\n{}",
                                         "What does this mean in English? It is %: {}"};
constexpr const char* kFromEnglish[] = {"Translate English to German: {}",
                                        "How does one say this in French? {}",
                                        "Translate into Spanish: {}"};

constexpr const char* kProgramming[] = {
    "Write a function in {} that %.",
    "Write a {} program that %, with a short explanation.",
    "Show me how to test {} code that %.",
    "In {}, what is a clear and fast way to write something that %?",
    "Write {} code that %. Only the code, please.",
    "I am learning {}. Explain step by step how to write something that %.",
    "I need {} code that %. Comment it, and show an example of its use.",
    "Give me two ways to write {} code that %, and compare them."};
// Python, which is asked for most, is the first.
constexpr const char* kLanguages[] = {"Python", "JavaScript", "TypeScript", "C++",
                                      "C",      "Java",       "Rust",       "Go"};
constexpr const char* kTasks[] = {
    "reverses the words of a sentence",
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
    "downloads a page and prints its title",
    "adds up the digits of a number",
    "swaps the keys and the values of a map",
    "multiplies two matrices",
    "keeps a bank account with deposits, withdrawals and a list of both",
    "implements a linked list that can be reversed",
    "implements a binary search tree with insertion and search",
    "keeps the most recently used entries of a cache and drops the oldest",
    "finds the shortest way between two nodes of a weighted graph",
    "lists all files of a folder and its subfolders by size",
    "renames all photos of a folder by the date they were taken",
    "parses a line of arithmetic such as 2 * (3 + 4) and computes it",
    "reads a JSON file of settings and fills in what is missing",
    "asks a web service for the weather and copes with errors",
    "serves a list of tasks over HTTP",
    "queries a SQLite database for the five best customers",
    "finds all dates in a text with a regular expression",
    "tells how many working days lie between two dates",
    "prints all permutations of a word",
    "solves the towers of Hanoi",
    "runs several downloads at once and waits for all of them",
    "passes work from one thread to others through a queue",
    "reads options such as --name and --verbose from the command line",
    "plays tic-tac-toe against a person",
    "compresses runs of the same letter, as in aaab to a3b1"};
constexpr const char* kOfCode[] = {"What does this code do?\n\n{}",
                                   "Is there a bug in this? If so, find it and fix it.\n\n{}",
                                   "{}\n\nAdd comments to the code above where they help.",
                                   "Write unit tests for this.\n\n{}",
                                   "Rewrite this in Go.\n\n{}",
                                   "Make this code faster or simpler, and say why it is.\n\n{}"};
constexpr const char* kTools[] = {
    "Write an SQL query: what orders (customer, sum) add up to by city of customers (id, city).",
    "Write an SQL query that finds email addresses which occur more than once in a table users.",
    "What does this shell command do? find . -name '*.log' -mtime +30 -print0 | xargs -0 gzip",
    "Which shell command shows the ten largest files below a folder?",
    "Write a regular expression for times such as 07:45 and 23:59, and explain its parts.",
    "Write a Dockerfile for a small Flask application with a requirements.txt.",
    "How do I centre a box in the middle of the page with CSS? Show HTML and CSS.",
    "Write a CSS grid with three columns that becomes one column on phones.",
    "I have committed to the wrong branch in git and not pushed yet. How do I move the commit?",
    "What is the difference between git merge and git rebase?",
    "Write a GitHub workflow that runs the tests of a Python project on every push.",
    "Write a Makefile for a C program of three source files."};

constexpr const char* kSums[] = {
    "A shop sells pens for % euros each and gives one free with every five bought. How many pens "
    "does one get for {} euros?",
    "Anna has {} marbles and gives away % of them each day. After how many days has she none left?",
    "A train drives {} kilometres in % hours. How far does it drive in seven hours at that speed?",
    "In a school of {} children % play the violin. What percentage is that? Show your work.",
    "Tom earns {} dollars a week and spends % dollars of it a day. How much has he saved after a "
    "year?",
    "A field is {} metres long and % metres wide. How long is the fence around it, and what is its "
    "area?",
    "A recipe for % people takes {} grams of flour. How much is needed for ten people?",
    "What is {} times %? Explain how to do it in the head.",
    "A baker makes {} rolls and packs % into each bag. He sells the bags for 3 dollars each. How "
    "much does he take if four bags are left over?",
    "Maria reads % pages of a book of {} pages every evening, and twice as many on Sunday. How "
    "many pages are left after a week?",
    "A tank holds {} litres. It is half full, and % litres run in every minute. How long does it "
    "take until it is full?",
    "Leo buys % shirts for {} dollars together. Each of them is reduced by 3 dollars afterwards. "
    "What would he have paid for ten shirts at the lower price?",
    "There are {} seats in a hall, in rows of %. The first two rows stay empty, all others are "
    "taken. How many people are there?",
    "A worker earns {} dollars a day and % dollars more for each hour of overtime. What does she "
    "earn in a week of five days with six hours of overtime?",
    "A farmer collects {} eggs a day and sells them in boxes of % for 4 dollars each. Feed costs "
    "him 30 dollars a day. What does he earn in ten days?",
    "Nina is % years old, and her grandmother's house is {} years old. How old will the house be "
    "when Nina is 30?",
    "A train starts with {} passengers. At each of % stops 4 leave and 2 get on. How many are on "
    "it afterwards?",
    "A phone costs {} dollars. Sam pays a quarter at once and the rest in % equal parts. How large "
    "is each part?",
    "Two friends share the costs of a trip: {} euros for the rooms and % euros a day for the car, "
    "for three days. One of them has paid 20 euros so far. How much of his share is missing?",
    "A printer prints % pages a minute. It begins {} pages at nine o'clock and stands still for "
    "five minutes in between. When is it done?"};

struct Abroad {
  SeedTexts about, topics;
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
    "Write a tagline for a shop that repairs shoes.",
    "Write an entry for a diary: the first week in a new job, at the zoo.",
    "Write the first page of a detective story that begins in a laundry.",
    "Draft an email to my landlord: the heating in the bathroom has been cold since Friday.",
    "Write a short speech for the retirement of a colleague who loved fishing.",
    "Describe a kitchen in which jam is being made, so that one can smell it.",
    "Write a product description for a lamp that is made of old bottles.",
    "Make this sentence shorter and friendlier: We hereby inform you that your application has "
    "been received and will be processed in due course.",
    "Write a job advertisement for a baker in a small town.",
    "Write a scene for three actors: a key, a thief and a policeman who is afraid of the dark.",
    "Write an apology from a cat to the goldfish.",
    "Write a persuasive paragraph for longer opening hours at the library.",
    "Write a limerick about a man from Leeds, then explain the joke.",
    "You are a museum guide in the year 2300. Show me a smartphone.",
    "Be my interviewer for a job as a nurse. Ask one question at a time; begin now.",
    "You are a grumpy gardener. What do you say to people who water their plants at noon?",
    "Answer as a patient teacher of physics: why is the sky blue?",
    "Pretend to be a weather forecaster on Mars and give tomorrow's forecast.",
    "You are a doctor's receptionist. I would like to put off my appointment.",
    "Speak as an old piano in the hall of a station would.",
    "Act as a coach: I want to run five kilometres in eight weeks and have never run.",
    "Ben is older than Carla, Carla is older than Dev, and Eva is younger than Dev. Who is the "
    "second oldest? Explain.",
    "There are three boxes with false labels: apples, pears, both. From which one do you take a "
    "single fruit to put all labels right?",
    "If all the shops in a street are closed on Sundays and the bakery is open today, what can I "
    "say about the day? Under what assumption?",
    "A bat is heard in the attic, the cat sleeps, and the milk is gone. What can be concluded, "
    "and what cannot?",
    "I have a 3-litre jug and a 5-litre jug. How do I measure four litres?",
    "Which is heavier, a kilogram of feathers or a kilogram of iron? Why do people hesitate?",
    "What comes next: 2, 6, 12, 20, 30? Explain how you found it.",
    "Two clocks strike at noon; one gains a minute an hour, the other loses one. When do they "
    "strike together again?",
    "My train leaves at 9:12 and the walk takes 25 minutes. I want to be there ten minutes early "
    "and buy bread on the way. When do I have to leave? State what you assume.",
    "Give the names, dates and sums in this note as a list: Paid Olga 45 euros on May 2, Ravi 30 "
    "on May 9, owe Lin 12 since April.",
    "Sort into fruit, vegetable and neither, as JSON: carrot, plum, bread, leek, cherry, salt.",
    "Which of these comments are about the price, which about the goods? Far too dear. Broke on "
    "day two. Cheaper than last year. I bought three more for my sisters!",
    "Take the order out of this message as a table: Hi, three pizzas with mushrooms, one without "
    "cheese, and two bottles of water, to 14 Mill Lane at seven. Thanks, Jo",
    "Make a card for my address book of this: Amina Yusuf has left Norvik Labs and now leads a "
    "team at Bright Foods, 9 Rua Nova, Porto; she can be reached under 555 0142.",
    "Is this message urgent? Answer yes or no and give the reason: The printer on floor two makes "
    "a strange noise, but it still prints.",
    "Write these dates in the form year-month-day: 3 May 2021, July 14th 1999, 1.2.2010.",
    "Compare the aims of the labour movement and of the early women's movement in Europe.",
    "What did the Stoics teach about anger, and does it still help?",
    "How did the plague of the 14th century change the lives of farmers in Europe?",
    "What is the difference between a metaphor and a simile? Give two examples of each.",
    "Explain supply and demand with the price of strawberries.",
    "Suggest three ways to teach children of twelve the causes of the First World War.",
    "Why do two objects of different weight fall equally fast in a vacuum?",
    "What is the difference between mitosis and meiosis?",
    "Solve 3x + 7 = 2x + 15 and check the result.",
    "A bag holds four red and six blue marbles. I draw two without looking. How likely is it that "
    "both are red?",
    "Why does iron rust away, but aluminium hardly?",
    "How does a refrigerator make things cold?",
    "What is the derivative of x^3 - 4x, and where is it zero?",
    "Why does a public key not give away the private key?"};

constexpr const char* kQuestions[] = {
    "Who painted the Mona Lisa?",
    "When did the Berlin Wall fall?",
    "Where is the Taj Mahal, and who had it built?",
    "How many bones has an adult human?",
    "What is the longest river of Africa?",
    "Who was the first person on the moon?",
    "In which year did the Titanic sink?",
    "What is the chemical symbol of gold?",
    "How many players does a football team have on the field?",
    "Which planet is the largest of our solar system?",
    "Who discovered penicillin, and when?",
    "What is the capital of Canada?",
    "Where do penguins live?",
    "How long does light take from the sun to the earth?",
    "Who wrote Don Quixote?",
    "When did the Second World War end in Europe?",
    "What language is spoken in Brazil?",
    "How many strings has a violin?",
    "Who invented the World Wide Web?",
    "What is the highest mountain of the world, and how high is it?",
    "In which country was the game of chess first played?",
    "Which gas do plants take in from the air?",
    "Who composed the Four Seasons?",
    "How many states have the United States?",
    "What is the smallest country of the world?",
    "When was the first iPhone sold?",
    "Which animal is the fastest on land?",
    "Who was the first woman to win a Nobel Prize?",
    "What is the boiling point of water at sea level?",
    "Where were the Olympic Games of 2012 held?",
    "How many teeth has an adult human?",
    "Who wrote The Origin of Species?",
    "What is the currency of Switzerland?",
    "Which ocean lies between Africa and Australia?",
    "When did the Roman Empire of the West come to an end?",
    "How many minutes has a day?",
    "Who was Cleopatra?",
    "What is the largest organ of the human body?",
    "Which country gave the Statue of Liberty to the United States?",
    "Where is the Sahara?",
    "Who sang Bohemian Rhapsody?",
    "What does DNA stand for?",
    "How many colours has a rainbow?",
    "When is the longest day of the year in the north?",
    "Which metal is liquid at room temperature?",
    "Who was Nelson Mandela?",
    "What is the main ingredient of hummus?",
    "How far is the moon from the earth?",
    "In which city are the headquarters of the United Nations?",
    "Who developed the theory of relativity?",
    "What is the square root of 144?",
    "Which bird lays the largest eggs?",
    "When did India become independent?",
    "Where does the Danube flow into the sea?",
    "How many legs has a spider?",
    "Who is the author of Pride and Prejudice?",
    "What is the hardest natural material?",
    "Which instrument has 88 keys?",
    "How often does Halley's comet come back?",
    "What was the old name of Istanbul?"};

// `pattern` with `text` for {} and `other` for %; what is in these stays as it is.
std::string filled(std::string_view pattern, std::string_view text, std::string_view other = "") {
  std::string whole;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern.substr(at, 2) == "{}") {
      whole += text;
      ++at;
    } else if (pattern[at] == '%') {
      whole += other;
    } else {
      whole += pattern[at];
    }
  }
  return whole;
}

std::vector<std::string> written_prompts() {
  std::vector<std::string> prompts;
  for (SeedTexts whole : {SeedTexts(kTalk), SeedTexts(kQuestions), SeedTexts(kTools)}) {
    prompts.insert(prompts.end(), whole.begin(), whole.end());
  }
  // Each text in `share` of `of` patterns, taken in turn.
  const auto cross = [&](SeedTexts patterns, SeedTexts texts, size_t share = 1, size_t of = 1,
                         std::string_view other = "") {
    for (size_t p = 0; p < patterns.size(); ++p) {
      for (size_t t = 0; t < texts.size(); ++t) {
        if ((p + t) % of < share) prompts.push_back(filled(patterns[p], texts[t], other));
      }
    }
  };
  cross(kAbout, kTopics, 2, 3);
  cross(kInstructions, kSeedPassages, 2, 4);
  cross(kOfCode, kSeedSnippets);
  for (const Abroad& abroad : kAbroad) cross(abroad.about, abroad.topics);
  for (const SeedSentences& from : kSeedSentences) {
    cross(kTranslations, from.sentences, 2, 4, from.language);
  }
  cross(kFromEnglish, kSeedEnglish, 2, 4);
  size_t turn = 0;
  for (const SeedSources& sources : kSeedSources) {
    for (const char* question : sources.questions) {
      ++turn;
      for (size_t p = 0; p < std::size(kAnswers); ++p) {
        if ((p + turn) % 4 != 0) prompts.push_back(filled(kAnswers[p], question, sources.text));
      }
    }
  }
  for (size_t p = 0; p < std::size(kProgramming); ++p) {
    for (size_t l = 0; l < std::size(kLanguages); ++l) {
      for (size_t t = 0; t < std::size(kTasks); ++t) {
        if ((p + l + t) % (l == 0 ? 2u : 6u) != 0) continue;
        prompts.push_back(filled(kProgramming[p], kLanguages[l], kTasks[t]));
      }
    }
  }
  for (const char* pattern : kSums) {
    for (int i = 1; i <= 10; ++i) {
      const int small = 2 + i % 7, large = small * (7 + 5 * i);
      prompts.push_back(filled(pattern, std::to_string(large), std::to_string(small)));
    }
  }
  return prompts;
}

}  // namespace

Corpus seed_prompts(bool chat) {
  Corpus corpus;
  for (std::string& prompt : written_prompts()) {
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
