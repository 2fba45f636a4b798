"""The sentences of the page for a person who asks, by language; what stands in braces is filled in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences of a language."""

    tag: str
    date: str
    months: tuple[str, ...]
    title: str
    made: str
    holding: str
    since: str
    purpose: str
    source: str
    kept: str
    until: str
    rows: str
    rows_one: str
    rows_many: str
    rows_used: str
    rows_unused: str
    rows_waiting: str
    leaves: str
    stored: str
    more: str
    copy: str
    identified: str
    erased: str
    nothing: str
    unsearched: str
    released: str
    never: str
    answers: str
    answers_one: str
    answers_none: str
    learnt: str
    guess_presence: str
    guess_values: str
    number: str
    coin: str
    useless: str
    no_promise: str
    ever: str
    public_count: str
    removed: str
    rights: str
    rights_intro: str
    rights_list: tuple[str, ...]
    contact: str
    contact_none: str
    complaint: str


ENGLISH = Words(
    tag="en",
    date="{day} {month} {year}",
    months=(
        *("January", "February", "March", "April", "May", "June", "July"),
        *("August", "September", "October", "November", "December"),
    ),
    title="Your data in our research",
    made="As of {date}. Your name or number is not repeated on this page.",
    holding="What we hold about you",
    since="Since",
    purpose="What for",
    source="Where from",
    kept="How long",
    until="until {date}",
    rows="About you",
    rows_one="1 entry",
    rows_many="{count} entries",
    rows_used="{counted} of them may be used in answers",
    rows_unused="none is used in answers",
    rows_waiting="{count} more from {date} on",
    leaves="Erased on",
    stored="Each says",
    more="and {count} more",
    copy="You can have a copy of what is stored, with all values. Just ask.",
    identified="Your name or number is kept with it, locked with a key of its own, so that we can reach you.",
    erased="As was asked, data about you were erased from {datasets}.",
    nothing="We searched for the name or number that you gave, and found nothing about you.",
    unsearched="We cannot search {datasets}: nothing in there says whom an entry is about. To be safe, the number "
    "below is worked out as if you were in there.",
    released="What others have seen",
    never="Our system shows nobody’s entries to researchers. They get statistics about everybody together, and each "
    "number is blurred at random before it leaves.",
    answers="Since your data came in, researchers got {count} answers of this sort, from {first} to {last}.",
    answers_one="Since your data came in, researchers got one answer of this sort, on {first}.",
    answers_none="Since your data came in, researchers got no answer of this sort.",
    learnt="What anybody can learn about you",
    guess_presence="Imagine somebody who knows everything about everybody, except whether you are in these data. They "
    "read every answer that was given, and every answer that may still be given. Then they guess whether you are in "
    "or not. They are right",
    guess_values="Imagine somebody who knows everything about everybody else, and sees your true data beside invented "
    "data. They read every answer that was given, and every answer that may still be given. Then they guess which of "
    "the two is true. They are right",
    number="at most {percent} times out of 100",
    coin="Whoever tosses a coin instead is right 50 times out of 100.",
    useless="Whoever tosses a coin instead is right 50 times out of 100, too. The answers do not help to guess.",
    no_promise="Whoever tosses a coin instead is right 50 times out of 100. So we cannot promise that the answers tell "
    "nothing about you.",
    ever="We limit what all answers together may tell. The number covers all answers that may ever be given under the "
    "limit of today, {date}. Only two people in charge of these data together can raise the limit. The number is then "
    "too low, and you can ask us for the new one.",
    public_count="How many people are in the data is not secret.",
    removed="It also covers data about you that may have been here before and were removed.",
    rights="What you can ask for",
    rights_intro="European law (the GDPR) lets you ask us",
    rights_list=(
        "for a copy of everything that is stored about you;",
        "to correct what is wrong, to erase your data, or to stop using them;",
        "for our reasons, if we do not do what you ask.",
    ),
    contact="Write to {contacts}.",
    contact_none="Write to whoever gave you this page.",
    complaint="You can also complain to your data-protection authority. It costs you nothing.",
)
GERMAN = Words(
    tag="de",
    date="{day}. {month} {year}",
    months=(
        *("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli"),
        *("August", "September", "Oktober", "November", "Dezember"),
    ),
    title="Ihre Daten in unserer Forschung",
    made="Stand: {date}. Ihr Name oder Ihre Nummer wird auf dieser Seite nicht wiederholt.",
    holding="Was über Sie gespeichert ist",
    since="Seit",
    purpose="Wozu",
    source="Woher",
    kept="Wie lange",
    until="bis {date}",
    rows="Über Sie",
    rows_one="1 Eintrag",
    rows_many="{count} Einträge",
    rows_used="höchstens {counted} davon werden für Antworten verwendet",
    rows_unused="keiner wird für Antworten verwendet",
    rows_waiting="{count} mehr ab {date}",
    leaves="Gelöscht am",
    stored="Jeder enthält",
    more="und {count} weitere Angaben",
    copy="Sie können eine Kopie mit allen Werten bekommen. Es genügt, darum zu bitten.",
    identified="Ihr Name oder Ihre Nummer ist dabei aufbewahrt, mit einem eigenen Schlüssel verschlossen, damit wir "
    "Sie erreichen können.",
    erased="Wie verlangt wurden Daten über Sie gelöscht aus {datasets}.",
    nothing="Wir haben nach dem Namen oder der Nummer gesucht, die Sie angegeben haben, und nichts über Sie gefunden.",
    unsearched="Nicht durchsuchen können wir {datasets}: Dort steht nicht, wen ein Eintrag betrifft. Zur Sicherheit "
    "ist die Zahl unten so berechnet, als wären Sie dabei.",
    released="Was andere gesehen haben",
    never="Unser System zeigt Forschenden niemandes Einträge. Sie bekommen Statistiken über alle gemeinsam, und jede "
    "Zahl wird durch Zufall unscharf gemacht, bevor sie hinausgeht.",
    answers="Seit Ihre Daten dabei sind, bekamen Forschende {count} solche Antworten, vom {first} bis zum {last}.",
    answers_one="Seit Ihre Daten dabei sind, bekamen Forschende eine solche Antwort, am {first}.",
    answers_none="Seit Ihre Daten dabei sind, bekamen Forschende keine solche Antwort.",
    learnt="Was jemand über Sie erfahren kann",
    guess_presence="Stellen Sie sich jemanden vor, der alles über alle weiß, nur nicht, ob Sie in diesen Daten sind. "
    "Er liest jede Antwort, die gegeben wurde oder noch gegeben werden kann. Dann rät er, ob Sie dabei sind oder "
    "nicht. Er hat recht",
    guess_values="Stellen Sie sich jemanden vor, der alles über alle anderen weiß und Ihre wahren Daten neben "
    "erfundenen sieht. Er liest jede Antwort, die gegeben wurde oder noch gegeben werden kann. Dann rät er, welche "
    "von beiden wahr sind. Er hat recht",
    number="höchstens {percent}-mal von 100",
    coin="Wer stattdessen eine Münze wirft, hat 50-mal von 100 recht.",
    useless="Wer stattdessen eine Münze wirft, hat auch 50-mal von 100 recht. Die Antworten helfen beim Raten nicht.",
    no_promise="Wer stattdessen eine Münze wirft, hat 50-mal von 100 recht. Wir können also nicht versprechen, dass "
    "die Antworten nichts über Sie verraten.",
    ever="Wir begrenzen, was alle Antworten zusammen verraten dürfen. Die Zahl gilt für alle Antworten, die unter der "
    "heutigen Grenze ({date}) je gegeben werden können. Nur zwei Verantwortliche für diese Daten gemeinsam können die "
    "Grenze anheben. Dann ist die Zahl zu niedrig, und Sie können bei uns nach der neuen fragen.",
    public_count="Wie viele Menschen in den Daten sind, ist nicht geheim.",
    removed="Sie gilt auch für Daten über Sie, die früher hier gewesen sein können und entfernt wurden.",
    rights="Was Sie verlangen können",
    rights_intro="Nach europäischem Recht (DSGVO) können Sie von uns verlangen,",
    rights_list=(
        "dass Sie eine Kopie von allem bekommen, was über Sie gespeichert ist;",
        "dass wir Falsches berichtigen, Ihre Daten löschen oder nicht weiter verwenden;",
        "dass wir es begründen, wenn wir nicht tun, was Sie verlangen.",
    ),
    contact="Schreiben Sie an {contacts}.",
    contact_none="Schreiben Sie an die Stelle, von der Sie diese Seite haben.",
    complaint="Sie können sich auch bei Ihrer Datenschutzbehörde beschweren. Es kostet Sie nichts.",
)
LANGUAGES = {words.tag: words for words in (ENGLISH, GERMAN)}
