/** Every name that `keys`, of a parent or an agent, spell; those that take a part of it with `part`. */
export function keyNames(keys: object, part: string): string[] {
  const members = { ...Object.getOwnPropertyDescriptors(Object.getPrototypeOf(keys)), ...keys };
  return Object.keys(members)
    .filter((name) => name !== "constructor")
    .map((name) => {
      const member: string | ((part: string) => string) = Reflect.get(keys, name);
      return typeof member === "string" ? member : member.call(keys, part);
    });
}
