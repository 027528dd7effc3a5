"""Adjectives, adverbials, prepositions and conjunctions of the miniature corpus.

Adjectives: `English German | noun groups | English comparative, German comparative` (the last column is
optional). Their German stem loses an unstressed e before an ending (teuer, teure; dunkel, dunkle).

Adverbials: one word or a short phrase on each side. A word is written `form:role:link`; `role` is a Universal
Dependencies relation (the word with `advmod` or an `obl` relation heads the phrase), and words with the
same `link` letters are translations of each other.
"""

from __future__ import annotations

ADJECTIVES = """
big groß | animal vehicle furniture place ware | bigger größer
small klein | child animal vehicle furniture place ware | smaller kleiner
old alt | person -boy -girl animal vehicle furniture clothing place reading ware | older älter
new neu | vehicle furniture clothing ware reading
young jung | person -grandfather -grandmother animal | younger jünger
beautiful schön | place clothing ware furniture animal song picture story
ugly hässlich | clothing furniture place vehicle picture
tired müde | person child animal
happy glücklich | person child
sad traurig | person child animal song film story
hungry hungrig | person child animal
thirsty durstig | person child animal
sick krank | person child animal
rich reich | person | richer reicher
poor arm | person | poorer ärmer
friendly freundlich | person child
clever klug | person child animal | cleverer klüger
brave mutig | person child | braver mutiger
lazy faul | person child animal | lazier fauler
strong stark | person animal | stronger stärker
angry wütend | person child animal
famous berühmt | person place reading show
curious neugierig | person child animal
lonely einsam | person
funny lustig | person child show
heavy schwer | furniture ware | heavier schwerer
light leicht | ware chair clothing | lighter leichter
cheap billig | goods food drink | cheaper billiger
expensive teuer | goods food drink hotel restaurant | more_expensive teurer
broken kaputt | vehicle furniture opening ware
clean sauber | clothing vehicle place glass cup plate spoon opening mat
dirty schmutzig | clothing vehicle animal street room knife bottle opening mat
red rot | clothing vehicle furniture ware flower apple
blue blau | clothing vehicle furniture ware
green grün | clothing vehicle furniture ware apple frog
yellow gelb | clothing vehicle furniture ware flower
black schwarz | clothing vehicle furniture ware dog cat horse bird
brown braun | clothing furniture dog horse bear fox bottle bag
white weiß | clothing vehicle furniture ware house dog cat horse
fresh frisch | food bread meat milk
hot heiß | coffee tea soup rice potato milk sun
cold kalt | drink soup meat potato room water
sweet süß | apple cake cookie tea juice banana
delicious lecker | food stuff drink meal
interesting interessant | reading show idea | more_interesting interessanter
boring langweilig | reading show party game | more_boring langweiliger
important wichtig | reading idea | more_important wichtiger
difficult schwierig | idea game | more_difficult schwieriger
easy einfach | question riddle rule game word sentence | easier einfacher
long lang | reading show street scarf word sentence river bridge
short kurz | reading show street word sentence
wide breit | street river bridge bed table | wider breiter
narrow schmal | street bridge bed river
good gut | person child food drink idea reading show | better besser
dark dunkel | forest room street cellar church house
empty leer | bottle glass cup basket street house bag hotel
dangerous gefährlich | animal plan street knife river
fast schnell | vehicle horse dog cat rabbit wolf | faster schneller
quick schnell | dog cat fox rabbit horse wolf mouse bird frog girl boy
slow langsam | vehicle computer cow pig snake
wet nass | clothing dog cat horse street bench mat
warm warm | clothing bread room bed milk water mat sun afternoon_sun
soft weich | bed sofa chair mat bread scarf sweater cake | softer weicher
comfortable bequem | bed sofa chair bench mat shoe sweater coat jacket | more_comfortable bequemer
"""

# English | German | contexts: tenses, `progressive`, `habit` (the simple present) or `modal`
TIMES = """
today:advmod:a | heute:advmod:a | present past perfect future modal
now:advmod:a | jetzt:advmod:a | progressive modal
yesterday:advmod:a | gestern:advmod:a | past
tomorrow:advmod:a | morgen:advmod:a | future modal
soon:advmod:a | bald:advmod:a | future
every:det:a day:obl:b | jeden:det:a Tag:obl:b | habit past modal
every:det:a evening:obl:b | jeden:det:a Abend:obl:b | habit past
every:det:a morning:obl:b | jeden:det:a Morgen:obl:b | habit past
in:case:a the:det:a morning:obl:b | am:case:a Morgen:obl:b | habit past future
in:case:a the:det:a evening:obl:b | am:case:a Abend:obl:b | habit past future
on:case:a Monday:obl:b | am:case:a Montag:obl:b | past future
on:case:a Friday:obl:b | am:case:a Freitag:obl:b | past future
on:case:a Sunday:obl:b | am:case:a Sonntag:obl:b | past future
last:amod:a week:obl:b | letzte:amod:a Woche:obl:b | past
next:amod:a week:obl:b | nächste:amod:a Woche:obl:b | future
at:case:a night:obl:a | nachts:advmod:a | habit past
at:case:a three:nummod:b o'clock:obl:c | um:case:a drei:nummod:b Uhr:obl:c | habit past future
at:case:a five:nummod:b o'clock:obl:c | um:case:a fünf:nummod:b Uhr:obl:c | habit past future
at:case:a ten:nummod:b o'clock:obl:c | um:case:a zehn:nummod:b Uhr:obl:c | habit past future
last:amod:a year:obl:b | letztes:amod:a Jahr:obl:b | past
two:nummod:a days:obl:b ago:case:c | vor:case:c zwei:nummod:a Tagen:obl:b | past
"""

