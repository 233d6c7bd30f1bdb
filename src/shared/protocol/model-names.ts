/** What a model may be called: an id of its provider, or a common name for one. */

/** Ids by common name. */
const MODEL_IDS: Readonly<Record<string, string>> = {
  haiku: "claude-haiku-5-5",
  sonnet: "claude-sonnet-5-5",
  opus: "claude-opus-5-5",
};

/** The id behind `name`: that of `ids`, else Anthropic's, else the name itself; undefined for `inherit`. */
export function modelIdOf(
  name: string | undefined,
  ids: Readonly<Record<string, string>> = {},
): string | undefined {
  if (name === undefined || name === "inherit") return undefined;
  return Object.hasOwn(ids, name) ? ids[name] : Object.hasOwn(MODEL_IDS, name) ? MODEL_IDS[name] : name;
}
