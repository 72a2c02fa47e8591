// Text in, text out, with everything in between. `facts` describe the model; `weights` are safetensors in base64.
const FIRST_PLACEHOLDER = 0x100000; // eight for words, then eight for numbers

class Translator {
  constructor(facts, weights) {
    this.facts = facts;
    this.model = { settings: facts.model, weights: readWeights(weights), off: new Set() };
    this.source = new Tokenizer(facts.source);
    this.target = facts.target ? new Tokenizer(facts.target) : this.source;
    this.piece = compile(facts.protected);
    this.placeholders = facts.placeholders.map((character) => this.target.ids.get(character));
  }

  // Replace numbers, addresses and code by placeholders that the model copies, as long as some are free.
  mask(text) {
    const originals = new Map();
    const masked = text.replace(this.piece, (piece, ...rest) => {
      const { number } = rest.at(-1), isOf = (character) => character.codePointAt(0) - FIRST_PLACEHOLDER >= 8 === Boolean(number);
      const usable = [...this.facts.learned].filter((character) => (isOf(character) || number) && piece !== "1");
      const free = usable.sort((a, b) => isOf(b) - isOf(a)).find((character) => !originals.has(character));
      if (free) originals.set(free, piece);
      return free ?? piece;
    });
    return { masked, originals };
  }

  // Translate one sentence. `prefix` holds the ids that the translation begins with.
  translate(text, { beamSize = this.facts.options.beam_size, prefix = [] } = {}) {
    const begun = performance.now(), { options, framing, longest } = this.facts;
    if (text.length > 16 * longest) throw new RangeError(`The text is too long: the model takes ${longest} pieces at most.`);
    const { masked, originals } = this.mask(text), ids = this.source.encode(masked);
    if (!ids.length) throw new RangeError("There is nothing to translate.");
    if (ids.length > longest) throw new RangeError(`The text has ${ids.length} pieces, and the model takes ${longest} at most.`);
    const source = [...framing.before, ...ids, ...framing.after], steps = [];
    const cross = crossKeys(this.model, encode(this.model, source));
    const limit = Math.min(Math.floor(options.length_ratio * ids.length) + options.length_extra + prefix.length, this.facts.model.max_positions ?? Infinity);
    const request = { beamSize, limit, end: framing.end, nBest: Math.min(options.n_best, beamSize), lengthPenalty: options.length_penalty, earlyStopping: options.early_stopping };
    const own = [...originals.keys()].map((character) => this.target.ids.get(character));
    const rules = { banned: this.facts.banned, blank: new Set(this.facts.blank), placeholders: this.placeholders, end: framing.end, prefix, own };
    const result = beamSearch(request, (live) => this.follow(cross, live, rules), (candidates) => steps.push(candidates));
    const seconds = (performance.now() - begun) / 1000;
    return { text: this.restore(result.hypotheses[0], originals), source, steps, seconds, originals, beamSize, ...result };
  }

  follow(cross, live, rules) {
    const rows = live.map(({ tokens, cache }) => ({ token: tokens.at(-1) ?? this.facts.framing.start, position: tokens.length, cache }));
    const next = step(this.model, cross, rows);
    next.forEach(({ logProbs }, row) => forbid(logProbs, live[row].tokens, rules));
    return next;
  }

  restore({ tokens }, originals) {
    const text = this.target.decode(tokens);
    return [...originals].reduce((restored, [character, piece]) => restored.replace(character, () => piece), text);
  }

  // Read a source and its translation once more, and return what the model computes for every token: the weights of each
  // attention, by its name, query and head, and the log-probabilities of what follows each token of the translation.
  inside(source, tokens) {
    const weights = {};
    const watch = (at) => (name, row, head, seen) => ((((weights[name] ??= [])[at ?? row] ??= [])[head] = seen));
    const cross = crossKeys(this.model, encode(this.model, source, watch()));
    const read = [this.facts.framing.start, ...tokens], following = [];
    let cache = null;
    read.forEach((token, position) => {
      const [next] = step(this.model, cross, [{ token, position, cache }], watch(position));
      cache = next.cache;
      following.push(next.logProbs);
    });
    return { weights, read, following };
  }
}
