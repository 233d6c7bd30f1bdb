/** Finds processes of the machine by a word of their command lines. */
import { readdirSync, readFileSync } from "node:fs";

/** Returns the command lines that contain `word`, arguments separated by spaces. One that ends meanwhile has none. */
export function commandLinesWith(word: string): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return line.includes(word) ? [line] : [];
    } catch {
      return [];
    }
  });
}
