// Texts of the interface. Texts with parameters are functions.

// Separates words with commas. Isolates keep those that run from right to left from reordering the sentence around them.
export const listed = (...words) => words.map((word) => (/[\u0590-\u08ff\ufb1d-\ufefc]/.test(word) ? `\u2068${word}\u2069` : word)).join(", ");

const ENGLISH = {
  skip: "Skip to the text",
  interface: "Language of this page",
  from: "From",
  to: "To",
  auto: "Detect language",
  swap: "Swap the languages",
  yourText: "Your text",
  textHint: "Type or paste text, or drop a document.",
  translation: "Translation",
  words: "Words of the translation. Arrow keys move; Enter shows other words.",
  empty: "The translation appears here while you type.",
  sure: (language, percent) => `${language}, ${percent} % confidence`,
  count: (used, limit) => `${used} of ${limit} characters`,
  tooLong: (over) => `Too long by ${over} characters. Shorten it, or drop it as a document.`,
  clear: "Clear",
  alternatives: "Other translations",
  rewritten: "Rewritten with your choice.",
  undo: "Undo",
  copy: "Copy",
  copied: "Copied.",
  why: "Show me why",
  selectToExplain: "Only short texts can be explained. Select a sentence of your text, then try again.",
  suggest: "Suggest a better one",
  better: "A better translation",
  send: "Send",
  thanks: "Thank you. Your suggestion is saved.",
  cameFrom: (word) => `From “${listed(word)}”. Alternatives:`,
  fromNowhere: "It is not aligned with a single word. Alternatives:",
  nothingElse: "The model has no alternative here.",
  looking: "Looking for alternatives …",

  uncertain: (words) => `The model is unsure of the words with a dotted underline: ${words}. Choose a word to see alternatives.`,
  termsUsed: (terms) => `From your glossary: ${terms}.`,
  readAs: (typed, read) => `“${listed(typed)}” was read as “${listed(read)}”.`,
  flags: {
    broken: () => "A sentence is too long for the model and was cut. Check the places where the pieces meet.",
    copied: () => "Names, code or text without words were copied, not translated.",
    truncated: () => "The translation is incomplete, because it reached the maximum length.",
    repetition: () => "Some words are repeated more often than in your text. Read this with care.",
    doubtful: () => "The model gives its translation a low probability. Read this with care.",
    cleaned: () => "Control characters became spaces, or marks of the direction of writing were removed.",
    untranslatable: () => "The model knows nothing in this text.",
    lost: (answer) => `Missing from the translation: ${listed(...answer.lost)}.`,
    term: (answer) => `In your glossary, but not used: ${listed(...answer.unused_terms)}.`,
    unknown: (answer) => `Words that the model does not know: ${listed(...answer.unknown_words)}.`,
    language: () => "Some of the text seems to be in another language.",
    left: () => "Some of the text was left as it was.",
  },
  chooseDocument: "Translate a document",
  drop: "Drop the document to translate it",
  reading: (name) => `Translating ${name} …`,
  saveDocument: (name) => `Save ${name}`,
  formats: (name, formats) => `${name} is not a document that this server reads. It reads ${formats}.`,
  documentTooLarge: (name, size) => `${name} is larger than ${size}. Split it and translate the parts.`,
  close: "Close",

  glossary: "Glossary",
  glossaryHelp: "One term per line, with its translation; separate several forms with |. A term alone is not translated. "
    + "The glossary is stored in this browser, one for each direction.",
  termsCount: (count) => (count === 1 ? "1 term" : `${count} terms`),
  badTerm: (line) => `Line ${line} lacks a term or its translation, so it is not used.`,
  history: "History",
  keepHistory: "Keep my translations in this browser",
  clearHistory: "Delete all",
  noHistory: "The history is empty.",
  keyboard: "Keyboard",
  shortcuts: [
    ["Ctrl Enter", "from the text to the words of the translation"],
    ["← →", "to the next word; aligned words are highlighted"],
    ["Enter", "alternatives to the word; choose with ↑ ↓ and Enter"],
    ["Escape", "close a menu; from the words back to the text"],
    ["Alt Shift S", "swap the languages"],
    ["Alt Shift C", "copy the translation"],
  ],

  key: "This server requires a key.",
  remember: "remember it in this browser",
  useKey: "Use key",
  again: "Try again",
  problems: {
    key: () => "The server did not accept this key. Enter a valid one above.",
    long: (said) => `This is too long for the server: ${said}`,
    often: (said, wait) => `You have sent too many requests. The page tries again ${soon(wait)}.`,
    busy: (said, wait) => `The server is busy. The page tries again ${soon(wait)}.`,
    loading: (said, wait) => `The server is loading its models. The page tries again ${soon(wait)}.`,
    offline: (said, wait) => `The server can't be reached. Check your connection; the page tries again ${soon(wait)}.`,
    refused: (said) => `The server can't translate this: ${said}`,
    broken: (said) => `Something went wrong on the server. Try again; if it happens again, report it to the operator: ${said}`,
  },
};

