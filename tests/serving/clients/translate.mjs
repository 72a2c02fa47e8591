// What the package `translate` gets from the server whose address is the first argument, as JSON.
import { Translate } from "translate";

const translate = Translate({ engine: "libre", key: "another", url: `${process.argv[2]}/translate` });
const refused = await translate("Hello", { from: "en", to: "de" }).catch((error) => error.message);
console.log(JSON.stringify({ text: await translate("Where is the station?", { from: "English", to: "it" }), refused }));
