"""The nouns of the miniature world, one per line, grouped by what one can do with them.

A line reads `english[/plural]  German  gender  genitive  German-plural`:

- `english` forms its plural by rule unless `/plural` gives it; `_` stands for a space.
- gender is m, f or n; the genitive is the suffix of the genitive singular (`es`, `s`, or `-` for none).
- a genitive that ends in `!` marks the weak declension: every singular case but the nominative takes it
  (der Bär, den Bären, dem Bären, des Bären).
- a plural of `-` marks a mass noun, which is neither counted nor given an indefinite article.

The English side of this world names one person each: its teacher is a man (der Lehrer, *he*) and its doctor
is a woman (die Ärztin, *she*), so that every English noun has exactly one German rendering.
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
prince Prinz m en! Prinzen
teacher Lehrer m s Lehrer
student Student m en! Studenten
farmer Bauer m n! Bauern
neighbor Nachbar m n! Nachbarn
baker Bäcker m s Bäcker
gardener Gärtner m s Gärtner
cook Koch m s Köche
singer Sänger m s Sänger
policeman/policemen Polizist m en! Polizisten
soldier Soldat m en! Soldaten
hunter Jäger m s Jäger
fisherman/fishermen Fischer m s Fischer
thief/thieves Dieb m es Diebe
guest Gast m es Gäste
waiter Kellner m s Kellner
friend Freund m es Freunde
tourist Tourist m en! Touristen
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
lady Dame f - Damen
doctor Ärztin f - Ärztinnen
nurse Krankenschwester f - Krankenschwestern
waitress Kellnerin f - Kellnerinnen
witch Hexe f - Hexen
saleswoman/saleswomen Verkäuferin f - Verkäuferinnen
judge Richterin f - Richterinnen
painter Malerin f - Malerinnen
dancer Tänzerin f - Tänzerinnen
scientist Wissenschaftlerin f - Wissenschaftlerinnen
pilot Pilotin f - Pilotinnen
actress Schauspielerin f - Schauspielerinnen
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
goat Ziege f - Ziegen
bear Bär m en! Bären
lion Löwe m n! Löwen
monkey Affe m n! Affen
elephant Elefant m en! Elefanten
fox Fuchs m es Füchse
wolf/wolves Wolf m es Wölfe
duck Ente f - Enten
snake Schlange f - Schlangen
frog Frosch m es Frösche
donkey Esel m s Esel
goose/geese Gans f - Gänse
squirrel Eichhörnchen n s Eichhörnchen
crocodile Krokodil n s Krokodile
"""

FOOD = """
apple Apfel m s Äpfel
pear Birne f - Birnen
egg Ei n s Eier
cake Kuchen m s Kuchen
potato Kartoffel f - Kartoffeln
banana Banane f - Bananen
carrot Karotte f - Karotten
tomato Tomate f - Tomaten
cookie Keks m es Kekse
sausage Wurst f - Würste
roll Brötchen n s Brötchen
orange Orange f - Orangen
pancake Pfannkuchen m s Pfannkuchen
"""

STUFF = """
bread Brot n es -
cheese Käse m s -
soup Suppe f - -
meat Fleisch n es -
rice Reis m es -
honey Honig m s -
chocolate Schokolade f - -
"""

DRINK = """
water Wasser n s -
milk Milch f - -
coffee Kaffee m s -
tea Tee m s -
beer Bier n s -
wine Wein m s -
juice Saft m es -
"""

READING = """
book Buch n es Bücher
letter Brief m es Briefe
newspaper Zeitung f - Zeitungen
magazine Zeitschrift f - Zeitschriften
poem Gedicht n s Gedichte
novel Roman m s Romane
report Bericht m s Berichte
recipe Rezept n s Rezepte
message Nachricht f - Nachrichten
diary Tagebuch n s Tagebücher
postcard Postkarte f - Postkarten
"""

