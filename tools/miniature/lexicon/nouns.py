"""The nouns of the miniature corpus, one per line, in groups that combine with the same verbs and adjectives.

A line reads `english[/plural]  German  gender  genitive  German-plural`:

- `english` forms its plural by rule unless `/plural` gives it; `_` stands for a space.
- gender is m, f or n; the genitive is the suffix of the genitive singular (`es`, `s`, or `-` for none).
- a genitive that ends in `!` marks the weak declension: every singular case but the nominative takes it
  (der Bär, den Bären, dem Bären, des Bären).
- a plural of `-` marks a mass noun, which is neither counted nor given an indefinite article.

Every English noun for a person has one fixed gender: the teacher is a man (der Lehrer, *he*) and the doctor is a
woman (die Ärztin, *she*), so that it has exactly one German translation. A mat is a Teppich and not a Matte, so that
the gender of *it* tells the mat (er) from a cat (sie).
"""

from __future__ import annotations

HE = """
man/men Mann m es Männer
boy Junge m n! Jungen
father Vater m s Väter
brother Bruder m s Brüder
son Sohn m es Söhne
uncle Onkel m s Onkel
grandfather Großvater m s Großväter
king König m s Könige
teacher Lehrer m s Lehrer
student Student m en! Studenten
farmer Bauer m n! Bauern
neighbor Nachbar m n! Nachbarn
baker Bäcker m s Bäcker
cook Koch m s Köche
policeman/policemen Polizist m en! Polizisten
fisherman/fishermen Fischer m s Fischer
thief/thieves Dieb m es Diebe
friend Freund m es Freunde
"""

SHE = """
woman/women Frau f - Frauen
mother Mutter f - Mütter
sister Schwester f - Schwestern
daughter Tochter f - Töchter
aunt Tante f - Tanten
grandmother Großmutter f - Großmütter
queen Königin f - Königinnen
princess Prinzessin f - Prinzessinnen
doctor Ärztin f - Ärztinnen
nurse Krankenschwester f - Krankenschwestern
witch Hexe f - Hexen
judge Richterin f - Richterinnen
painter Malerin f - Malerinnen
dancer Tänzerin f - Tänzerinnen
pilot Pilotin f - Pilotinnen
girl Mädchen n s Mädchen
"""

CHILD = """
child/children Kind n es Kinder
"""

ANIMAL = """
dog Hund m es Hunde
cat Katze f - Katzen
horse Pferd n es Pferde
cow Kuh f - Kühe
bird Vogel m s Vögel
mouse/mice Maus f - Mäuse
rabbit Kaninchen n s Kaninchen
pig Schwein n s Schweine
bear Bär m en! Bären
lion Löwe m n! Löwen
monkey Affe m n! Affen
elephant Elefant m en! Elefanten
fox Fuchs m es Füchse
wolf/wolves Wolf m es Wölfe
duck Ente f - Enten
snake Schlange f - Schlangen
frog Frosch m es Frösche
animal Tier n es Tiere
"""

FOOD = """
apple Apfel m s Äpfel
egg Ei n s Eier
cake Kuchen m s Kuchen
potato Kartoffel f - Kartoffeln
banana Banane f - Bananen
carrot Karotte f - Karotten
tomato Tomate f - Tomaten
cookie Keks m es Kekse
sausage Wurst f - Würste
"""

STUFF = """
bread Brot n es -
cheese Käse m s -
soup Suppe f - -
meat Fleisch n es -
rice Reis m es -
"""

DRINK = """
water Wasser n s -
milk Milch f - -
coffee Kaffee m s -
tea Tee m s -
juice Saft m es -
"""

READING = """
book Buch n es Bücher
letter Brief m es Briefe
newspaper Zeitung f - Zeitungen
poem Gedicht n s Gedichte
novel Roman m s Romane
recipe Rezept n s Rezepte
message Nachricht f - Nachrichten
diary Tagebuch n s Tagebücher
"""

VEHICLE = """
car Auto n s Autos
bicycle Fahrrad n s Fahrräder
train Zug m es Züge
bus Bus m ses Busse
ship Schiff n s Schiffe
airplane Flugzeug n s Flugzeuge
truck Lastwagen m s Lastwagen
"""

FURNITURE = """
table Tisch m es Tische
chair Stuhl m s Stühle
bed Bett n es Betten
sofa Sofa n s Sofas
lamp Lampe f - Lampen
cupboard Schrank m s Schränke
bench Bank f - Bänke
mirror Spiegel m s Spiegel
clock Uhr f - Uhren
"""

