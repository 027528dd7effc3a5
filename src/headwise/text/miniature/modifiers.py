"""Adjectives, adverbials, prepositions and conjunctions of the miniature world.

Adjectives: `English German | noun groups | English comparative, German comparative` (the last part may be
missing). Their German stem loses an unstressed e before an ending (teuer, teure; dunkel, dunkle).

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
ugly hässlich | clothing furniture place vehicle vase picture
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
nervous nervös | person
curious neugierig | person child animal
polite höflich | person child | more_polite höflicher
lonely einsam | person
honest ehrlich | person
strict streng | person
funny lustig | person child show
loud laut | vehicle party concert animal
quiet ruhig | place person child
heavy schwer | furniture ware | heavier schwerer
light leicht | ware chair clothing | lighter leichter
cheap billig | goods food drink | cheaper billiger
expensive teuer | goods food drink hotel restaurant | more_expensive teurer
broken kaputt | vehicle furniture opening ware
clean sauber | clothing vehicle place glass cup plate spoon fork opening
dirty schmutzig | clothing vehicle animal street room knife bottle opening
red rot | clothing vehicle furniture ware flower apple
blue blau | clothing vehicle furniture ware
green grün | clothing vehicle furniture ware apple frog
yellow gelb | clothing vehicle furniture ware flower
black schwarz | clothing vehicle furniture ware dog cat horse bird
white weiß | clothing vehicle furniture ware house dog cat horse
brown braun | clothing furniture bag suitcase dog horse cow rabbit
fresh frisch | food bread meat milk
hot heiß | coffee tea soup rice potato milk
cold kalt | drink soup meat potato room water
sweet süß | apple pear orange cake cookie honey chocolate tea juice wine banana roll
delicious lecker | food stuff drink meal
ripe reif | apple pear banana tomato orange
interesting interessant | reading show idea journey | more_interesting interessanter
boring langweilig | reading show party game | more_boring langweiliger
exciting spannend | reading show game journey | more_exciting spannender
important wichtig | reading idea | more_important wichtiger
difficult schwierig | idea game | more_difficult schwieriger
easy einfach | question task riddle rule game | easier einfacher
strange seltsam | person idea show animal message
long lang | reading show journey street scarf
short kurz | reading show journey skirt street
dark dunkel | forest room street cellar church stable house
empty leer | bottle glass cup box basket street house bucket bag hotel
modern modern | kitchen house museum school hospital vehicle furniture computer
dangerous gefährlich | animal plan journey street knife
fast schnell | vehicle horse dog cat rabbit wolf | faster schneller
slow langsam | vehicle donkey computer cow pig snake
wet nass | clothing dog cat horse street bench
warm warm | clothing bread room bed milk water
wild wild | horse animal
"""

# name | English | German | tenses it goes with (present, past, perfect, future, modal) and `n`ot with progressive
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

# flag of the verbs it goes with | English | German
MANNERS = """
quickly:advmod:a | schnell:advmod:a | q
slowly:advmod:a | langsam:advmod:a | q
carefully:advmod:a | vorsichtig:advmod:a | c
well:advmod:a | gut:advmod:a | w
badly:advmod:a | schlecht:advmod:a | w
loudly:advmod:a | laut:advmod:a | l
quietly:advmod:a | leise:advmod:a | l
"""

# English | German | case | nouns. Places where something is.
LOCATIONS = """
in | in | dat | indoors
on | auf | dat | street bridge island bench bed sofa carpet chair table
at | an | dat | station lake beach window
under | unter | dat | table tree bench bed bridge
behind | hinter | dat | house church school tree door castle stable
in front_of | vor | dat | house church hotel museum theater station castle
next to | neben | dat | table cupboard bed church sofa tree stable
"""

# Where something is done.
ACTIVITIES = """
in | in | dat | indoors
in | in | dat | indoors
at | an | dat | station lake beach window
on | auf | dat | street bridge island bench
in front_of | vor | dat | house church hotel museum theater station castle
behind | hinter | dat | house church school castle stable
under | unter | dat | tree bridge
"""

# Where somebody lives.
HOMES = """
in | in | dat | house castle city village hotel forest tower
in | in | dat | city_name
in | in | dat | city_name
on | auf | dat | island
"""

# Directions: the verbs that take them are named first.
DIRECTIONS = """
go run drive | to | zu | dat | school church station park lake beach castle hospital library museum stable
go run jump climb | into | in | acc | house garden forest kitchen room church castle cellar stable
go run drive travel | through | durch | acc | forest park city village street
go run | out of | aus | dat | house school forest room kitchen castle hospital
come | out of | aus | dat | house church forest room kitchen castle cellar
come | from | von | dat | station beach park lake doctor baker
jump | onto | auf | acc | table bed bench sofa chair
climb | onto | auf | acc | tree tower table bench cupboard
jump climb | over | über | acc | bench chair table box
run | around | um | acc | house tree lake table castle
go drive travel | to | nach | dat | city_name
come | from | aus | dat | city_name
"""

