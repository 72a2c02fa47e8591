// Run by Node with the path of a page: answer questions about its model, a line of JSON each. See `node.py`.
const [{ readFileSync }, { runInThisContext }, { createInterface }] = ["fs", "vm", "readline"].map((name) => require(`node:${name}`));
const page = readFileSync(process.argv[2], "utf8");
const part = (id) => page.match(new RegExp(`<script[^>]* id="${id}"[^>]*>([^]*?)</script>`))[1];
runInThisContext(part("engine"));
const facts = JSON.parse(part("facts")), { framing } = facts;
const translator = runInThisContext("(facts, weights) => new Translator(facts, weights)")(facts, part("weights"));

// The log-probabilities of what follows each token that the decoder reads; `choose` names the next token, or none.
function following(source, choose) {
  const cross = crossKeys(translator.model, encode(translator.model, source)), rows = [];
  for (let token = framing.start, cache = null; token !== undefined; token = choose(rows)) {
    const [next] = step(translator.model, cross, [{ token, position: rows.length, cache }]);
    cache = next.cache;
    rows.push(next.logProbs);
  }
  return rows;
}

const answers = {
  encode: (texts) => texts.map((text) => [...framing.before, ...translator.source.encode(text), ...framing.after]),
  decode: (ids) => translator.target.decode(ids),
  greedy({ source, longest, suppressed }) {
    const written = [];
    following(source, (rows) => {
      suppressed.forEach((id) => (rows.at(-1)[id] = -Infinity));
      const [best] = largest(rows.at(-1), 1);
      return best === framing.end || written.push(best) === longest ? undefined : best;
    });
    return written;
  },
  follow: ({ source, target }) => following(source, (rows) => target[rows.length - 1]).map((row) => Array.from(row)),
  score: ({ source, labels }) => following(source, (rows) => labels.slice(0, -1)[rows.length - 1]).map((row, i) => row[labels[i]]),
  translate({ text, off = [], ...options }) {
    translator.model.off = new Set(off);
    const { hypotheses, steps, text: translation, seconds } = translator.translate(text, options);
    const plain = ({ tokens, total }) => ({ tokens, total });
    return { text: translation, seconds, hypotheses: hypotheses.map(plain), steps: steps.map((few) => few.map(({ hypothesis, status }) => ({ ...plain(hypothesis), status }))) };
  },
  inside: ({ source, tokens }) => translator.inside(source, tokens).weights,
};
const answer = ([question, subject]) => `${JSON.stringify(answers[question](subject))}\n`;
createInterface({ input: process.stdin }).on("line", (line) => process.stdout.write(answer(JSON.parse(line))));
