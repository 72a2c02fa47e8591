// Run by Node with the path of a page: answer questions about its model, a line of JSON each. See `node.py`.
const [page, vm, lines] = [require("node:fs").readFileSync(process.argv[2], "utf8"), require("node:vm"), require("node:readline")];
const part = (id) => page.match(new RegExp(`<script[^>]* id="${id}"[^>]*>([^]*?)</script>`))[1];
vm.runInThisContext(part("engine"));
const { facts, translator } = vm.runInThisContext("openPage")(part("facts"), part("weights"));
const { framing } = facts;

// The log-probabilities of what follows each token that the decoder reads; `choose` names the next token, or none.
function following(source, choose) {
  const cross = vm.runInThisContext("crossKeys")(translator.model, vm.runInThisContext("encode")(translator.model, source));
  const rows = [];
  for (let token = framing.start, cache = null; token !== undefined; token = choose(rows)) {
    const [next] = vm.runInThisContext("step")(translator.model, cross, [{ token, position: rows.length, cache }]);
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
      const best = rows.at(-1).indexOf(rows.at(-1).reduce((most, number) => Math.max(most, number), -Infinity));
      return best === framing.end || written.push(best) === longest ? undefined : best;
    });
    return written;
  },
  follow: ({ source, target }) => following(source, (rows) => target[rows.length - 1]).map((row) => Array.from(row)),
  translate({ text, beamSize, prefix, off = [] }) {
    translator.model.off = new Set(off);
    const { hypotheses, steps, seconds, ...rest } = translator.translate(text, { beamSize, prefix });
    const plain = ({ tokens, logProbs, total, finished }) => ({ tokens, logProbs, total, finished });
    return { text: rest.text, source: rest.source, seconds, hypotheses: hypotheses.map(plain), steps: steps.map((candidates) => candidates.map(({ hypothesis, status }) => ({ ...plain(hypothesis), status }))) };
  },
  inside: ({ source, tokens }) => translator.inside(source, tokens).weights,
};

lines.createInterface({ input: process.stdin }).on("line", (line) => {
  const [question, subject] = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(answers[question](subject))}\n`);
});
