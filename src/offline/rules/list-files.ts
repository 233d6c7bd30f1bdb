/** Lists files. Pure. */
import { complaints, counted, foundPaths, globIn, wasCut } from "./lookup.ts";
import { answer, call, consult, type Rule } from "./rule.ts";

const MAX_LISTED = 100;

/** Globs for all files, or for those with the extension that the request names. */
export const listFiles: Rule = {
  name: "list-files",
  matches: (text) =>
    /\b(?:list|show)\b[^?!\n]{0,60}\bfiles\b|\b(?:what|which) (?:\S+ )?files (?:are|exist|do|does)\b/i.test(
      text,
    ),
  next(task) {
    const extension = /(?:^|\s)[`"']?\*?\.([a-z][a-z0-9]{0,7})\b[`"']?\s+files\b/i.exec(task.text)?.[1];
    const pattern = extension === undefined ? "**/*" : `**/*.${extension}`;
    const found = consult(task, globIn(task.places, pattern));
    if (found.status === "pending") return call("Listing files.", found.calls);
    if (found.steps.length === 0) return answer("I could not list files: `glob` may not be used now.");
    const trouble = complaints(found.steps);
    if (trouble !== "") return answer(`The files could not be listed: ${trouble}`);
    const paths = foundPaths(found.steps);
    const shown = paths.slice(0, MAX_LISTED).map((path) => `- ${path}`);
    const rest = paths.length - shown.length;
    if (paths.length === 0) return answer("There are no such files.");
    const atLeast = wasCut(found.steps) ? "at least " : "";
    return answer(
      [
        `${atLeast}${counted(paths.length, "file")}:`,
        ...shown,
        ...(rest > 0 ? [`and ${rest} more`] : []),
      ].join("\n"),
    );
  },
};
