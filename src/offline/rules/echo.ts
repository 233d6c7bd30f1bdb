/** The last resort: a short answer that quotes the request. Pure. */
import { shorten } from "./lookup.ts";
import { answer, type Rule } from "./rule.ts";

/** Matches everything. */
export const echo: Rule = {
  name: "echo",
  matches: () => true,
  next: (task) =>
    answer(`Request received: “${shorten(task.text.trim(), 300)}” There is nothing to look up for it.`),
};
