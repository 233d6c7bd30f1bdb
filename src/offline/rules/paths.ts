/** Finds file names and directories in the words of a request. Pure. */

const FILE =
  /(?<![\w./@-])((?:\.{0,2}\/)?(?:[\w@+-][\w.@+-]*\/)*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/])/g;
const NOT_A_FILE = /^(?:e\.g|i\.e|etc|node\.js|vue\.js|next\.js|\d+(?:\.\w+)+)$/i;

/** The file names in a text, in their order, without duplicates. URLs are not file names. */
export function filesNamedIn(text: string): string[] {
  const found = text.replace(/\bhttps?:\/\/\S+/gi, " ").matchAll(FILE);
  const names = [...found].map((match) => (match[1] ?? "").replace(/^\.\//, ""));
  return [...new Set(names.filter((name) => !NOT_A_FILE.test(name)))];
}

/** The first absolute path in a text, a full stop at its end left out. */
export function absolutePathIn(text: string): string | undefined {
  const found = /(?:^|[\s"'`(=])(\/[\w@.+-]+(?:\/[\w@.+-]+)*)/.exec(text)?.[1];
  return found?.replace(/\.+$/, "");
}