FREQUENCIES = """
always:advmod:a | immer:advmod:a | habit past
often:advmod:a | oft:advmod:a | habit past perfect
sometimes:advmod:a | manchmal:advmod:a | habit past
usually:advmod:a | meistens:advmod:a | habit
never:advmod:a | nie:advmod:a | habit past perfect
already:advmod:a | schon:advmod:a | perfect
"""

COMMENTS = """
perhaps:advmod:a | vielleicht:advmod:a | present past future
unfortunately:advmod:a | leider:advmod:a | present past perfect future modal
suddenly:advmod:a | plötzlich:advmod:a | past
finally:advmod:a | endlich:advmod:a | past perfect
"""

# Before an adjective that is a predicate
DEGREES = """
very:advmod:a | sehr:advmod:a | any
so:advmod:a | so:advmod:a | any
too:advmod:a | zu:advmod:a | any
"""
# Adjectives without degree, besides the colors
ABSOLUTE = "broken empty"

# English | German
NUMBERS = """
two zwei
three drei
four vier
five fünf
six sechs
seven sieben
eight acht
nine neun
ten zehn
twelve zwölf
twenty zwanzig
2 2
3 3
5 5
10 10
100 100
"""

# English | German | flag of the verbs that the adverb fits
MANNERS = """
quickly:advmod:a | schnell:advmod:a | q
slowly:advmod:a | langsam:advmod:a | q
carefully:advmod:a | vorsichtig:advmod:a | c
peacefully:advmod:a | friedlich:advmod:a | f
well:advmod:a | gut:advmod:a | w
badly:advmod:a | schlecht:advmod:a | w
loudly:advmod:a | laut:advmod:a | l
quietly:advmod:a | leise:advmod:a | l
"""

# Locations: English | German | case | nouns.
LOCATIONS = """
in | in | dat | indoors
in | in | dat | sun afternoon_sun
on | auf | dat | street bridge bench bed sofa chair table mat
at | an | dat | station lake beach river window
on | an | dat | shore
under | unter | dat | table tree bench bed bridge
behind | hinter | dat | house church school tree door castle
in front_of | vor | dat | house church hotel museum station castle
next to | neben | dat | table cupboard bed church sofa tree bank shop
"""

# Locations of activities.
ACTIVITIES = """
in | in | dat | sun sun afternoon_sun
in | in | dat | indoors
in | in | dat | indoors
at | an | dat | station lake beach river window
on | an | dat | shore
on | auf | dat | street bridge bench
in front_of | vor | dat | house church hotel museum station castle
behind | hinter | dat | house church school castle
under | unter | dat | tree bridge
"""

# Locations of the verb live.
HOMES = """
in | in | dat | house castle city village hotel forest
in | in | dat | city_name
in | in | dat | city_name
in | in | dat | city_name
"""

# Directions; the first column lists the verbs that take them.
DIRECTIONS = """
go walk run drive | to | zu | dat | school church station park lake river bank shop beach castle hospital museum
go run jump climb | into | in | acc | house garden forest kitchen room church castle cellar
go walk run drive travel | through | durch | acc | forest park city village street
go run | out of | aus | dat | house school forest room kitchen castle hospital
come | out of | aus | dat | house church forest room kitchen castle cellar
come | from | von | dat | station beach park lake river doctor baker
jump | onto | auf | acc | table bed bench sofa chair mat
climb | onto | auf | acc | tree table bench cupboard
jump climb | over | über | acc | bench chair table gate
jump | over | über | acc | dog cat fox river mouse rabbit frog
run | around | um | acc | house tree lake table castle
go drive travel | to | nach | dat | city_name
come | from | aus | dat | city_name
"""

# Directions of the verbs of placing.
TARGETS = """
on | auf | acc | table chair bed bench sofa mat
under | unter | acc | table bed chair bench
next to | neben | acc | bed lamp mirror clock door sofa
in front_of | vor | acc | door mirror window bed
into | in | acc | cupboard kitchen cellar room
"""

# Prepositional adverbials of time and cause.
EVENTS = """
after | nach | dat | event
before | vor | dat | event
during | während | gen | event
"""

CAUSES = """
because of | wegen | gen | weather
despite | trotz | gen | weather
"""

