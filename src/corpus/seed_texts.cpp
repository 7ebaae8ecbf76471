#include "corpus/seed_texts.h"

namespace specbound {
namespace {

constexpr const char* kPassages[] = {
    "The lighthouse on Gull Rock was built in 1861, after three ships had been lost in one winter. "
    "Its keeper, Martin Hale, lived there with his wife and two daughters, and rowed to the "
    "village for flour and oil once a week. In 1903 a storm broke the lower stairs, and for nine "
    "days nobody could leave the tower. The family burned the chairs to keep warm, but the lamp "
    "was lit every evening. The light has worked without a keeper since 1974, and the rooms are a "
    "museum that opens from May to September.",
    "Our company made 42,000 bicycles last year, 6,000 more than the year before. Most of the "
    "growth came from children's bicycles, which are sold through 310 shops in four countries. "
    "Steel became dearer by a fifth, so the profit rose by only 2 percent. In spring we open a "
    "second workshop in Leeds, where forty people will build frames. We expect to deliver the "
    "first of them in August.",
    "Bees find their way by the sun. A bee that has found a good meadow flies back to the hive and "
    "dances on the comb: the angle of the dance to the vertical tells the others the angle of the "
    "meadow to the sun, and the length of the dance tells the distance. On cloudy days they see "
    "where the sun is by the polarized light of the sky. Karl von Frisch described the dance in "
    "the 1920s and received the Nobel Prize for it in 1973.",
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
    "It keeps for three days in the refrigerator and can be frozen before the cream goes in.",
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
    "The tower is closed when the wind is strong.\n[6] Bags must be left in the lockers, which "
    "take a coin of 1 euro and give it back.",
    "Minutes of the meeting of March 3. Present: Ana, Ben, Chidi, Mei. Ana reported that the new "
    "website is ready but for the search. Ben will finish the search by the 14th. Mei asked for a "
    "page in Spanish; Chidi will find a translator and say on Friday what it costs. The summer "
    "party was put off to July because the garden is being dug up. The next meeting is on March 17 "
    "at 4 in Chidi's office.",
    "Police in Harlow Bay have arrested two men after a night of break-ins along the harbour road. "
    "Five shops were entered between one and four on Thursday morning, and tills, cameras and a "
    "coffee machine were taken. A baker on her way to work noticed a van without lights and wrote "
    "down its number. \"She did exactly the right thing,\" Inspector Joan Pell told reporters. "
    "Most of the goods were found in a garage in Millbrook. The men, aged 24 and 31, are to appear "
    "in court on Monday. A third person is still being sought.",
    "Norwegian swimmer Ida Solberg won her second gold medal in two days on Saturday, touching the "
    "wall four hundredths of a second before the favourite, Lena Brandt. \"I did not see her at "
    "all,\" said Solberg, 19, who had qualified only as seventh. Brandt led by half a length at "
    "the last turn but lost ground over the final fifteen metres. The Italian Carla Neri came "
    "third in a national record of 2:06.31. The men's relay was postponed by an hour because the "
    "timing system had failed.",
    "Shares of the tool maker Kestrel fell by 11 percent on Wednesday after the company lowered "
    "its forecast for the second time this year. It now expects sales of 1.9 billion dollars "
    "instead of 2.2 billion. Managing director Paul Wenger blamed weak demand from builders and "
    "the costs of a recall of cordless drills in May. Three hundred of 5,200 jobs are to go, most "
    "of them in administration. Analysts had feared worse: the dividend stays at 40 cents, and "
    "orders from Asia rose for the first time since last autumn.",
    "The council of Aldermouth voted on Tuesday night to close the old town to cars from next "
    "June. Fourteen members were in favour, nine against. Shopkeepers had collected 3,100 "
    "signatures against the plan, as they fear for their trade. Mayor Teresa Quill promised a car "
    "park with 450 spaces at the station and a free bus every ten minutes. The opposition called "
    "the costs of 7 million pounds \"a bet with other people's money\". After a year the council "
    "is to decide whether the rule remains.",
    "A storm with gusts of up to 130 kilometres an hour crossed the north coast during the night. "
    "In Skerrin a roof was blown off a gymnasium; nobody was in it. Some 18,000 homes were without "
    "power in the morning, and ferries to the islands will not sail before Friday. The weather "
    "service expects the wind to ease by noon, but warns of heavy rain in the hills, where up to "
    "60 millimetres may fall. Schools in three districts stay closed today.",
    "Astronomers have watched a star swallow one of its planets. The star, which is about as heavy "
    "as our sun, became a hundred times brighter within ten days and then faded over half a year. "
    "Telescopes that see infrared light found a cloud of dust around it, far cooler than gas from "
    "an ordinary outburst. The researchers conclude that a planet several times the size of "
    "Jupiter sank into the star. Our own sun may do the same to Mercury and Venus, but not for "
    "another five billion years.",
    "A court in Westfield has ordered a travel company to pay back the full price of a holiday "
    "because the hotel was still being built. The Dorn family had booked two weeks by the sea for "
    "3,480 euros. On arrival they found cranes beside the pool and no water above the second "
    "floor. The company offered a voucher of 200 euros, which the family refused. The judge held "
    "that guests need not accept noise from seven in the morning when the brochure promises quiet. "
    "An appeal is possible until the end of the month.",
    "Elena Marchetti (born 1931 in Trieste, died 2009 in Basel) was a builder of bridges. The "
    "daughter of a ship's carpenter, she studied in Zurich, where she was the only woman of her "
    "year. From 1962 she worked with thin arches of concrete; her footbridge at Valdora, finished "
    "in 1968, spans 74 metres and is nowhere thicker than a hand is long. After a dispute about a "
    "motorway she left the profession in 1981 and taught until her retirement. Two of her bridges "
    "are now protected monuments. Her notebooks were printed after her death.",
    "Marie Tharp was an American geologist and maker of maps. From 1948 she worked at Columbia "
    "University with Bruce Heezen, who gathered soundings of the ocean floor at sea while she drew "
    "them, as women were then not allowed on the research ships. In 1952 she noticed a valley "
    "along the middle of the Atlantic ridge, a sign that the sea floor is being pulled apart. "
    "Heezen at first dismissed the idea as \"girl talk\". Their map of all oceans appeared in 1977 "
    "and helped to win acceptance for the drift of continents.",
    "The common swift spends almost its whole life in the air. It eats, drinks, mates and even "
    "sleeps on the wing, and lands only to breed, mostly under roofs and in towers. Birds fitted "
    "with tiny recorders stayed aloft for up to ten months without a pause. Swifts reach Central "
    "Europe at the beginning of May and leave for Africa as early as August. In cold weather, when "
    "few insects fly, the young can live for more than a week without food by letting their body "
    "temperature fall.",
    "Lake Ohrid lies between North Macedonia and Albania and is among the oldest lakes of Europe; "
    "its age is put at more than a million years. It is up to 288 metres deep and is fed largely "
    "by springs whose water comes underground from the higher Lake Prespa. More than two hundred "
    "species live nowhere else, among them a trout with a fine taste that has become rare through "
    "fishing. The town of Ohrid, on the eastern shore, is known for its many churches and draws "
    "visitors from June to September.",
    "In lost-wax casting, a model of the object is made of wax and covered with clay or plaster. "
    "When the mould is heated, the wax runs out through channels and leaves a hollow, into which "
    "molten metal is poured. After it has cooled, the mould is broken, so each serves only once. "
    "The method allows fine detail and undercut shapes. It has been in use for more than five "
    "thousand years; today jewellers, dentists and makers of turbine blades work with it.",
    "Configuration. The server reads settings.toml from the folder in which it is started. `port` "
    "is the port it listens on (default 8080). `workers` sets the number of processes; 0 means one "
    "for each core. `log_level` is one of debug, info, warn or error. Values can be overridden by "
    "environment variables with the prefix APP_, for example APP_PORT=9000. Unknown keys are "
    "reported as a warning and ignored. Changes take effect after a restart, except for "
    "`log_level`, which is read again when the process receives SIGHUP.",
    "5. Cancellation. 5.1 Either party may end this agreement at the end of a month with thirty "
    "days' notice in writing. 5.2 The Provider may end it at once if the Customer is more than two "
    "instalments behind, after a reminder that sets a term of fourteen days. 5.3 Fees that were "
    "paid in advance are returned in proportion, less an administrative charge of 25 dollars. 5.4 "
    "On termination the Provider keeps the Customer's data for sixty days, during which they can "
    "be exported, and then deletes them. Section 8 (Liability) remains in force.",
    "The Trailmate 40 is a backpack for tours of two to four days. It holds 40 litres, weighs 1.2 "
    "kilograms and is made of recycled nylon that sheds a shower of rain; for longer downpours a "
    "cover is hidden in the bottom pocket. The back length can be set in five steps from 42 to 52 "
    "centimetres. A wide belt brings the weight to your hips, and two side openings let you reach "
    "your things without unpacking. Available in moss, slate and orange. Price: 149 euros, with a "
    "guarantee of five years.",
    "Potato pancakes for four: peel one kilogram of floury potatoes and one onion and grate them "
    "finely. Press the liquid out in a cloth, wait until the starch has settled, pour off the "
    "water and return the starch to the potatoes. Mix in two eggs, three tablespoons of flour, a "
    "teaspoon of salt and some nutmeg. Heat plenty of oil in a pan and fry small, flat cakes for "
    "about four minutes on each side until they are brown at the edges. Serve at once with apple "
    "sauce, or with smoked salmon and sour cream.",
    "Subject: Delay of the spring order. Hi Marcus, I'm afraid the second container won't make it "
    "to Hamburg before the 22nd; there was a strike in Santos and the ship left six days late. It "
    "carries 800 of the 1,200 garden chairs. The tables are on time. I could have 200 chairs sent "
    "from our warehouse in Lyon by truck, which would cost about 1,900 euros. Shall we split that? "
    "Please let me know by Wednesday noon, as the truck has to be booked. Sorry for the trouble. "
    "Best, Yasmin",
    "\"You're early,\" said Ruth. \"The bus came at ten past for once,\" Sam answered and put the "
    "box on the table. \"Is that it?\" \"That's it. Grandfather's radio. The dealer wanted eighty, "
    "I gave him fifty-five.\" Ruth turned it round. The name was still scratched into the back, "
    "where he had put it as a boy. \"Does it play?\" \"It hums. Your neighbour repairs such "
    "things, doesn't he?\" \"Mr. Lund? He moved to his daughter in March. But he left me his "
    "tools.\" Sam laughed. \"Then you had better learn it.\"",
    "Visitors of the city library by month (thousands)\nMonth | Main building | East branch | "
    "Online loans\nJanuary | 21.4 | 6.2 | 9.8\nFebruary | 19.9 | 5.8 | 9.1\nMarch | 23.0 | 6.9 | "
    "9.5\nApril | 18.3 | 7.4 | 10.7\nMay | 17.6 | 7.7 | 11.2\nJune | 12.1 | 8.5 | 12.9\nNote: the "
    "main building was closed from the 11th to the 30th of June while the heating was renewed. The "
    "East branch has opened on Sundays since April. Online loans count books and films, but not "
    "newspapers.",
    "Background: Whether short walks after meals help people with an early form of diabetes is not "
    "well known. Methods: 86 adults were assigned by lot to walk for fifteen minutes after each "
    "main meal or once a day for forty-five minutes. Glucose was recorded for eight weeks. "
    "Results: The peak after dinner was 0.9 mmol/l lower in the first group (p = 0.01); the "
    "average over the day did not differ. Nine people left the study, six of them from the second "
    "group. Conclusion: Several short walks may be as useful as a long one and easier to keep up.",
    "We stayed three nights at the Pension Lindenhof and would go again, with some reservations. "
    "The room was small but spotless, the bed excellent, and breakfast offered six kinds of "
    "home-made jam. Mrs. Auer lent us a map and told us of a path that is in no guidebook. On the "
    "other hand, the walls are thin: we heard every word of the family next door. There is no "
    "lift, and our room was on the fourth floor. Parking costs 12 euros a day, which the website "
    "does not mention. Seven out of ten.",
    "Notes, project call 9 October. Release moves from the 20th to the 27th: login test fails on "
    "old phones, Priya is on it. Budget: 4,300 of 6,000 spent, training videos not yet paid. Tomas "
    "wants to drop the export to PDF from version 1; Lea disagrees, two customers were promised "
    "it. Compromise: export without page numbers, Lea tells the customers. Help texts: first draft "
    "from Olu by Monday, review by all until Thursday. Open question: who answers support mails "
    "over Christmas? Next call on the 16th, half an hour earlier."};

constexpr SeedSources kSources[] = {
    {"[1] The Ferndale bridge was opened to traffic in October 1934 and is 612 metres long.\n"
     "[2] Ferndale has a population of 48,000 and a well-known market for flowers.\n"
     "[3] During the flood of 1957 two piers of the Ferndale bridge gave way; it was closed for "
     "fourteen months.\n"
     "[4] The engineer of the bridge, Oskar Lindt, also designed the railway station of Marlow.\n"
     "[5] Since 2011 lorries above 12 tonnes have had to use the tunnel north of the town.",
     {"Why could the Ferndale bridge not be used for more than a year?",
      "Who designed the Ferndale bridge, and what else did he design?",
      "How much did it cost to build the Ferndale bridge?"}},
    {"[1] Octopuses have three hearts: two pump blood through the gills, the third through the "
     "rest of the body.\n"
     "[2] The blood of octopuses is blue because it carries oxygen with copper instead of iron.\n"
     "[3] Squid can reach great lengths; the giant squid grows to about twelve metres.\n"
     "[4] When an octopus swims, the heart that serves the body stops beating, which is why it "
     "tires quickly and prefers to crawl.",
     {"How many hearts does an octopus have, and what are they for?",
      "Why do octopuses crawl rather than swim?", "How many eggs does an octopus lay?"}},
    {"[1] \"Winter Harbour\" is the second album of the singer Nora Vale. It came out in March "
     "2016.\n"
     "[2] Vale wrote nine of the eleven songs herself; \"Salt\" and \"Long Way Down\" are by her "
     "brother Jonas.\n"
     "[3] The first album of the band The Harbours sold 20,000 copies.\n"
     "[4] The album was recorded in nine days in a former chapel near Bergen.\n"
     "[5] A critic of the Evening Post called it \"a record for people who look out of train "
     "windows\".",
     {"Who wrote the song \"Salt\" on Winter Harbour?",
      "Where was Winter Harbour recorded, and how long did it take?",
      "What place did Winter Harbour reach in the charts?"}},
    {"[1] Returns: goods can be sent back within 30 days of delivery if they are unused. Return "
     "labels are found under \"My orders\".\n"
     "[2] Delivery takes two to four working days. From 50 euros it is free, below that it costs "
     "4.90 euros.\n"
     "[3] Refunds are made within ten days of the goods reaching our warehouse, by the same means "
     "as the payment.\n"
     "[4] Gift cards are valid for three years and cannot be exchanged for cash.\n"
     "[5] Earrings and opened cosmetics are excluded from return for reasons of hygiene.",
     {"I opened a face cream and do not like it. Can I return it?",
      "How long does it take until I have my money back after a return?",
      "Can I have my parcel delivered to a neighbour?"}},
    {"[1] The potato was first grown in the Andes, at least seven thousand years ago.\n"
     "[2] Spanish ships brought potatoes to Europe in the second half of the 16th century.\n"
     "[3] Tomatoes were long thought to be poisonous in parts of Europe.\n"
     "[4] In 1756 Frederick the Great ordered farmers in Prussia to plant potatoes.\n"
     "[5] A plant disease destroyed most of the Irish potato harvest in 1845 and the years after; "
     "about a million people died.\n"
     "[6] Green potatoes contain solanine and should not be eaten.",
     {"How did the potato come to Europe, and when?",
      "What happened to the potatoes in Ireland in the 1840s?",
      "Which country grows the most potatoes today?"}},
    {"[1] Route 14 runs from the Central Station to the university every twelve minutes on "
     "weekdays.\n"
     "[2] On Sundays and public holidays route 14 ends at the hospital; passengers for the "
     "university change there to route 3.\n"
     "[3] A day ticket for the inner zone costs 6.20 euros and is valid until three in the "
     "morning.\n"
     "[4] The airport lies in the outer zone, for which 2.50 euros more are charged.\n"
     "[5] Bicycles may be taken along before six and after nine in the morning.",
     {"How do I get from the Central Station to the university on a Sunday?",
      "What do I pay for a day ticket that includes the airport?", "How often does route 3 run?"}},
    {"[1] Amadou Keita (born 1979) is a chess player and teacher. He became the first grandmaster "
     "of his country in 2003.\n"
     "[2] The chess school that Keita founded in 2008 has about 400 pupils.\n"
     "[3] Mariam Keita, a runner, took part in two Olympic Games. She is not related to the chess "
     "player.\n"
     "[4] In the tournament of Tarn in 2012 Keita beat the later world champion in 31 moves.\n"
     "[5] A grandmaster needs a rating of 2500 and good results in several tournaments.",
     {"When did Amadou Keita become a grandmaster, and what does one need for that?",
      "Are Amadou and Mariam Keita related?", "Where did Amadou Keita learn to play chess?"}},
    {"[1] Lithium-ion batteries age fastest when they are kept full and warm.\n"
     "[2] Many phones can be set to stop charging at 80 percent, which lengthens the life of the "
     "battery.\n"
     "[3] The first battery was built by Alessandro Volta around 1800.\n"
     "[4] Below freezing point a phone may switch off early; the battery recovers when it gets "
     "warm.\n"
     "[5] For storage of several months, a charge of about one half is recommended.",
     {"How should I keep a phone that I will not use for half a year?",
      "Why did my phone turn itself off on a ski trip? Is it broken?",
      "How many years does a phone battery last on average?"}},
    {"[1] \"The Clockmaker's Summer\", a film of 1998, tells of a boy who spends his holidays with "
     "his deaf uncle in a mountain village.\n"
     "[2] The uncle is played by Henrik Maas, who learnt sign language for half a year.\n"
     "[3] Maas was born in Utrecht and began his career on the stage.\n"
     "[4] The film was shot in the Val Serra; the clock tower is a model, as the real one had "
     "burnt down in 1990.\n"
     "[5] A remake was announced in 2015 but never made.",
     {"Who plays the uncle in The Clockmaker's Summer, and how did he prepare?",
      "Can one visit the clock tower that is seen in the film?",
      "Who directed The Clockmaker's Summer?"}},
    {"[1] Employees receive 28 days of leave a year, and 30 from the fifth year on.\n"
     "[2] Leave of more than two weeks must be agreed with the team lead eight weeks ahead.\n"
     "[3] Up to five days can be carried over to the next year and must be taken by the end of "
     "March.\n"
     "[4] Those who fall ill on holiday get the days back if they hand in a doctor's note.\n"
     "[5] The canteen is open from 11:30 to 14:00.\n"
     "[6] Expenses are paid with the next salary if they are entered by the 15th.",
     {"I was ill for three days of my holiday. Are they lost?",
      "I have nine days of leave left in December. What becomes of them?",
      "Can I take unpaid leave for half a year?"}}};

constexpr const char* kGermanSentences[] = {
    "Die Polizei sucht nach einem Unfall auf der Landstraße bei Neukirchen dringend Zeugen, die "
    "den roten Kleinwagen gesehen haben.",
    "Nach drei Niederlagen in Folge hat sich der Verein am Montagabend überraschend von seinem "
    "Trainer getrennt.",
    "Die Bundesregierung will den Bau neuer Wohnungen mit günstigen Krediten fördern, doch die "
    "Länder halten das Geld für zu knapp.",
    "Wegen eines Defekts an der Oberleitung fuhren zwischen Hannover und Göttingen mehrere Stunden "
    "lang keine Züge.",
    "Der Umsatz des Herstellers stieg im ersten Halbjahr um vier Prozent auf 1,3 Milliarden Euro.",
    "Meine Schwester hat gestern angerufen und gefragt, ob wir im Sommer wieder zusammen an die "
    "Ostsee fahren.",
    "Forscher der Universität haben in einer Höhle Werkzeuge gefunden, die vermutlich mehr als "
    "40.000 Jahre alt sind.",
    "Am Wochenende erwarten die Meteorologen Temperaturen von bis zu 34 Grad, erst am Montag kühlt "
    "es deutlich ab.",
    "Könnten Sie mir bitte sagen, wo ich am Bahnhof eine Fahrkarte für morgen früh bekomme?",
    "Der Angeklagte bestreitet, das Gemälde gestohlen zu haben, und verweist auf einen Kaufvertrag "
    "aus dem Jahr 2014.",
    "In der zweiten Halbzeit fehlte der Mannschaft die Kraft, und so wurde aus einer Führung noch "
    "eine klare Niederlage.",
    "Obwohl die Preise für Butter gesunken sind, geben viele Haushalte für Lebensmittel mehr aus "
    "als vor einem Jahr.",
    "Der Bürgermeister kündigte an, das Hallenbad erst nach einer gründlichen Untersuchung des "
    "Daches wieder zu öffnen.",
    "Wenn du den Kuchen aus dem Ofen nimmst, lass ihn noch zehn Minuten in der Form stehen.",
    "Bei den Verhandlungen über einen Waffenstillstand gibt es nach Angaben beider Seiten erste "
    "Fortschritte.",
    "Die Ausstellung zeigt rund achtzig Zeichnungen, von denen die meisten noch nie öffentlich zu "
    "sehen waren.",
    "Ein Sprecher der Gewerkschaft sagte, das Angebot der Arbeitgeber reiche bei Weitem nicht aus.",
    "Ich habe den Schlüssel unter die Matte gelegt, falls du vor mir nach Hause kommst.",
    "Die Zahl der Übernachtungen in den Alpen ist trotz des schneearmen Winters kaum "
    "zurückgegangen.",
    "Der Fahrer blieb unverletzt, an seinem Lastwagen entstand ein Schaden von etwa 60.000 Euro.",
    "Sie arbeitete zwanzig Jahre lang als Lehrerin, bevor sie ihren ersten Roman veröffentlichte.",
    "Das Gericht entschied, dass der Vermieter die Kosten für die Reparatur der Heizung tragen "
    "muss.",
    "Gegen Mitternacht wurden die Anwohner von einem lauten Knall geweckt, dessen Ursache bisher "
    "niemand kennt.",
    "Die Ministerin wies die Vorwürfe zurück und sprach von einem Missverständnis zwischen den "
    "Behörden.",
    "Wir haben uns lange nicht gesehen, deshalb schlage ich vor, am Freitag zusammen essen zu "
    "gehen.",
    "Nach Schätzungen der Vereinten Nationen sind mehr als zwei Millionen Menschen auf sauberes "
    "Wasser angewiesen, das Lastwagen bringen.",
    "Die neue Brücke soll im Herbst 2027 fertig sein und den Verkehr in der Innenstadt entlasten.",
    "Der Konzern plant, bis zum Jahresende 600 Stellen abzubauen, ohne dass es zu Kündigungen "
    "kommt.",
    "Unser Hund bellt immer dann, wenn der Nachbar abends die Mülltonne auf die Straße stellt.",
    "Sein Herz schlug schneller, als er auf dem alten Foto das Haus seiner Kindheit erkannte.",
    "Die Impfung wird Menschen ab sechzig Jahren empfohlen und von den meisten Kassen bezahlt.",
    "Mit einem Sprung auf 8,21 Meter sicherte sich der Münchner im letzten Versuch die "
    "Bronzemedaille.",
    "Das Unternehmen räumte ein, dass Unbekannte die Daten von mehreren Tausend Kunden kopiert "
    "hätten.",
    "Leider müssen wir Ihnen mitteilen, dass der bestellte Artikel erst in drei Wochen wieder "
    "lieferbar ist.",
    "Die Partei verlor in den großen Städten, gewann aber auf dem Land so viele Stimmen, dass es "
    "für eine Mehrheit reichte.",
    "Früher gab es in jedem Dorf einen Bäcker, heute kommt zweimal in der Woche ein Wagen.",
    "An der Börse sorgten die Zahlen für Enttäuschung, die Aktie gab zeitweise um neun Prozent "
    "nach.",
    "Der Film erzählt ohne viele Worte von zwei Brüdern, die sich nach dem Tod des Vaters wieder "
    "annähern.",
    "Feuerwehrleute retteten am Sonntag vier Kinder, die auf dem Eis eines Sees eingebrochen "
    "waren.",
    "Bitte beachten Sie, dass die Praxis vom 3. bis zum 14. August geschlossen bleibt."};

constexpr const char* kFrenchSentences[] = {
    "Le maire a annoncé que la bibliothèque resterait ouverte le dimanche à partir du mois de "
    "septembre.",
    "Deux randonneurs portés disparus depuis samedi ont été retrouvés sains et saufs dans un "
    "refuge.",
    "Les prix de l'électricité devraient augmenter de trois pour cent au début de l'année "
    "prochaine.",
    "Je suis désolée de ne pas avoir répondu plus tôt, j'étais en déplacement toute la semaine.",
    "L'équipe a remporté son premier titre depuis vingt ans grâce à un but marqué dans les "
    "dernières minutes.",
    "Selon l'enquête, un jeune sur quatre ne prend jamais de petit déjeuner avant d'aller en "
    "cours.",
    "Le musée a acquis un tableau que l'on croyait perdu depuis la guerre.",
    "Pourriez-vous m'indiquer le chemin le plus court pour aller à la gare ?",
    "La pluie a provoqué des inondations dans plusieurs villages situés au bord de la rivière.",
    "Il faut laisser reposer la pâte une heure avant de la mettre au four.",
    "Le ministre a promis une réforme, mais les syndicats restent prudents.",
    "Ma grand-mère racontait souvent comment elle avait appris à nager dans le canal.",
    "L'entreprise, fondée par deux sœurs en 1987, emploie aujourd'hui plus de neuf cents "
    "personnes.",
    "Les chercheurs espèrent que ce traitement permettra de réduire la durée de la maladie.",
    "Nous avons raté le dernier train et nous avons dû passer la nuit à l'hôtel."};

constexpr const char* kSpanishSentences[] = {
    "El ayuntamiento aprobó ayer un plan para plantar diez mil árboles en los barrios del sur.",
    "Los bomberos tardaron seis horas en apagar el incendio que destruyó una fábrica de muebles.",
    "Mañana no podré ir a la reunión porque tengo que llevar a mi hijo al médico.",
    "La selección ganó por dos a uno y jugará la final contra el equipo anfitrión.",
    "Según los expertos, la sequía podría reducir la cosecha de aceitunas a la mitad.",
    "¿Me puede decir a qué hora sale el próximo autobús para el aeropuerto?",
    "La escritora, que vive desde hace años en Lisboa, presentará su nueva novela en otoño.",
    "El precio de la vivienda subió por quinto año consecutivo, sobre todo en la costa.",
    "Cuando llegamos al pueblo, todas las tiendas estaban cerradas por la fiesta.",
    "El gobierno y los sindicatos acordaron aumentar el salario mínimo a partir de enero.",
    "Un equipo de biólogos descubrió una nueva especie de rana en un valle de difícil acceso.",
    "Añade la sal al final, porque el caldo ya lleva jamón.",
    "La policía detuvo a tres personas por vender entradas falsas a través de internet.",
    "Mi abuelo decía que el que no sabe esperar no debe plantar nogales.",
    "El tren llegó con cuarenta minutos de retraso debido a una avería en la vía."};

constexpr const char* kItalianSentences[] = {
    "Il comune ha deciso di chiudere il centro alle auto ogni prima domenica del mese.",
    "Ieri sera abbiamo mangiato così bene che oggi ho saltato la colazione.",
    "La squadra ha perso ai rigori dopo una partita che aveva dominato per oltre un'ora.",
    "Secondo i medici, il paziente potrà tornare a casa entro la fine della settimana.",
    "Potrebbe ripetere più lentamente, per favore? Sto ancora imparando l'italiano."};

constexpr const char* kPortugueseSentences[] = {
    "A chuva forte fechou três estradas e deixou milhares de casas sem luz durante a noite.",
    "O banco central decidiu manter a taxa de juros, apesar da pressão do governo.",
    "Esqueci o guarda-chuva no café e só percebi quando já estava no ônibus.",
    "A exposição reúne fotografias de famílias que emigraram no início do século passado.",
    "Preciso saber até sexta-feira quantas pessoas vêm ao jantar."};

constexpr const char* kEnglishSentences[] = {
    "The meeting has been moved to Thursday afternoon because two colleagues are ill.",
    "Rescue teams searched the coast until midnight before they found the missing boat.",
    "Would you mind watching my bag while I buy a bottle of water?",
    "The company said it would open a second factory near the border next spring.",
    "After the concert we walked home along the river and talked about old times.",
    "Scientists warn that the glacier is losing ice faster than at any time on record.",
    "Please switch off the light in the cellar when you have put the bicycle away.",
    "The minister resigned on Monday, only five weeks after taking office.",
    "My neighbour grows tomatoes on her balcony and gives half of them away.",
    "The new law requires shops to take back old phones free of charge.",
    "She had read the letter three times before she understood what it meant.",
    "The goalkeeper saved two penalties, but his team still lost the match.",
    "Your parcel could not be delivered and is waiting for you at the post office.",
    "The painting was sold for twice as much as the experts had expected.",
    "If it rains tomorrow, we will visit the museum instead of climbing the hill."};

constexpr SeedSentences kSentences[] = {{"German", kGermanSentences},
                                        {"French", kFrenchSentences},
                                        {"Spanish", kSpanishSentences},
                                        {"Italian", kItalianSentences},
                                        {"Portuguese", kPortugueseSentences}};

}  // namespace

const SeedTexts kSeedPassages = kPassages;
const std::span<const SeedSources> kSeedSources = kSources;
const std::span<const SeedSentences> kSeedSentences = kSentences;
const SeedTexts kSeedEnglish = kEnglishSentences;

}  // namespace specbound
