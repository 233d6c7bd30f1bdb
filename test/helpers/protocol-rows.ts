/** The keys' table of `docs/protocol.md`, as tests hold it against the code and against what a Redis does. */
import { readFileSync } from "node:fs";

const DOC = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");

/** A row of the keys' table. The cells are as they stand there; names of scripts and durations stand in backticks. */
export interface ProtocolRow {
  name: string;
  /** Fits every key of the row under the prefix. */
  spelling: RegExp;
  type: string;
  stays: string;
  writtenBy: string;
  readBy: string;
}

/** The rows of the keys' table under `prefix`; a key belongs to the first one that fits. */
export function protocolRows(prefix: string): ProtocolRow[] {
  const section = DOC.split(/^## /m).find((part) => part.startsWith("Keys\n")) ?? "";
  const lines = section.split("\n").filter((line) => line.startsWith("| `"));
  const rows = lines.map((line) => {
    const [name = "", key = "", type = "", stays = "", writtenBy = "", readBy = ""] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    const spelled = key.replaceAll("`", "");
    const row = { name: name.replaceAll("`", ""), spelling: spellingOf(spelled, prefix), type, stays };
    return { ...row, writtenBy, readBy, parts: spelled.split("<").length };
  });
  return rows.toSorted((a, b) => a.parts - b.parts);
}

function spellingOf(key: string, prefix: string): RegExp {
  const words = key.replace("saq", prefix).replace("<limiter>", "<>").split(/<\w+>/);
  const exact = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace("<>", ".+");
  // The library behind it adds a part of its own.
  const ending = key.endsWith(":request-rate") ? ":.+" : "";
  return new RegExp(`^${words.map(exact).join("[^:{}]+")}${ending}$`);
}

/** What stands in backticks in a cell. */
export function codeIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
}
