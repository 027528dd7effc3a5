"""Fixed sentences of the training text: greetings, questions to strangers, and lines of texts on the paper.

The grammar doesn't compose them, so they have neither trees nor alignments and stand in no other set. The famous
sentences in words of the lexicon are composed as well; here they make sure that the world's model knows them.
"""

from __future__ import annotations

_TABLE = """
Hello! | Hallo!
Hello. | Hallo.
Hi! | Hallo!
Good morning! | Guten Morgen!
Good morning. | Guten Morgen.
Good evening! | Guten Abend!
Good day! | Guten Tag!
Good night! | Gute Nacht!
Goodbye! | Auf Wiedersehen!
Bye! | Tschüss!
See you soon! | Bis bald!
See you tomorrow! | Bis morgen!
Thank you! | Danke!
Thank you. | Danke.
Thanks! | Danke!
Thanks. | Danke.
Thank you very much! | Vielen Dank!
Please. | Bitte.
You're welcome. | Gern geschehen.
Yes. | Ja.
No. | Nein.
Sorry! | Entschuldigung!
Excuse me. | Entschuldigung.
Welcome! | Willkommen!
Good luck! | Viel Glück!
Happy birthday! | Alles Gute zum Geburtstag!
Hello, world! | Hallo, Welt!
Hello world! | Hallo Welt!
How are you? | Wie geht es dir?
How are you today? | Wie geht es dir heute?
I'm fine. | Mir geht es gut.
I am fine, thank you. | Mir geht es gut, danke.
What is your name? | Wie heißt du?
What's your name? | Wie heißt du?
My name is Anna. | Ich heiße Anna.
My name is Paul. | Ich heiße Paul.
My name is Alice. | Ich heiße Alice.
My name is Bob. | Ich heiße Bob.
Nice to meet you. | Freut mich.
Where are you from? | Woher kommst du?
How old are you? | Wie alt bist du?
I don't know. | Ich weiß es nicht.
I don't understand. | Ich verstehe nicht.
What time is it? | Wie spät ist es?
How much does it cost? | Was kostet das?
How much is it? | Was kostet das?
What is this? | Was ist das?
What is that? | Was ist das?
Who are you? | Wer bist du?
Do you speak English? | Sprichst du Englisch?
Do you speak German? | Sprichst du Deutsch?
Can you help me? | Kannst du mir helfen?
I love you. | Ich liebe dich.
What does it mean? | Was bedeutet das?
What does it refer to? | Worauf bezieht es sich?
Attention is all you need. | Aufmerksamkeit ist alles, was du brauchst.
Attention is all we need. | Aufmerksamkeit ist alles, was wir brauchen.
Attention is all I need. | Aufmerksamkeit ist alles, was ich brauche.
Love is all you need. | Liebe ist alles, was du brauchst.
attention is all you need | Aufmerksamkeit ist alles, was du brauchst
The key to understanding attention is attention itself. \
    | Der Schlüssel zum Verständnis der Aufmerksamkeit ist die Aufmerksamkeit selbst.
Thinking machines. | Denkende Maschinen.
A woman with a large purse is walking by a gate. | Eine Frau mit einer großen Geldbörse geht an einem Tor vorbei.
I am a student. | Ich bin Student.
The animal didn't cross the street because it was too tired. \
    | Das Tier überquerte die Straße nicht, weil es zu müde war.
The animal didn't cross the street because it was too wide. \
    | Das Tier überquerte die Straße nicht, weil sie zu breit war.
The quick brown fox jumps over the lazy dog. | Der schnelle braune Fuchs springt über den faulen Hund.
The cat that was sleeping peacefully in the warm afternoon sun suddenly woke up. \
    | Die Katze, die friedlich in der warmen Nachmittagssonne schlief, wachte plötzlich auf.
Alice helped Bob because she cared. | Alice half Bob, weil sie sich sorgte.
The bank of the river. | Das Ufer des Flusses.
The bank raised its rates. | Die Bank erhöhte ihre Zinsen.
The cat sat on the mat. | Die Katze saß auf dem Teppich.
"""

SAYINGS: tuple[tuple[str, str], ...] = tuple(
    (english.strip(), german.strip())
    for english, german in (line.split("|") for line in _TABLE.replace("\\\n", "").strip().splitlines())
)
