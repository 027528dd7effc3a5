"""The verbs of the miniature corpus, one per line: `English | German | subjects | objects | flags`.

English: the base form; then past and participle where they are irregular; `+up` is a particle, `~for` the
preposition of a prepositional object. German: the infinitive with `+` after a separable prefix; then third
person present, past and participle where the verb is strong (the participle without the separable prefix).
`*` marks the perfect with *sein*, `sich` a reflexive verb, `~auf:acc` the preposition and case of the object.

Subjects and objects are names of noun groups (see `lexicon.GROUPS`) or single nouns. The flags:

- `s` has no English progressive; `n` is a permanent state, without modals and adverbs of time;
- `d` is durative (for *until*); `1` takes a singular object only; `x` is sampled more often;
- `p` takes a place adverbial; `v` has a natural passive; `b` takes a beneficiary;
- manner adverbs: `f` peacefully; `q` quickly, slowly; `c` carefully; `w` well, badly; `l` loudly, quietly.
"""

from __future__ import annotations

INTRANSITIVE = """
sleep slept slept | schlafen schläft schlief geschlafen | person child animal | | pwdf
laugh | lachen | person child | | l
cry | weinen | person child | | l
smile | lächeln | person child | |
dance | tanzen | person child | | pwd
sing sang sung | singen singt sang gesungen | person child | | pwld
work | arbeiten | person | | pcwqd
swim swam swum | *schwimmen schwimmt schwamm geschwommen | person child horse dog bear duck frog | | wqd
play | spielen | child girl boy son daughter dog cat monkey | | pld
wait | warten | person child dog horse | | pd
rest | sich aus+ruhen | person child animal | | pdf
sit sat sat +down | sich hin+setzen | person child | | q
fall fell fallen +asleep | *ein+schlafen schläft schlief geschlafen | person child animal | | pq
wake woke woken +up | *auf+wachen | person child animal | | q
get got gotten +up | *auf+stehen steht stand gestanden | person child animal | | q
arrive | *an+kommen kommt kam gekommen | person vehicle letter message gift | | s
leave left left | *ab+fahren fährt fuhr gefahren | vehicle | |
come came come +back | *zurück+kommen kommt kam gekommen | person child animal | | q
begin began begun | an+fangen fängt fing gefangen | event film story song | | s
care | sich sorgen | person child | | s
"""

LOCATED = """
be was been | *sein ist war gewesen | person child animal vehicle ware reading food clothing | | s
live | wohnen | person | | sn
sit sat sat | sitzen sitzt saß gesessen | person child animal | | f
stand stood stood | stehen steht stand gestanden | person animal furniture vehicle bottle cup | | s
lie lay lain | liegen liegt lag gelegen | animal reading clothing key knife spoon ring bag ball doll mat | | sf
stay | *bleiben bleibt blieb geblieben | person child animal | | sd
hide hid hidden | sich verstecken | thief child girl boy animal | |
"""

DIRECTED = """
go went gone | *gehen geht ging gegangen | person child | | q
walk | *gehen geht ging gegangen | person child | | q
run ran run | *laufen läuft lief gelaufen | person child animal | | q
drive drove driven | *fahren fährt fuhr gefahren | person | | qc
travel | *reisen | person | |
jump | *springen springt sprang gesprungen | child girl boy animal | | q
climb | *klettern | child girl boy thief cat monkey bear | | qc
come came come | *kommen kommt kam gekommen | person child animal | | q
"""