# English | German | kind (see linked.py)
SUBORDINATORS = """
because | weil | reason
although | obwohl | contrast
when | wenn | present
when | als | past
if | wenn | condition
while | während | simultaneous
before | bevor | sequence
until | bis | sequence
so that | damit | purpose
"""

# adjective of the subject | verbs of actions that it causes | verbs of actions that it prevents
MOTIVES = """
hungry | eat_essen eat_fressen cook_kochen buy_kaufen look_suchen chase_jagen | sleep_schlafen smile_lächeln
thirsty | drink_trinken wake_aufwachen get_aufstehen | sing_singen
tired | sleep_schlafen rest_ausruhen sit_hinsetzen sit_sitzen lie_liegen fall_einschlafen stay_bleiben \
    | work_arbeiten run_laufen swim_schwimmen cross_überqueren cross_überqueren
sick | rest_ausruhen stay_bleiben call_anrufen cry_weinen \
    | work_arbeiten travel_reisen eat_essen eat_fressen cross_überqueren
happy | laugh_lachen sing_singen smile_lächeln hug_umarmen | cry_weinen
sad | cry_weinen call_anrufen think_denken | laugh_lachen sing_singen smile_lächeln
angry | throw_wegwerfen break_zerbrechen bite_beißen | smile_lächeln answer_antworten greet_begrüßen
lonely | call_anrufen visit_besuchen cry_weinen invite_einladen | laugh_lachen smile_lächeln
curious | ask_fragen watch_beobachten open_öffnen follow_folgen listen_zuhören | sleep_schlafen rest_ausruhen
rich | buy_kaufen travel_reisen build_bauen | work_arbeiten sell_verkaufen steal_stehlen
poor | sell_verkaufen work_arbeiten steal_stehlen repair_reparieren | travel_reisen buy_kaufen
lazy | sleep_schlafen rest_ausruhen sit_sitzen wait_warten \
    | work_arbeiten help_helfen clean_aufräumen wash_waschen cross_überqueren
brave | help_helfen save_retten climb_klettern jump_springen catch_fangen cross_überqueren \
    | cry_weinen hide_verstecken
clever | solve_lösen understand_verstehen find_finden hide_verstecken | lose_verlieren forget_vergessen
strong | carry_tragen climb_klettern | cry_weinen rest_ausruhen
friendly | help_helfen greet_begrüßen invite_einladen smile_lächeln give_geben | steal_stehlen
"""

# verb | adjectives of its object that are reasons for the action | reasons against it
REASONS = """
buy_kaufen | cheap beautiful new fresh delicious interesting | expensive ugly broken dirty old
sell_verkaufen | old ugly broken expensive slow | new beautiful
wash_waschen | dirty | clean new
repair_reparieren | broken old | new
clean_putzen | dirty old | clean
throw_wegwerfen | broken ugly old dirty boring | new beautiful important
read_lesen | interesting short funny important famous | boring long difficult
eat_essen | delicious fresh sweet | cold hot
eat_fressen | delicious fresh sweet | cold hot
drink_trinken | cold sweet delicious | hot cold
visit_besuchen | famous sick lonely beautiful friendly | dirty ugly angry
help_helfen | poor sick old friendly lonely | rich strong lazy
thank_danken | friendly | lazy
love_lieben | beautiful friendly funny clever small | ugly lazy dangerous
like_mögen | friendly funny beautiful warm delicious | cold dirty
trust_vertrauen | friendly clever | dangerous
understand_verstehen | easy short | difficult long
solve_lösen | easy important | difficult
cross_überqueren | narrow short | wide dangerous long
translate_übersetzen | easy short important | difficult long boring
carry_tragen | light small | heavy big
wear_tragen | warm new beautiful | wet dirty ugly old
put_anziehen | warm new clean | wet dirty
take_ausziehen | wet dirty | warm
feed_füttern | hungry small sick | dangerous
chase_jagen | red small fast beautiful | slow big dangerous
bite_beißen | red small angry | big friendly dangerous
invite_einladen | friendly lonely famous funny | angry
call_anrufen | sick lonely sad | angry
steal_stehlen | expensive beautiful new | cheap broken
need_brauchen | warm new light | old broken
listen_zuhören | famous clever interesting funny | boring lazy
watch_beobachten | beautiful | boring
forget_vergessen | short boring | important famous
laugh_lachen | funny | sad
"""

# What someone sits or lies on, and the adjectives of it that are reasons for it, and against it (see linked.py)
SEATS = "mat bed sofa chair bench"
SEAT_REASONS = "soft comfortable warm clean | wet dirty broken"

# Adjectives for temporary states, which fit when, if and today.
TEMPORARY = """
hungry thirsty tired sick happy sad angry lonely hot cold fresh wet dirty clean broken empty warm
"""

# Pairs of adjectives that never describe the same noun.
OPPOSITES = """
clean dirty
hot cold
warm cold
big small
old new
old young
rich poor
happy sad
long short
wide narrow
cheap expensive
difficult easy
heavy light
fast slow
interesting boring
funny boring
beautiful ugly
"""
