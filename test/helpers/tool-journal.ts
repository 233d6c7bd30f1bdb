/** The journal that the tools of the fixture's worker processes write: one JSON line per event. */
import { readFile } from "node:fs/promises";

/** One event of one tool call in one process. */
export interface JournalLine {
  /** Epoch ms of the process's clock. */
  at: number;
  pid: number;
  /** Id of the worker that has the tool, as in claims; process ids may be reused. */
  worker: string;
  uid: string;
  run: number;
  /** The `tool_use` id. */
  call: string;
  name: string;
  /** `began`: before any effect; `cut off`: its signal was aborted before it had finished. */
  what: "began" | "ended" | "cut off";
}

/** Reads all lines so far, in the order of the file; [] if there is no file. Leaves out an incomplete last line. */
export async function readJournal(path: string): Promise<JournalLine[]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line): JournalLine => JSON.parse(line));
}
