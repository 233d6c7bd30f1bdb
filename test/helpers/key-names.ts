/** The members of `keys`, of a parent or an agent, by name; one that takes a part of its name is a function of that. */
export function keyMembers(keys: object): Record<string, string | ((part: string) => string)> {
  return { ...keys };
}

/** Every name that `keys` spell; those that take a part of it with `part`. */
export function keyNames(keys: object, part: string): string[] {
  return Object.values(keyMembers(keys)).map((name) => (typeof name === "string" ? name : name(part)));
}