const ITALIAN = {
  skip: "Vai al testo",
  interface: "Lingua di questa pagina",
  from: "Da",
  to: "A",
  auto: "Rileva la lingua",
  swap: "Scambia le lingue",
  yourText: "Il tuo testo",
  textHint: "Scrivi o incolla un testo, oppure trascina qui un documento.",
  translation: "Traduzione",
  words: "Parole della traduzione. Le frecce spostano; Invio mostra altre parole.",
  empty: "La traduzione appare qui mentre scrivi.",
  sure: (language, percent) => `${language}, sicuro al ${percent} %`,
  count: (used, limit) => `${used} di ${limit} caratteri`,
  tooLong: (over) => `Troppo lungo di ${over} caratteri. Accorcialo, oppure trascinalo come documento.`,
  clear: "Cancella",
  alternatives: "Altre traduzioni",
  rewritten: "Riscritta come hai scelto.",
  undo: "Annulla",
  copy: "Copia",
  copied: "Copiata.",
  why: "Mostrami perché",
  selectToExplain: "Si spiegano solo testi brevi. Seleziona una frase del tuo testo, poi richiedi.",
  suggest: "Proponi una traduzione migliore",
  better: "Una traduzione migliore",
  send: "Invia",
  thanks: "Grazie. La tua proposta è salvata.",
  cameFrom: (word) => `Da «${listed(word)}». Qui potrebbe stare anche:`,
  fromNowhere: "Non viene da una sola parola. Qui potrebbe stare anche:",
  nothingElse: "Il modello non vede altre parole qui.",
  looking: "Cerco altre parole …",

  uncertain: (words) => `Il modello non era sicuro di ciò che è sottolineato a punti: ${words}. Scegli una parola per vederne altre.`,
  termsUsed: (terms) => `Dal tuo glossario: ${terms}.`,
  readAs: (typed, read) => `«${listed(typed)}» è stato letto come «${listed(read)}».`,
  flags: {
    broken: () => "Una frase è più lunga di quanto il modello accetti ed è stata divisa. Controlla i punti in cui le parti si uniscono.",
    copied: () => "Nomi, codice o testo senza parole sono stati copiati, non tradotti.",
    truncated: () => "La traduzione si interrompe, perché ha raggiunto la lunghezza massima.",
    repetition: () => "Alcune parole si ripetono più spesso che nel tuo testo. Leggi con attenzione.",
    doubtful: () => "Il modello trova improbabile la propria traduzione. Leggi con attenzione.",
    cleaned: () => "I caratteri di controllo sono diventati spazi, o i segni di direzione della scrittura sono stati tolti.",
    untranslatable: () => "Il modello non riesce a leggere nulla in questo testo.",
    lost: (answer) => `Manca nella traduzione: ${listed(...answer.lost)}.`,
    term: (answer) => `Nel tuo glossario, ma non usato: ${listed(...answer.unused_terms)}.`,
    unknown: (answer) => `Parole che il modello non conosce: ${listed(...answer.unknown_words)}.`,
    language: () => "Una parte del testo sembra in un'altra lingua.",
    left: () => "Una parte del testo è rimasta com'era.",
  },
  chooseDocument: "Traduci un documento",
  drop: "Lascia il documento per tradurlo",
  reading: (name) => `Traduco ${name} …`,
  saveDocument: (name) => `Salva ${name}`,
  formats: (name, formats) => `${name} non è un documento che questo server legge. Legge ${formats}.`,
  documentTooLarge: (name, size) => `${name} supera ${size}. Dividilo e traduci le parti.`,
  close: "Chiudi",

  glossary: "Glossario",
  glossaryHelp: "Un termine per riga, con la sua traduzione; più forme separate da |. Un termine da solo resta com'è. "
    + "Il glossario resta in questo browser, uno per ogni direzione.",
  termsCount: (count) => (count === 1 ? "1 termine" : `${count} termini`),
  badTerm: (line) => `Alla riga ${line} manca un termine o la sua traduzione, perciò non è usata.`,
  history: "Cronologia",
  keepHistory: "Conserva le mie traduzioni in questo browser",
  clearHistory: "Elimina tutto",
  noHistory: "Non c'è ancora nulla.",
  keyboard: "Tastiera",
  shortcuts: [
    ["Ctrl Invio", "dal testo alle parole della traduzione"],
    ["← →", "alla parola accanto; le parole che si corrispondono si illuminano"],
    ["Invio", "altre parole qui; ↑ ↓ e Invio per sceglierne una"],
    ["Esc", "chiude un menu; dalle parole torna al testo"],
    ["Alt Maiusc S", "scambia le lingue"],
    ["Alt Maiusc C", "copia la traduzione"],
  ],

  key: "Questo server chiede una chiave.",
  remember: "ricordala in questo browser",
  useKey: "Usa la chiave",
  again: "Riprova",
  problems: {
    key: () => "Il server non ha accettato questa chiave. Inseriscine una valida qui sopra.",
    long: (said) => `È troppo lungo per il server: ${said}`,
    often: (said, wait) => `Hai chiesto spesso in poco tempo. La pagina riprova ${fra(wait)}.`,
    busy: (said, wait) => `Il server è occupato. La pagina riprova ${fra(wait)}.`,
    loading: (said, wait) => `Il server sta caricando i modelli. La pagina riprova ${fra(wait)}.`,
    offline: (said, wait) => `Il server non è raggiungibile. Controlla la connessione; la pagina riprova ${fra(wait)}.`,
    refused: (said) => `Il server non può tradurlo: ${said}`,
    broken: (said) => `Qualcosa è andato storto nel server. Riprova; se non passa, dillo a chi lo gestisce: ${said}`,
  },
};

const soon = (seconds) => (seconds > 1 ? `in ${seconds} seconds` : "in a second");
const fra = (seconds) => (seconds > 1 ? `fra ${seconds} secondi` : "fra un secondo");

export const WORDS = { en: ENGLISH, it: ITALIAN };

const RIGHT_TO_LEFT = ["ar", "ckb", "dv", "fa", "he", "iw", "ps", "sd", "ug", "ur", "yi"];

export const direction = (code) => (RIGHT_TO_LEFT.includes(code.split("-")[0]) ? "rtl" : "ltr");

// Returns the name of a language in the language of the interface, or its code if the browser has no name.
export function nameOf(code, shownIn) {
  try {
    return new Intl.DisplayNames(shownIn, { type: "language" }).of(code);
  } catch {
    return code;
  }
}
