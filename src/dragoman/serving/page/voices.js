// Reading aloud, by voices on the user's device: the voices of a browser's maker would send the text to a server.

const speech = window.speechSynthesis;
const contents = new Map(); // of each button, a function that returns its text and the text's language
let utterance = null; // the one that is read

const base = (code) => code.toLowerCase().split(/[-_]/)[0];

function voiceOf(code) {
  const voices = speech?.getVoices().filter((voice) => voice.localService && base(voice.lang) === base(code)) ?? [];
  return voices.find((voice) => voice.lang === code || voice.default) ?? voices[0];
}

// Makes a button read what `content` returns, or stop. `words` returns the texts of the interface.
export function readAloud(button, content, words) {
  contents.set(button, content);
  button.words = words;
  button.addEventListener("click", () => (button.dataset.words === "stop" ? stopReading() : read(button, ...content())));
}

// Shows the buttons whose texts have a voice.
export function showVoices() {
  for (const [button, content] of contents) {
    const [text, code] = content();
    button.hidden = !text.trim() || !voiceOf(code);
  }
}

function read(button, text, code) {
  stopReading();
  const voice = voiceOf(code);
  utterance = Object.assign(new SpeechSynthesisUtterance(text), { voice, lang: voice.lang });
  utterance.onend = utterance.onerror = ({ target }) => target === utterance && stopReading();
  speech.speak(utterance);
  label(button, "stop");
}

export function stopReading() {
  if (!utterance) return;
  utterance = null;
  speech.cancel();
  for (const button of contents.keys()) label(button, "listen");
}

function label(button, name) {
  Object.assign(button, { textContent: button.words()[name] }).dataset.words = name;
}

speech?.addEventListener("voiceschanged", showVoices);