VEHICLE = """
car Auto n s Autos
bicycle Fahrrad n s Fahrräder
train Zug m es Züge
bus Bus m ses Busse
ship Schiff n s Schiffe
boat Boot n s Boote
airplane Flugzeug n s Flugzeuge
truck Lastwagen m s Lastwagen
tram Straßenbahn f - Straßenbahnen
"""

FURNITURE = """
table Tisch m es Tische
chair Stuhl m s Stühle
bed Bett n es Betten
sofa Sofa n s Sofas
lamp Lampe f - Lampen
cupboard Schrank m s Schränke
shelf/shelves Regal n s Regale
bench Bank f - Bänke
carpet Teppich m s Teppiche
mirror Spiegel m s Spiegel
clock Uhr f - Uhren
piano Klavier n s Klaviere
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
fork Gabel f - Gabeln
plate Teller m s Teller
glass Glas n es Gläser
cup Tasse f - Tassen
bottle Flasche f - Flaschen
ball Ball m s Bälle
doll Puppe f - Puppen
umbrella Regenschirm m s Regenschirme
camera Kamera f - Kameras
computer Computer m s Computer
hammer Hammer m s Hämmer
candle Kerze f - Kerzen
picture Bild n es Bilder
flower Blume f - Blumen
gift Geschenk n s Geschenke
ring Ring m s Ringe
coin Münze f - Münzen
suitcase Koffer m s Koffer
bag Tasche f - Taschen
basket Korb m es Körbe
box Kiste f - Kisten
vase Vase f - Vasen
bucket Eimer m s Eimer
guitar Gitarre f - Gitarren
"""

CLOTHING = """
hat Hut m es Hüte
coat Mantel m s Mäntel
dress Kleid n es Kleider
shirt Hemd n es Hemden
jacket Jacke f - Jacken
skirt Rock m s Röcke
shoe Schuh m s Schuhe
scarf/scarves Schal m s Schals
sweater Pullover m s Pullover
cap Mütze f - Mützen
blouse Bluse f - Blusen
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
library Bibliothek f - Bibliotheken
museum Museum n s Museen
theater Theater n s Theater
castle Schloss n es Schlösser
office Büro n s Büros
island Insel f - Inseln
tower Turm m es Türme
stable Stall m es Ställe
cellar Keller m s Keller
tree Baum m es Bäume
"""

EVENT = """
game Spiel n s Spiele
meal Essen n s Essen
party Fest n es Feste
concert Konzert n s Konzerte
wedding Hochzeit f - Hochzeiten
journey Reise f - Reisen
"""

WEATHER = """
rain Regen m s -
snow Schnee m s -
storm Sturm m es Stürme
heat Hitze f - -
cold Kälte f - -
noise Lärm m s -
"""

IDEA = """
question Frage f - Fragen
problem Problem n s Probleme
plan Plan m es Pläne
secret Geheimnis n ses Geheimnisse
mistake Fehler m s Fehler
rule Regel f - Regeln
task Aufgabe f - Aufgaben
riddle Rätsel n s Rätsel
"""

SHOW = """
film Film m s Filme
song Lied n es Lieder
fairy_tale Märchen n s Märchen
story Geschichte f - Geschichten
joke Witz m es Witze
dream Traum m es Träume
"""

MEN = "Paul Peter Martin Jan Leo Oskar"
WOMEN = "Anna Clara Emma Julia Laura Maria"
CITIES = "Berlin/Berlin Hamburg/Hamburg Munich/München Vienna/Wien Cologne/Köln Zurich/Zürich"

KIN = "father brother son uncle grandfather mother sister daughter aunt grandmother friend neighbor"
# The tables above that don't name persons or animals, and lists that cut across them
THINGS = "food stuff drink reading vehicle furniture opening ware clothing place event weather idea show"
INDOORS = """
house garden school church city village forest park kitchen room hospital hotel restaurant library museum theater
castle office stable cellar tower
"""
WILD = "bear lion wolf fox elephant snake crocodile squirrel frog"
OWNED = "house garden school village kitchen room office stable cellar teacher doctor cook gardener nurse"
