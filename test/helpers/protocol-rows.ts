/** Parses the table of keys in `docs/protocol.md`, which tests compare with the code and with a Redis. */
import { readFileSync } from "node:fs";

const DOC = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");

/** A row of the table of keys. Its cells are unchanged: names of scripts and durations are in backticks. */
export interface ProtocolRow {
  name: string;
  /** Matches every key of the row under the prefix. */
  spelling: RegExp;
  type: string;
  stays: string;
  writtenBy: string;
  readBy: string;
}

/** Returns the rows of the table of keys under `prefix`; a key belongs to the first matching row. */
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
  // The rate-limit library appends its own part to this key.
  const ending = key.endsWith(":request-rate") ? ":.+" : "";
  return new RegExp(`^${words.map(exact).join("[^:{}]+")}${ending}$`);
}

/** Returns the texts in backticks of a cell. */
export function codeIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
}
