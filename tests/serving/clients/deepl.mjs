// What DeepL's official client for Node gets from the server whose address is the first argument, as JSON.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import * as deepl from "deepl-node";

const client = new deepl.DeepLClient("any", { serverUrl: process.argv[2], maxRetries: 0, minTimeout: 60_000 });
const station = "Where is the station?";

async function refusal(call) {
  try {
    return { answered: await call };
  } catch (error) {
    return { kind: error.constructor.name, message: error.message };
  }
}

const found = {};
found.text = await client.translateText(station, null, "it");
found.texts = await client.translateText([station, "Thank you."], "en", "it", {
  context: "In town.",
  formality: "prefer_less",
  modelType: "quality_optimized",
  preserveFormatting: true,
  splitSentences: "nonewlines",
});
found.html = await client.translateText("<p>Where is the <b>station</b>?</p>", "en", "it", {
  tagHandling: "html",
  tagHandlingVersion: "v2",
});
found.sources = await client.getSourceLanguages();
found.targets = await client.getTargetLanguages();
found.pairs = await client.getGlossaryLanguagePairs();
const usage = await client.getUsage();
found.usage = { ...usage.character, anyLimitReached: usage.anyLimitReached() };

const entries = new deepl.GlossaryEntries({ entries: { station: "fermata" } });
const glossary = await client.createGlossary("Stops", "en", "it", entries);
found.glossary = { ...glossary, isListed: (await client.listGlossaries()).some((each) => each.glossaryId === glossary.glossaryId) };
found.entries = (await client.getGlossaryEntries(glossary)).entries();
found.withGlossary = (await client.translateText(station, "en", "it", { glossary })).text;
await client.deleteGlossary(glossary);
found.deleted = await refusal(client.getGlossary(glossary.glossaryId));

const dictionary = { sourceLangCode: "en", targetLangCode: "it", entries };
const several = await client.createMultilingualGlossary("Stops", [dictionary]);
found.multilingual = several;
found.withMultilingual = (await client.translateText(station, "en", "it", { glossaryIds: [several] })).text;
const more = new deepl.GlossaryEntries({ entries: { bank: "riva" } });
found.updated = await client.updateMultilingualGlossaryDictionary(several.glossaryId, { ...dictionary, entries: more });
found.renamed = (await client.updateMultilingualGlossaryName(several.glossaryId, "Other")).name;
found.multilingualEntries = (await client.getMultilingualGlossaryDictionaryEntries(several.glossaryId, "en", "it")).entries.entries();
found.replaced = await client.replaceMultilingualGlossaryDictionary(several.glossaryId, { ...dictionary, entries: more });
await client.deleteMultilingualGlossaryDictionary(several.glossaryId, "en", "it");
found.emptied = (await client.getMultilingualGlossary(several.glossaryId)).dictionaries;
await client.deleteMultilingualGlossary(several.glossaryId);
found.left = (await client.listMultilingualGlossaries()).length;

const handle = await client.uploadDocument(Buffer.from("Thank you."), "en", "it", { filename: "a.txt" });
let status = await client.getDocumentStatus(handle);
while (status.ok() && !status.done()) {
  await setTimeout(50);
  status = await client.getDocumentStatus(handle);
}
const folder = mkdtempSync(join(tmpdir(), "document-"));
await client.downloadDocument(handle, join(folder, "a.txt"));
found.document = { ...status, text: readFileSync(join(folder, "a.txt"), "utf8") };
rmSync(folder, { recursive: true });

found.refused = await refusal(client.translateText(station, "en", "it", { splittingTags: ["x"] }));
found.rephrased = await refusal(client.rephraseText("Hello"));
console.log(JSON.stringify(found));
