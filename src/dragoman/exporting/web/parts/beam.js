// Beam search for one sentence, as `decoding/beam.py` defines it, and the rules about which tokens may follow.
const lengthPenalty = (length, exponent) => ((5 + length) / 6) ** exponent;
const score = (hypothesis, exponent) => hypothesis.total / lengthPenalty(hypothesis.tokens.length, exponent);

// Search. `follow(hypotheses)` returns the next log-probabilities and the cache of each; `watch` receives the candidates
// of each step, best first, with their status: live, ended or dropped.
function beamSearch(request, follow, watch) {
  const { beamSize, end, lengthPenalty: exponent } = request, finished = [];
  const best = () => [...finished].sort((a, b) => score(b, exponent) - score(a, exponent));
  let live = [{ tokens: [], logProbs: [], total: 0, cache: null, finished: false }];
  while (!done(request, live, finished, best)) {
    const next = follow(live);
    const candidates = continuations(live, next, beamSize === 1 ? 1 : 2 * beamSize, end);
    if (!candidates.length) break; // every token is forbidden
    const ended = candidates.slice(0, beamSize).filter((hypothesis) => hypothesis.finished);
    live = candidates.filter((hypothesis) => !hypothesis.finished).slice(0, beamSize);
    finished.push(...ended);
    watch?.(candidates.map((hypothesis) => ({ hypothesis, status: live.includes(hypothesis) ? "live" : ended.includes(hypothesis) ? "ended" : "dropped" })));
  }
  return { hypotheses: [...best(), ...live].slice(0, request.nBest), finished: best() };
}

// True if no live hypothesis can change the result: see `Beam.done`.
function done({ limit, earlyStopping, beamSize, nBest, lengthPenalty: exponent }, live, finished, best) {
  if (!live.length || live[0].tokens.length === limit) return true;
  if (earlyStopping && finished.length >= beamSize) return true;
  if (finished.length < nBest) return false;
  return live[0].total / lengthPenalty(limit, exponent) <= score(best()[nBest - 1], exponent);
}

// The best continuations of the live hypotheses. Ties go to the earlier one, the likelier token, the lower id.
function continuations(live, next, count, end) {
  const ranked = live.flatMap((parent, place) =>
    largest(next[place].logProbs, count).map((token) => {
      const logProb = next[place].logProbs[token];
      return { parent, place, token, logProb, total: parent.total + logProb };
    }));
  const order = (a, b) => b.total - a.total || a.place - b.place || b.logProb - a.logProb || a.token - b.token;
  return ranked.sort(order).slice(0, count).map(({ parent: { tokens, logProbs }, place, token, logProb, total }) => (
    { tokens: [...tokens, token], logProbs: [...logProbs, logProb], total, cache: next[place].cache, finished: token === end }));
}

// The places of the largest numbers in order, the lower place first among equals; never one of minus infinity.
function largest(numbers, count) {
  const places = [];
  for (let place = 0; place < numbers.length; place++) {
    const number = numbers[place];
    if (number === -Infinity || (places.length === count && number <= numbers[places[count - 1]])) continue;
    let at = places.length === count ? count - 1 : places.length;
    for (; at > 0 && numbers[places[at - 1]] < number; at--) places[at] = places[at - 1];
    places[at] = place;
  }
  return places;
}

// Forbid the tokens that must not follow `tokens`: see `decoding/processors.py`. `prefix` is what a translation begins
// with, `own` the placeholders of the source, each of which is written once.
function forbid(logProbs, tokens, { banned, blank, placeholders, end, prefix, own }) {
  const never = (ids) => ids.forEach((id) => (logProbs[id] = -Infinity));
  never(banned);
  if (tokens.length < prefix.length) return void logProbs.forEach((_, id) => id !== prefix[tokens.length] && never([id]));
  if (!prefix.length && tokens.every((token) => blank.has(token))) never(tokens.length ? [end, ...blank] : [end]);
  never(placeholders.filter((id) => !own.includes(id) || tokens.includes(id)));
  const isMissing = own.some((id) => !tokens.includes(id));
  if (isMissing && largest(logProbs, 1)[0] !== end) never([end]);
}