TRANSITIVE = """
eat ate eaten | essen isst aß gegessen | person child | food stuff | pvqx
eat ate eaten | fressen frisst fraß gefressen | animal | food stuff | pvqx
have had had | haben hat hatte gehabt | person child \
    | vehicle ware furniture clothing animal food reading problem plan question | sn
drink drank drunk | trinken trinkt trank getrunken | person child | drink | pqx
read read read | lesen liest las gelesen | person child | reading story word sentence | pqc
write wrote written | schreiben schreibt schrieb geschrieben | person | reading word sentence | pvbq
buy bought bought | kaufen | person | goods food reading | pvbq
sell sold sold | verkaufen | person | goods food | pv
find found found | finden findet fand gefunden | person child animal | ware clothing food animal | pvs
lose lost lost | verlieren verliert verlor verloren | person child | ware clothing reading | s
see saw seen | sehen sieht sah gesehen | person child animal | being place vehicle | s
hear heard heard | hören | person child animal | being song vehicle | s
know knew known | kennen kennt kannte gekannt | person child | person place story song rule | sn
love | lieben | person child | being place song | sn
like | mögen mag mochte gemocht | person child | being food drink clothing place | sn
visit | besuchen | person child | person place | v
need | brauchen | person child | ware vehicle furniture clothing | sn
look ~for | suchen | person child animal | being ware clothing | p
wash | waschen wäscht wusch gewaschen | person | clothing vehicle plate glass cup bottle apple carrot | pvqc
clean | putzen | person | opening furniture shoe kitchen room | vqc
repair | reparieren | person | vehicle furniture opening camera computer | vqc
build built built | bauen | person | house school church bridge castle ship table | vq
paint | malen | person child | being house flower picture | pvq
cook | kochen | person | soup rice meat potato egg carrot meal | pbqwx
bake | backen backt backte gebacken | person | bread cake cookie | pvb
cut cut cut | schneiden schneidet schnitt geschnitten | person | bread cheese meat cake sausage tomato apple | qc
break broke broken | zerbrechen zerbricht zerbrach zerbrochen \
    | person child monkey | glass cup plate bottle mirror | v
catch caught caught | fangen fängt fing gefangen | person predator | prey thief | v
chase | jagen | person child dog predator | animal thief ball | pvq
bite bit bitten | beißen beißt biss gebissen | man child animal | being apple | v
feed fed fed | füttern | person child | animal child | pvc
hold held held | halten hält hielt gehalten | person child | ware cat child |
hide hid hidden | verstecken | person child monkey | ware reading food | pvq
forget forgot forgotten | vergessen vergisst vergaß vergessen | person child | ware reading idea show clothing | s
understand understood understood | verstehen versteht verstand verstanden \
    | person child | idea show poem letter message person | s
steal stole stolen | stehlen stiehlt stahl gestohlen | thief monkey fox man boy | ware clothing food bicycle car | v
cross | überqueren | person child animal | street bridge river park | q
translate | übersetzen übersetzt übersetzte übersetzt \
    | person computer machine | word sentence book letter poem message story | vcq
raise | erhöhen | bank shop hotel restaurant museum | charge | x
meet met met | treffen trifft traf getroffen | person child | person | p
hug | umarmen umarmt umarmte umarmt | person child | person child | p
kiss | küssen | person | person child | p
wake woke woken | wecken | person child dog cat | person animal | vqc
greet | begrüßen | person child | person child | pv
save | retten | person dog | being city ship | v
ask | fragen | person child | person |
watch | beobachten | person child animal | being train ship | pc
solve | lösen | person child | problem riddle | vq
carry | tragen trägt trug getragen | person child | ware reading chair | qc
wear wore worn | tragen trägt trug getragen | person child | clothing ring | 1
open | öffnen | person child | opening bottle bag letter gift | vqc
close | schließen schließt schloss geschlossen | person child | opening bag book | vqc
call | an+rufen ruft rief gerufen | person child | person |
invite | ein+laden lädt lud geladen | person child | person | v
put put put +on | an+ziehen zieht zog gezogen | person child | clothing | q1
take took taken +off | aus+ziehen zieht zog gezogen | person child | clothing | q1
turn +on | ein+schalten | person child | lamp computer camera |
turn +off | aus+schalten | person child | lamp computer camera |
pick +up | auf+heben hebt hob gehoben | person child | ware hat scarf shoe letter | qc
clean +up | auf+räumen | person child | room kitchen cellar house garden | vq
throw threw thrown +away | weg+werfen wirft warf geworfen | person child | ware reading shoe hat chair food |
take took taken +along | mit+nehmen nimmt nahm genommen | person child | ware clothing food reading dog |
bring brought brought +back | zurück+bringen bringt brachte gebracht | person child | ware reading clothing vehicle | q
"""

DATIVE = """
help | helfen hilft half geholfen | person child | person child animal | p
thank | danken | person child | person |
trust | vertrauen | person child | person dog horse | sn
follow | *folgen | person child animal | being vehicle | q
answer | antworten | person child | person | q
listen ~to | zu+hören | person child | person | pc
belong ~to | gehören | goods reading animal | person child | sn
"""

GIVING = """
give gave given | geben gibt gab gegeben | person child | goods reading food | person child
show showed shown | zeigen | person child | ware clothing reading picture | person child
send sent sent | schicken | person | reading gift picture flower | person
lend lent lent | leihen leiht lieh geliehen | person | ware reading bicycle car | person
tell told told | erzählen | person child | show secret | person child
explain | erklären | person | idea | person child to
read read read +aloud | vor+lesen liest las gelesen | person | reading story | person child to
give gave given +back | zurück+geben gibt gab gegeben | person child | ware reading clothing | person child to
"""

PREPOSITIONAL = """
wait ~for | warten ~auf:acc | person child dog | person vehicle letter message | p
think thought thought ~of | denken ~an:acc denkt dachte gedacht | person child | being idea event place |
dream ~of | träumen ~von:dat | person child | being place |
talk ~about | sprechen ~über:acc spricht sprach gesprochen | person | person idea show reading event | pl
laugh ~at | lachen ~über:acc | person child | person story monkey | l
play ~with | spielen ~mit:dat | child girl boy dog cat | ball doll dog cat child | p
look +forward ~to | sich freuen ~auf:acc | person child | event gift film |
remember | sich erinnern ~an:acc | person child | person place event story dream | s
take took taken +care ~of | sich kümmern ~um:acc | person child | being garden |
"""

PLACING = """
put put put | legen | person child | key knife spoon reading clothing ring doll bag |
place | stellen | person child | bottle cup glass plate basket lamp |
"""

CLAUSAL = """
know knew known | wissen weiß wusste gewusst | person child | | sn
say said said | sagen | person child | |
think thought thought | denken denkt dachte gedacht | person child | | s
hope | hoffen | person child | |
see saw seen | sehen sieht sah gesehen | person child | | s
"""

ASKING = """
ask | fragen | person child | |
wonder | sich fragen | person child | |
"""

INFINITIVE = """
try | versuchen | person child | |
forget forgot forgotten | vergessen vergisst vergaß vergessen | person child | | s
begin began begun | beginnen beginnt begann begonnen | person child | |
promise | versprechen verspricht versprach versprochen | person child | |
"""
