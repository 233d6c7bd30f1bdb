/** What the tools of the fixture's worker processes write down about themselves, one JSON line an event. */
import { readFile } from "node:fs/promises";

/** One event of one tool call in one process. */
export interface JournalLine {
  /** Epoch ms, the process' own clock. */
  at: number;
  pid: number;
  /** Id of the worker whose tool it is, as claims have it; process ids come round again. */
  worker: string;
  uid: string;
  run: number;
  /** The `tool_use` id. */
  call: string;
  name: string;
  /** `began`: before any effect; `cut off`: its signal was aborted before its time was over. */
  what: "began" | "ended" | "cut off";
}

/** Everything written so far, in the order of the file; empty when there is no file. A line being written is left out. */
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
