// Text to ids and back, by the rules of `dragoman.tokenizing`: cut by the pattern, merge pieces, spell the rest in bytes.
const SYMBOLS = 4; // unknown, padding, start and end come first
const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const CLASSES = { s: SPACE, w: "\\p{L}\\p{M}\\p{N}_", d: "\\p{Nd}" };
const upper = { s: "sSſ" }; // a pattern without regard to case also takes the long s
const [UTF8, TEXT] = [new TextEncoder(), new TextDecoder("utf-8", { ignoreBOM: true })];

// Build a regular expression of Python or of the tokenizers library: JavaScript writes some parts in another way.
function compile(pattern) {
  const source = pattern
    .replaceAll("(?P<", "(?<")
    .replace(/\(\?i:([^)]*)\)/g, (_, letters) => `(?:${letters.replace(/[a-z]/g, (x) => `[${upper[x] ?? x + x.toUpperCase()}]`)})`)
    .replace(/\\x\{(\w+)\}/g, "\\u{$1}")
    .replace(/(\[\^?)\\([swd])/g, (_, bracket, kind) => bracket + CLASSES[kind])
    .replace(/\\([swd])/g, (_, kind) => `[${CLASSES[kind]}]`)
    .replace(/\\([SWD])/g, (_, kind) => `[^${CLASSES[kind.toLowerCase()]}]`);
  return new RegExp(source, "gu");
}

class Tokenizer {
  constructor(vocabulary) {
    const { kind, pieces, merges, scores } = vocabulary;
    [this.addsSpace, this.ofBytes] = [kind === "bpe" || kind === "unigram", kind === "byte_bpe"];
    this.pattern = compile(vocabulary.pattern);
    this.firstPiece = SYMBOLS + (this.ofBytes ? 0 : 256);
    this.ids = new Map(pieces.map((piece, number) => [piece, this.firstPiece + number]));
    this.ranks = new Map(merges.map(([left, right], rank) => [`${left}\0${right}`, rank]));
    this.scores = kind === "unigram" ? scores : null;
    this.longest = Math.max(...pieces.map((piece) => piece.length));
    this.byteNames = this.ofBytes ? byteNames() : [];
    const spelled = pieces.map((piece) => (this.ofBytes ? Uint8Array.from(piece, (name) => this.byteNames.indexOf(name)) : UTF8.encode(piece)));
    const bytes = this.ofBytes ? [] : Array.from({ length: 256 }, (_, value) => Uint8Array.of(value));
    this.names = Object.values(vocabulary.specials);
    this.spellings = [...this.names.map(() => new Uint8Array()), ...bytes, ...spelled];
  }

  encode(text) {
    if (!text) return [];
    const typed = this.ofBytes ? text : text.normalize("NFC");
    const words = (this.addsSpace ? ` ${typed}` : typed).match(this.pattern) ?? [];
    return words.flatMap((word) => (this.scores ? this.likeliest(word) : this.merge(word)));
  }

  // Byte-pair encoding: of all neighbours, merge those that were learned first, until none were (Sennrich et al. 2016).
  merge(word) {
    const parts = this.ofBytes ? Array.from(UTF8.encode(word), (value) => this.byteNames[value]) : [...word];
    for (;;) {
      let best = Infinity, place = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]}\0${parts[i + 1]}`) ?? Infinity;
        if (rank < best) [best, place] = [rank, i];
      }
      if (place < 0) return parts.flatMap((part) => this.spell(part));
      parts.splice(place, 2, parts[place] + parts[place + 1]);
    }
  }

  // Unigram: the pieces with the largest sum of scores (Kudo 2018). An unseen character has a score below all others.
  likeliest(word) {
    const unseen = Math.min(0, ...this.scores) - 10;
    const best = [{ score: 0, piece: "", from: null }];
    let from = 0;
    for (const character of word) {
      const offer = (piece, added) => {
        const end = from + piece.length, score = best[from].score + added;
        if (!best[end] || score > best[end].score) best[end] = { score, piece, from };
      };
      for (let end = from + 1; end <= Math.min(word.length, from + this.longest); end++) {
        const id = this.ids.get(word.slice(from, end));
        if (id !== undefined) offer(word.slice(from, end), this.scores[id - this.firstPiece]);
      }
      if (!this.ids.has(character)) offer(character, unseen);
      from += character.length;
    }
    const pieces = [];
    for (let end = word.length; end > 0; end = best[end].from) pieces.unshift(best[end].piece);
    return pieces.flatMap((piece) => this.spell(piece));
  }

  spell(piece) {
    const id = this.ids.get(piece);
    return id === undefined ? Array.from(UTF8.encode(piece), (value) => SYMBOLS + value) : [id];
  }

  decode(ids) {
    const text = TEXT.decode(Uint8Array.from(ids.flatMap((id) => [...this.spellings[id]])));
    return this.addsSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  // The readable form of an id: a space is ▁, and bytes that are no character are their numbers.
  token(id) {
    if (id < SYMBOLS) return this.names[id];
    const text = TEXT.decode(this.spellings[id]), place = text.codePointAt(0) - FIRST_PLACEHOLDER;
    if (place >= 0 && place < 16) return place < 8 ? `[word ${place + 1}]` : `[number ${place - 7}]`;
    if (/^[^\p{C}\ufffd]+$/u.test(text)) return text.replaceAll(" ", "▁");
    return Array.from(this.spellings[id], (value) => `<0x${value.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
  }
}

// The characters by which a vocabulary of bytes writes them: printable ones themselves, the others from U+0100.
function byteNames() {
  const printable = (value) => (value > 32 && value < 127) || (value > 160 && value < 256 && value !== 173);
  let others = 0;
  return Array.from({ length: 256 }, (_, value) => String.fromCodePoint(printable(value) ? value : 256 + others++));
}