# Where things are put.
TARGETS = """
on | auf | acc | table chair bed bench shelf carpet sofa
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

# English | German | kind (see sentences.py)
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

# adjective | what one therefore does | what one therefore doesn't do
MOTIVES = """
hungry | eat_essen eat_fressen cook_kochen buy_kaufen look_suchen | sleep_schlafen smile_lächeln
thirsty | drink_trinken wake_aufwachen get_aufstehen | sing_singen
tired | sleep_schlafen rest_ausruhen sit_hinsetzen fall_einschlafen stay_bleiben \
    | work_arbeiten dance_tanzen run_laufen swim_schwimmen
sick | rest_ausruhen stay_bleiben call_anrufen cry_weinen | work_arbeiten travel_reisen eat_essen eat_fressen
happy | laugh_lachen sing_singen dance_tanzen smile_lächeln hug_umarmen | cry_weinen
sad | cry_weinen call_anrufen think_denken | laugh_lachen sing_singen dance_tanzen smile_lächeln
angry | disappear_verschwinden throw_wegwerfen break_zerbrechen | smile_lächeln answer_antworten greet_begrüßen
lonely | call_anrufen visit_besuchen cry_weinen invite_einladen | laugh_lachen smile_lächeln
curious | ask_fragen watch_beobachten open_öffnen follow_folgen listen_zuhören | sleep_schlafen rest_ausruhen
rich | buy_kaufen travel_reisen build_bauen pay_bezahlen | work_arbeiten sell_verkaufen steal_stehlen
poor | sell_verkaufen work_arbeiten steal_stehlen repair_reparieren | travel_reisen buy_kaufen
lazy | sleep_schlafen rest_ausruhen sit_sitzen wait_warten | work_arbeiten help_helfen clean_aufräumen wash_waschen
brave | help_helfen protect_beschützen save_retten climb_klettern jump_springen catch_fangen \
    | cry_weinen hide_verstecken
polite | greet_begrüßen thank_danken answer_antworten listen_zuhören wait_warten | laugh_lachen
clever | solve_lösen understand_verstehen find_finden hide_verstecken | lose_verlieren forget_vergessen
nervous | hurry_beeilen wait_warten forget_vergessen lose_verlieren | sleep_schlafen smile_lächeln
strong | carry_tragen pull_ziehen push_schieben climb_klettern | cry_weinen rest_ausruhen
friendly | help_helfen greet_begrüßen invite_einladen smile_lächeln give_geben | hunt_jagen
"""

# verb | adjectives of its object that are a reason for it | and for not doing it
REASONS = """
buy_kaufen | cheap beautiful new modern fresh delicious interesting | expensive ugly broken dirty old
sell_verkaufen | old ugly broken expensive slow loud | new beautiful
wash_waschen | dirty | clean new
repair_reparieren | broken old | new
clean_putzen | dirty old | clean
throw_wegwerfen | broken ugly old dirty boring | new beautiful important
read_lesen | interesting exciting short funny important famous | boring long difficult
eat_essen | delicious fresh sweet ripe | cold hot
eat_fressen | delicious fresh sweet ripe | cold hot
drink_trinken | cold sweet delicious | hot cold
visit_besuchen | famous sick lonely beautiful friendly | strict loud
help_helfen | poor sick old friendly lonely | rich strong lazy
thank_danken | friendly polite | lazy
love_lieben | beautiful friendly funny clever small | ugly lazy dangerous
like_mögen | friendly funny beautiful warm delicious honest | strict loud cold dirty
trust_vertrauen | honest friendly clever | strange dangerous
admire_bewundern | beautiful famous brave strong | lazy
understand_verstehen | easy short | difficult strange long
solve_lösen | easy important | difficult
carry_tragen | light small | heavy big
wear_tragen | warm new beautiful modern | wet dirty ugly old
put_anziehen | warm new clean | wet dirty
take_ausziehen | wet dirty | warm
hunt_jagen | small slow | fast dangerous
feed_füttern | hungry small sick | wild dangerous
invite_einladen | friendly lonely famous funny | strict angry
call_anrufen | sick lonely sad | angry
describe_beschreiben | strange famous beautiful interesting | boring
steal_stehlen | expensive beautiful new | cheap broken
need_brauchen | warm new light | old broken
protect_beschützen | small sick young | dangerous
listen_zuhören | famous clever interesting funny | boring lazy
watch_beobachten | wild strange beautiful | boring
forget_vergessen | short boring | important famous
laugh_lachen | funny | strict
"""

# Adjectives for what comes and goes: they go with when, if and today.
TEMPORARY = """
hungry thirsty tired sick happy sad angry lonely nervous hot cold fresh wet dirty clean broken empty ripe loud warm
"""