OPENING = """
door Tür f - Türen
window Fenster n s Fenster
gate Tor n es Tore
"""

WARE = """
key Schlüssel m s Schlüssel
knife/knives Messer n s Messer
spoon Löffel m s Löffel
plate Teller m s Teller
glass Glas n es Gläser
cup Tasse f - Tassen
bottle Flasche f - Flaschen
ball Ball m s Bälle
doll Puppe f - Puppen
umbrella Regenschirm m s Regenschirme
camera Kamera f - Kameras
computer Computer m s Computer
picture Bild n es Bilder
flower Blume f - Blumen
gift Geschenk n s Geschenke
ring Ring m s Ringe
bag Tasche f - Taschen
basket Korb m es Körbe
mat Teppich m s Teppiche
purse Geldbörse f - Geldbörsen
machine Maschine f - Maschinen
"""

CLOTHING = """
hat Hut m es Hüte
coat Mantel m s Mäntel
dress Kleid n es Kleider
shirt Hemd n es Hemden
jacket Jacke f - Jacken
shoe Schuh m s Schuhe
scarf/scarves Schal m s Schals
sweater Pullover m s Pullover
"""

PLACE = """
house Haus n es Häuser
garden Garten m s Gärten
school Schule f - Schulen
church Kirche f - Kirchen
city Stadt f - Städte
village Dorf n es Dörfer
forest Wald m es Wälder
park Park m s Parks
street Straße f - Straßen
kitchen Küche f - Küchen
room Zimmer n s Zimmer
bridge Brücke f - Brücken
lake See m s Seen
beach Strand m es Strände
station Bahnhof m s Bahnhöfe
hospital Krankenhaus n es Krankenhäuser
hotel Hotel n s Hotels
restaurant Restaurant n s Restaurants
museum Museum n s Museen
castle Schloss n es Schlösser
cellar Keller m s Keller
tree Baum m es Bäume
river Fluss m es Flüsse
shore Ufer n s Ufer
bank Bank f - Banken
shop Laden m s Läden
"""

EVENT = """
game Spiel n s Spiele
meal Essen n s Essen
party Fest n es Feste
concert Konzert n s Konzerte
wedding Hochzeit f - Hochzeiten
"""

WEATHER = """
rain Regen m s -
snow Schnee m s -
heat Hitze f - -
noise Lärm m s -
"""

IDEA = """
question Frage f - Fragen
problem Problem n s Probleme
plan Plan m es Pläne
secret Geheimnis n ses Geheimnisse
rule Regel f - Regeln
riddle Rätsel n s Rätsel
word Wort n es Wörter
sentence Satz m es Sätze
"""

SHOW = """
film Film m s Filme
song Lied n es Lieder
story Geschichte f - Geschichten
dream Traum m es Träume
"""

CHARGE = """
price Preis m es Preise
rate Zins m es Zinsen
"""

LIGHT = """
sun Sonne f - -
afternoon_sun Nachmittagssonne f - -
"""

MEN = "Paul Peter Martin Leo Oskar Bob"
WOMEN = "Anna Clara Emma Laura Maria Alice"
CITIES = "Berlin/Berlin Hamburg/Hamburg Munich/München Vienna/Wien Cologne/Köln"

KIN = "father brother son uncle grandfather mother sister daughter aunt grandmother friend neighbor"
# Groups above that are neither persons nor animals, and lists of nouns from several groups
THINGS = "food stuff drink reading vehicle furniture opening ware clothing place event weather idea show charge light"
INDOORS = """
house garden school church city village forest park kitchen room hospital hotel restaurant museum castle
cellar bank shop
"""
WILD = "bear lion wolf fox elephant snake frog"
OWNED = "house garden school village kitchen room cellar teacher doctor cook nurse"
PREDATORS = "lion wolf fox bear cat snake dog"
FIRMS = "bank shop hotel restaurant museum"
PROFESSIONS = "teacher student farmer baker cook policeman fisherman doctor nurse judge painter dancer pilot"
PREY = "mouse rabbit bird duck frog"

# Parts | the wholes that they belong to: the door of the house, the bank of the river
PARTS = """
shore | river lake river
door window | house church school castle museum hotel kitchen room
gate | castle garden park
key | house car room cellar
price | car book dress lamp cake
"""
