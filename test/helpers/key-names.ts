/** Returns the keys of a parent or an agent by name; a key whose name has a variable part is a function of that part. */
export function keyMembers(keys: object): Record<string, string | ((part: string) => string)> {
  return { ...keys };
}

/** Returns all names of `keys`, with `part` for each variable part. */
export function keyNames(keys: object, part: string): string[] {
  return Object.values(keyMembers(keys)).map((name) => (typeof name === "string" ? name : name(part)));
}
