/** The Lua files of the verbs. The build puts their texts in the place of this module, so that a built process reads none. */
import { readFileSync } from "node:fs";

const FOLDER = new URL("./lua/", import.meta.url);

/** Returns the text of a file, e.g. of `include/base`. */
export function luaFile(name: string): string {
  return readFileSync(new URL(`${name}.lua`, FOLDER), "utf8");
}
